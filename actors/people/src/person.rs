//! People as they are stored: who they are, and what they are in which workspace.

use std::fmt;

use serde::{Deserialize, Serialize};

use postrider_domain::{
    ActorKind, AuditActor, AuditContext, AuditEntry, ContactError, Email, PersonId, Timestamp,
    WorkspaceId,
};
use postrider_store::view::codec;
use postrider_store::{Change, Table};

use crate::authenticator::Authenticator;
use crate::password::PasswordHash;
use crate::role::Role;

/// What a person's row begins with in [`Table::Meta`]. The id follows.
pub(crate) const ROW: &[u8] = b"person/";
/// The end of the addresses of people who sign in at the machine itself.
const LOCAL: &str = "@localhost";

/// The address by which somebody is known: in lower case, whole as it is typed otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Login(Box<str>);

impl Login {
    /// Validates an e-mail address; its domain may be `localhost`.
    ///
    /// # Errors
    /// [`ContactError::Email`]
    pub fn new(text: &str) -> Result<Self, ContactError> {
        let text = text.trim().to_lowercase();
        let (checked, is_local) = match text.strip_suffix(LOCAL) {
            // The same rules hold for what stands before it.
            Some(name) => (format!("{name}@localhost.invalid"), true),
            None => (text.clone(), false),
        };
        Email::new(&checked)?;
        debug_assert!(is_local || checked == text);
        Ok(Self(text.into()))
    }

    /// The address.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What somebody is in one workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// What they are there.
    pub role: Role,
}

/// Somebody who may sign in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// Names them.
    pub id: PersonId,
    /// Their e-mail address; no two people have the same.
    pub email: Login,
    /// What others call them; their address at first.
    pub name: Box<str>,
    /// Whether they may do everything on this server.
    pub operator: bool,
    /// Whether they may not sign in.
    pub disabled: bool,
    /// When they were made.
    pub created_at: Timestamp,
    /// What they are in which workspace.
    pub memberships: Vec<Membership>,
    /// What their password is checked against; `None`: they sign in by links only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) password: Option<PasswordHash>,
    /// What shows the codes that they sign in with besides a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) authenticator: Option<Authenticator>,
    /// Whether nothing but an invite vouches for the address. Whoever made the invite sees its
    /// token, and may have accepted it in place of the address's owner.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unproven: bool,
}

impl Person {
    pub(crate) fn new(id: PersonId, email: Login, created_at: Timestamp) -> Self {
        let name = email.as_str().into();
        Self {
            id,
            email,
            name,
            operator: false,
            disabled: false,
            created_at,
            memberships: Vec::new(),
            password: None,
            authenticator: None,
            unproven: false,
        }
    }

    /// The same once an operator vouches for the address: nobody who took it in place of its owner
    /// gets in. Their sessions are the caller's to end.
    pub(crate) fn vouched_for(self) -> Self {
        match self.unproven {
            true => Self { password: None, authenticator: None, unproven: false, ..self },
            false => self,
        }
    }

    /// What they are in a workspace.
    #[must_use]
    pub fn role_in(&self, workspace: &WorkspaceId) -> Option<Role> {
        self.memberships.iter().find(|it| it.workspace == *workspace).map(|it| it.role)
    }

    /// Whether they have a password.
    #[must_use]
    pub const fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// Whether they have an authenticator.
    #[must_use]
    pub const fn has_authenticator(&self) -> bool {
        self.authenticator.is_some()
    }

    /// The same with this role in the workspace; `None`: no member of it.
    pub(crate) fn with_role(mut self, workspace: &WorkspaceId, role: Option<Role>) -> Self {
        self.memberships.retain(|it| it.workspace != *workspace);
        let workspace = workspace.clone();
        self.memberships.extend(role.map(|role| Membership { workspace, role }));
        self
    }

    /// What the audit log records when they are made.
    pub(crate) fn created_entry(&self) -> AuditEntry {
        let entry = AuditEntry::new("user.create").target(self.id);
        entry.change("email", self.email.as_str()).change("operator", self.operator)
    }

    /// How the audit log names them as the one who acts.
    pub(crate) fn context(&self, arrived: &AuditContext) -> AuditContext {
        let actor = AuditActor {
            kind: ActorKind::User,
            id: Some(self.id.to_string().into()),
            name: Some(self.email.as_str().into()),
        };
        AuditContext { actor, ..arrived.clone() }
    }

    pub(crate) fn put(&self) -> Change {
        Change::put(Table::Meta, [ROW, self.id.as_bytes()].concat(), codec::encode(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_kept_in_lower_case() {
        assert_eq!(Login::new(" Ada@Acme.COM ").unwrap().as_str(), "ada@acme.com");
        assert_eq!(Login::new("owner@localhost").unwrap().as_str(), "owner@localhost");
        for bad in ["", "ada", "@localhost", "a b@localhost", "ada@host", "a@b@localhost"] {
            assert!(Login::new(bad).is_err(), "{bad}");
        }
    }
}
