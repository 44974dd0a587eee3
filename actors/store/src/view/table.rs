//! Pure: the tables of records, and their names on disk.

/// A table of records, with an ordered key space of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// State of the engine as a whole, such as its epoch and clock offset.
    Meta,
    /// Workspaces, their settings, credits and numbers.
    Workspaces,
    /// API keys, by id.
    Keys,
    /// Token buckets that are not full.
    Buckets,
    /// The workspaces' event logs, in chunks.
    Events,
    /// Responses that are repeated for an idempotency key.
    Idempotency,
    /// Contacts, and the contact of each phone.
    Contacts,
    /// The indexes by which contacts are listed and searched.
    ContactIndex,
    /// Saved filters of contacts.
    Segments,
    /// Conversations and their messages.
    Conversations,
    /// Webhook endpoints and the progress of their deliveries.
    Webhooks,
    /// Single messages, with their status and content.
    Messages,
    /// The times of contacts' last messages to a number, which open the service window.
    Windows,
    /// The phone numbers by which the provider knows a phone, where they differ from ours.
    Aliases,
    /// Ids of recent callbacks, by which repeated ones are detected.
    Received,
    /// Templates.
    Templates,
    /// Broadcasts and their status.
    Broadcasts,
    /// The recipients of broadcasts, in segments.
    BroadcastAudience,
    /// The index of a broadcast's recipients by phone.
    BroadcastPhones,
    /// The outcomes of a broadcast's messages, in windows.
    BroadcastOutcomes,
    /// The provider's later reports on a broadcast's messages, in windows.
    BroadcastReports,
    /// The provider's ids of a broadcast's messages.
    BroadcastNames,
    /// Phones that have opted out.
    Suppressions,
    /// Counts by day, of broadcasts, advertisements, one-time passwords and conversations.
    Analytics,
    /// E-mail settings of the workspaces, and the secret that signs inbound mail.
    Mails,
    /// Mails that were not sent yet.
    MailQueue,
    /// The audit log. The writer numbers its records and chains them by their hashes.
    Audit,
    /// The outcomes of ended one-time passwords.
    Otps,
    /// The index by which single messages are found.
    MessageIndex,
    /// Files, whose contents are beside the records.
    Media,
    /// The index by which one-time passwords that have ended are found.
    OtpIndex,
    /// Budgets of portfolios, and the recipients that count towards them.
    Portfolios,
    /// The index of the event logs by the subjects of events.
    EventIndex,
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
        Self::BroadcastNames,
        Self::Suppressions,
        Self::Analytics,
        Self::Mails,
        Self::MailQueue,
        Self::Audit,
        Self::Otps,
        Self::MessageIndex,
        Self::Media,
        Self::OtpIndex,
        Self::Portfolios,
        Self::EventIndex,
    ];

    /// Returns whether the records belong to workspaces, with keys that start with `workspace ‖ 0`.
    #[must_use]
    pub const fn is_of_workspaces(self) -> bool {
        !matches!(self, Self::Meta | Self::Keys | Self::Buckets | Self::Audit)
    }

    /// Returns whether its records are not changed after they were written, and their keys not used
    /// again: the keys have the sequence or the id of something new.
    #[must_use]
    pub const fn is_written_once(self) -> bool {
        matches!(self, Self::Events | Self::Otps | Self::OtpIndex | Self::MessageIndex)
    }

    /// Returns the table's name on disk. It must never change.
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
            Self::BroadcastNames => "broadcast_names",
            Self::BroadcastPhones => "broadcast_phones",
            Self::BroadcastOutcomes => "broadcast_outcomes",
            Self::Suppressions => "suppressions",
            Self::Analytics => "analytics",
            Self::Mails => "mails",
            Self::MailQueue => "mail_queue",
            Self::Audit => "audit",
            Self::Otps => "otps",
            Self::MessageIndex => "message_index",
            Self::Media => "media",
            Self::OtpIndex => "otp_index",
            Self::Portfolios => "portfolios",
            Self::EventIndex => "event_index",
        }
    }

    /// Returns the table's number in the log. It must never change.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Meta => 1,
            Self::Workspaces => 2,
            Self::Keys => 3,
            Self::Buckets => 4,
            Self::Events => 5,
            Self::Idempotency => 6,
            Self::Contacts => 7,
            Self::ContactIndex => 8,
            Self::Segments => 9,
            Self::Conversations => 10,
            Self::Webhooks => 11,
            Self::Messages => 12,
            Self::Windows => 13,
            Self::Aliases => 14,
            Self::Received => 15,
            Self::Templates => 16,
            Self::Broadcasts => 17,
            Self::BroadcastAudience => 18,
            Self::BroadcastPhones => 19,
            Self::BroadcastOutcomes => 20,
            Self::BroadcastReports => 21,
            Self::Suppressions => 22,
            Self::Analytics => 23,
            Self::Mails => 24,
            Self::MailQueue => 25,
            Self::Audit => 26,
            Self::Otps => 27,
            Self::MessageIndex => 28,
            Self::Media => 29,
            Self::OtpIndex => 30,
            Self::Portfolios => 31,
            Self::BroadcastNames => 32,
            Self::EventIndex => 33,
        }
    }

    /// Returns the table with this number in the log.
    #[must_use]
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|table| table.number() == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_its_number_in_the_log() {
        for table in Table::ALL.iter().copied() {
            assert_eq!(postrider_log::table::number(table.name()), Some(table.number()));
            assert_eq!(Table::of_number(table.number()), Some(table));
        }
        assert_eq!(postrider_log::table::NUMBERS.len(), Table::ALL.len());
        assert_eq!(Table::of_number(0), None);
    }
}
