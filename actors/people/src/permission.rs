//! Pure: the permissions that operations need, and the roles that give them in a workspace.

use std::fmt;
use std::str::FromStr;

use postrider_domain::Scope;
use serde::{Deserialize, Serialize};

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

/// The role of a person in a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// May do everything, and make others owners.
    Owner,
    /// May do everything but delete the workspace and make owners.
    Admin,
    /// Sends broadcasts and keeps contacts.
    Marketer,
    /// Answers conversations.
    Agent,
    /// Reads what broadcasts brought.
    Analyst,
    /// Connects programs, and tries everything in a sandbox.
    Developer,
}

/// The text is not the name of a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be one of owner, admin, marketer, agent, analyst, developer")]
pub struct RoleError;

/// The condition under which a role has a permission.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RoleGrant {
    Yes,
    No,
    /// In a sandbox only, where nothing reaches anybody.
    Sandbox,
}

/// Returns the row of a permission, in the order of [`Role::ALL`]. The columns are owner, admin,
/// marketer, agent, analyst and developer.
const fn grants(permission: Permission) -> [RoleGrant; 6] {
    use RoleGrant::{No, Sandbox, Yes};
    match permission {
        Permission::ContactsRead | Permission::ContactsExport | Permission::InboxRead => {
            [Yes, Yes, Yes, Yes, No, Yes]
        }
        Permission::InboxWrite => [Yes, Yes, No, Yes, No, Sandbox],
        Permission::ContactsWrite | Permission::BroadcastsWrite => [Yes, Yes, Yes, No, No, Sandbox],
        Permission::BroadcastsRead => [Yes, Yes, Yes, No, Yes, Yes],
        Permission::TemplatesRead => [Yes, Yes, Yes, Yes, No, Yes],
        Permission::TemplatesWrite => [Yes, Yes, Yes, No, No, Yes],
        Permission::OtpSend | Permission::MessagesSend => [Yes, Yes, No, No, No, Sandbox],
        Permission::AnalyticsRead => [Yes, Yes, Yes, No, Yes, Yes],
        Permission::OtpRead
        | Permission::MessagesRead
        | Permission::EventsRead
        | Permission::WebhooksManage
        | Permission::KeysManage
        | Permission::RequestsRead => [Yes, Yes, No, No, No, Yes],
        Permission::PeopleManage | Permission::NumbersManage | Permission::SettingsWrite => {
            [Yes, Yes, No, No, No, No]
        }
        Permission::WorkspaceDelete | Permission::OwnersManage => [Yes, No, No, No, No, No],
        Permission::SandboxUse => [Sandbox, Sandbox, Sandbox, Sandbox, No, Sandbox],
    }
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 6] =
        [Self::Owner, Self::Admin, Self::Marketer, Self::Agent, Self::Analyst, Self::Developer];

    /// Returns the role's name, such as `agent`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Admin => "admin",
            Self::Marketer => "marketer",
            Self::Agent => "agent",
            Self::Analyst => "analyst",
            Self::Developer => "developer",
        }
    }

    /// Returns whether the role allows anything that the other one does not.
    #[must_use]
    pub fn may_more_than(self, other: Self) -> bool {
        let others = other.permissions(true);
        self.permissions(true).iter().any(|permission| !others.contains(permission))
    }

    /// Returns the permissions of the role.
    #[must_use]
    pub fn permissions(self, sandbox: bool) -> Permissions {
        let has = |permission: &Permission| match grants(*permission)[self as usize] {
            RoleGrant::Yes => true,
            RoleGrant::Sandbox => sandbox,
            RoleGrant::No => false,
        };
        Permission::ALL.iter().copied().filter(has).collect()
    }
}

impl Permissions {
    /// Returns the permission that is missing for giving a key a scope. It is the first permission
    /// that the scope gives in such a workspace and that the set lacks.
    #[must_use]
    pub fn lacks_for(self, scope: Scope, sandbox: bool) -> Option<Permission> {
        let all = Role::Owner.permissions(sandbox);
        all.iter().find(|it| it.scope() == Some(scope) && !self.contains(*it))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = RoleError;

    fn from_str(text: &str) -> Result<Self, RoleError> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or(RoleError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table as people read it: a row for each permission, a column for each role.
    const TABLE: &str = "\
        contacts:read     y y y y - y
        contacts:export   y y y y - y
        contacts:write    y y y - - s
        inbox:read        y y y y - y
        inbox:write       y y - y - s
        broadcasts:read   y y y - y y
        broadcasts:write  y y y - - s
        templates:read    y y y y - y
        templates:write   y y y - - y
        otp:read          y y - - - y
        otp:send          y y - - - s
        messages:read     y y - - - y
        messages:send     y y - - - s
        events:read       y y - - - y
        webhooks:manage   y y - - - y
        analytics:read    y y y - y y
        keys:manage       y y - - - y
        requests:read     y y - - - y
        people:manage     y y - - - -
        numbers:manage    y y - - - -
        settings:write    y y - - - -
        workspace:delete  y - - - - -
        owners:manage     y - - - - -
        sandbox:use       s s s s - s";

    #[test]
    fn a_role_has_what_the_table_says() {
        let rows: Vec<_> = TABLE.lines().map(|line| line.split_whitespace()).collect();
        assert_eq!(rows.len(), Permission::ALL.len());
        for (mut row, permission) in rows.into_iter().zip(Permission::ALL) {
            assert_eq!(row.next(), Some(permission.as_str()));
            for role in Role::ALL {
                let grant = row.next().unwrap();
                let has = |sandbox| role.permissions(sandbox).contains(*permission);
                assert_eq!(
                    (has(false), has(true)),
                    (grant == "y", grant != "-"),
                    "{role} {permission}"
                );
            }
        }
    }

    #[test]
    fn a_role_has_one_name() {
        for role in Role::ALL {
            assert_eq!(role.as_str().parse(), Ok(role));
            assert_eq!(serde_names(role), role.as_str());
        }
        assert_eq!("Owner".parse::<Role>(), Err(RoleError));
    }

    fn serde_names(role: Role) -> String {
        let json = postrider_store::view::codec::encode(&role);
        String::from_utf8(json).unwrap().trim_matches('"').to_owned()
    }
}
