//! The kinds of records and their names on disk.

/// The kinds of records, each with an ordered key space of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Facts about the engine as a whole: epoch, clock offset.
    Meta,
    /// Workspaces, their settings, credits and numbers.
    Workspaces,
    /// API keys, by id.
    Keys,
    /// Token buckets that are not full.
    Buckets,
    /// The workspaces' event logs, in chunks.
    Events,
    /// Answers that are given again under an idempotency key.
    Idempotency,
    /// Contacts, and who has a phone.
    Contacts,
    /// What contacts are listed and searched by.
    ContactIndex,
    /// Saved filters of contacts.
    Segments,
    /// Conversations, and what was written in them.
    Conversations,
    /// Webhook endpoints, and what follows their deliveries.
    Webhooks,
    /// Single messages: where each stands, and what it says.
    Messages,
    /// When a contact last wrote to a number.
    Windows,
    /// What the provider calls those whose phone it knows by another number.
    Aliases,
    /// What was received lately, to know repeated callbacks by.
    Received,
    /// Templates.
    Templates,
    /// Broadcasts: what each is, and how far it is.
    Broadcasts,
    /// The recipients of broadcasts, in segments.
    BroadcastAudience,
    /// The places of a broadcast's recipients, by phone.
    BroadcastPhones,
    /// What became of a broadcast's messages, in windows.
    BroadcastOutcomes,
    /// What the provider reported of a broadcast's messages later, in windows.
    BroadcastReports,
    /// Who has opted out.
    Suppressions,
    /// What is counted by day: of broadcasts and of advertisements.
    Analytics,
    /// Mails of the workspaces', and the secret that signs those that come in.
    Mails,
    /// Mails that have not left yet.
    MailQueue,
}

impl Table {
    /// Every table.
    pub const ALL: &'static [Self] = &[
        Self::Meta,
        Self::Workspaces,
        Self::Keys,
        Self::Buckets,
        Self::Events,
        Self::Idempotency,
        Self::Contacts,
        Self::ContactIndex,
        Self::Segments,
        Self::Conversations,
        Self::Webhooks,
        Self::Messages,
        Self::Windows,
        Self::Aliases,
        Self::Received,
        Self::Templates,
        Self::Broadcasts,
        Self::BroadcastAudience,
        Self::BroadcastPhones,
        Self::BroadcastOutcomes,
        Self::BroadcastReports,
        Self::Suppressions,
        Self::Analytics,
        Self::Mails,
        Self::MailQueue,
    ];

    /// The table's name on disk.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::Workspaces => "workspaces",
            Self::Keys => "keys",
            Self::Buckets => "buckets",
            Self::Events => "events",
            Self::Idempotency => "idempotency",
            Self::Contacts => "contacts",
            Self::ContactIndex => "contact_index",
            Self::Segments => "segments",
            Self::Conversations => "conversations",
            Self::Webhooks => "webhooks",
            Self::Messages => "messages",
            Self::Windows => "windows",
            Self::Aliases => "aliases",
            Self::Received => "received",
            Self::Templates => "templates",
            Self::Broadcasts => "broadcasts",
            Self::BroadcastAudience => "broadcast_audience",
            Self::BroadcastReports => "broadcast_reports",
            Self::BroadcastPhones => "broadcast_phones",
            Self::BroadcastOutcomes => "broadcast_outcomes",
            Self::Suppressions => "suppressions",
            Self::Analytics => "analytics",
            Self::Mails => "mails",
            Self::MailQueue => "mail_queue",
        }
    }
}
