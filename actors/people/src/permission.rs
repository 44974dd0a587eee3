//! Pure: the permissions that operations need and callers have.

use std::fmt;

use postrider_domain::Scope;

/// The operations that need a sign-in or confirmation within the last ten minutes. They send data
/// elsewhere, weaken a sign-in, or read everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recent {
    /// No operation.
    Never,
    /// Each operation that does more than read.
    Changes,
    /// Each operation.
    Always,
}

impl Recent {
    /// Returns whether a recent sign-in is needed.
    #[must_use]
    pub const fn is_needed(self, reads: bool) -> bool {
        match self {
            Self::Never => false,
            Self::Changes => !reads,
            Self::Always => true,
        }
    }
}

macro_rules! permissions {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $scope:expr, $recent:ident;)*) => {
        /// The permission that one operation needs. Every operation names one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Permission {
            $($(#[$doc])* $name,)*
        }

        impl Permission {
            /// Every permission.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Returns the permission's name, such as `otp:send`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// Returns the scope that gives it to an API key, or `None` if no key has it.
            #[must_use]
            pub const fn scope(self) -> Option<Scope> {
                match self {
                    $(Self::$name => $scope,)*
                }
            }

            /// Returns which operations of this permission need a recent sign-in.
            #[must_use]
            pub const fn recent(self) -> Recent {
                match self {
                    $(Self::$name => Recent::$recent,)*
                }
            }
        }
    };
}

permissions! {
    /// Reading contacts, segments and opt-outs.
    ContactsRead = "contacts:read", Some(Scope::ContactsRead), Never;
    /// Reading all contacts at once.
    ContactsExport = "contacts:export", Some(Scope::ContactsRead), Always;
    /// Changing them, and importing.
    ContactsWrite = "contacts:write", Some(Scope::ContactsWrite), Never;
    /// Reading conversations.
    InboxRead = "inbox:read", Some(Scope::ContactsRead), Never;
    /// Replying, assigning, resolving.
    InboxWrite = "inbox:write", Some(Scope::ContactsWrite), Never;
    /// Reading broadcasts and their recipients.
    BroadcastsRead = "broadcasts:read", Some(Scope::MessagingSend), Never;
    /// Making and controlling broadcasts.
    BroadcastsWrite = "broadcasts:write", Some(Scope::MessagingSend), Never;
    /// Reading templates.
    TemplatesRead = "templates:read", Some(Scope::MessagingSend), Never;
    /// Adding and changing templates.
    TemplatesWrite = "templates:write", None, Never;
    /// Reading what became of one-time passwords.
    OtpRead = "otp:read", Some(Scope::MessagingSend), Never;
    /// Sending and verifying one-time passwords.
    OtpSend = "otp:send", Some(Scope::MessagingSend), Never;
    /// Reading what became of single messages.
    MessagesRead = "messages:read", Some(Scope::MessagingSend), Never;
    /// Sending single messages.
    MessagesSend = "messages:send", Some(Scope::MessagingSend), Never;
    /// Reading the event log.
    EventsRead = "events:read", Some(Scope::WebhooksManage), Never;
    /// Managing webhook endpoints.
    WebhooksManage = "webhooks:manage", Some(Scope::WebhooksManage), Changes;
    /// Reading analytics.
    AnalyticsRead = "analytics:read", Some(Scope::AnalyticsRead), Never;
    /// Making and revoking API keys.
    KeysManage = "keys:manage", None, Changes;
    /// Reading the newest requests.
    RequestsRead = "requests:read", None, Never;
    /// Inviting people and changing their roles.
    PeopleManage = "people:manage", None, Changes;
    /// Connecting and disconnecting numbers.
    NumbersManage = "numbers:manage", None, Changes;
    /// Changing the workspace's settings.
    SettingsWrite = "settings:write", None, Changes;
    /// Deleting the workspace.
    WorkspaceDelete = "workspace:delete", None, Changes;
    /// Making and unmaking owners.
    OwnersManage = "owners:manage", None, Changes;
    /// Everything below `/v1/sandbox`.
    SandboxUse = "sandbox:use", Some(Scope::MessagingSend), Never;
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of permissions: one bit for each. It is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Permissions(u32);
const _: () = assert!(Permission::ALL.len() <= u32::BITS as usize);

impl Permissions {
    /// Returns every permission.
    #[must_use]
    pub fn all() -> Self {
        Permission::ALL.iter().copied().collect()
    }

    /// Returns whether `permission` is in the set.
    #[must_use]
    pub const fn contains(self, permission: Permission) -> bool {
        self.0 & (1 << permission as u32) != 0
    }

    /// Returns the permissions of the set, in the order of their declaration.
    pub fn iter(self) -> impl Iterator<Item = Permission> {
        Permission::ALL.iter().copied().filter(move |permission| self.contains(*permission))
    }
}

impl FromIterator<Permission> for Permissions {
    fn from_iter<I: IntoIterator<Item = Permission>>(permissions: I) -> Self {
        Self(permissions.into_iter().fold(0, |set, permission| set | (1 << permission as u32)))
    }
}
