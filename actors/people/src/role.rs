//! Pure: the roles of people in a workspace, and the table of their permissions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use postrider_domain::Scope;

use crate::permission::{Permission, Permissions};

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

/// The rule by which a role has a permission.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grant {
    Yes,
    No,
    /// In a sandbox only, where nothing reaches anybody.
    Sandbox,
}

/// Returns the row of a permission, in the order of [`Role::ALL`]. The columns are owner, admin,
/// marketer, agent, analyst and developer.
const fn grants(permission: Permission) -> [Grant; 6] {
    use Grant::{No, Sandbox, Yes};
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
            Grant::Yes => true,
            Grant::Sandbox => sandbox,
            Grant::No => false,
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
