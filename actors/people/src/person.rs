//! People as they are stored, with their roles in workspaces.

use std::fmt;

use postrider_domain::{
    ActorKind, AuditActor, AuditContext, AuditEntry, ContactError, Email, PersonId, Timestamp,
    WorkspaceId,
};
use postrider_store::view::codec;
use postrider_store::{Change, Table};
use serde::{Deserialize, Serialize};

use crate::authenticator::Authenticator;
use crate::password::PasswordHash;
use crate::permission::Role;

/// The prefix of a person's row in [`Table::Meta`]. The id follows.
pub(crate) const PERSON_ROW: &[u8] = b"person/";
/// The domain in the addresses of people who sign in at the machine itself.
const LOCAL: &str = "@localhost";

/// The address that identifies a person: in lower case, otherwise as typed.
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
            // The same rules hold for the part before it.
            Some(name) => (format!("{name}@localhost.invalid"), true),
            None => (text.clone(), false),
        };
        Email::new(&checked)?;
        debug_assert!(is_local || checked == text);
        Ok(Self(text.into()))
    }

    /// Returns the address.
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

/// A person's role in one workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The person's role there.
    pub role: Role,
}

/// A person who may sign in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// The person's id.
    pub id: PersonId,
    /// The e-mail address; no two people have the same.
    pub email: Login,
    /// The name that others see; the address at first.
    pub name: Box<str>,
    /// Set if the person may do everything on this server.
    pub operator: bool,
    /// Set if the person may not sign in.
    pub disabled: bool,
    /// The time at which the person was made.
    pub created_at: Timestamp,
    /// The person's roles in workspaces.
    pub memberships: Vec<Membership>,
    /// The hash of the password; `None` if the person signs in by links only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) password: Option<PasswordHash>,
    /// The authenticator whose codes they sign in with besides a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) authenticator: Option<Authenticator>,
    /// Set if only an invite vouches for the address. The inviter sees the invite's token, and may
    /// have accepted it in place of the address's owner.
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

    /// Returns the person after an operator has vouched for the address. It removes the credentials
    /// of a stranger who took the address. The caller has to end the sessions.
    pub(crate) fn vouched_for(self) -> Self {
        match self.unproven {
            true => Self { password: None, authenticator: None, unproven: false, ..self },
            false => self,
        }
    }

    /// Returns the person without password and authenticator.
    #[must_use]
    pub fn without_secrets(&self) -> Self {
        Self { password: None, authenticator: None, ..self.clone() }
    }

    /// Returns the person's role in a workspace.
    #[must_use]
    pub fn role_in(&self, workspace: &WorkspaceId) -> Option<Role> {
        self.memberships.iter().find(|it| it.workspace == *workspace).map(|it| it.role)
    }

    /// Returns whether the person has a password.
    #[must_use]
    pub const fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// Returns whether the person has an authenticator.
    #[must_use]
    pub const fn has_authenticator(&self) -> bool {
        self.authenticator.is_some()
    }

    /// Returns the person with this role in the workspace, or as no member with `None`.
    pub(crate) fn with_role(mut self, workspace: &WorkspaceId, role: Option<Role>) -> Self {
        self.memberships.retain(|it| it.workspace != *workspace);
        let workspace = workspace.clone();
        self.memberships.extend(role.map(|role| Membership { workspace, role }));
        self
    }

    /// Returns the entry of the person's creation in the audit log.
    pub(crate) fn created_entry(&self) -> AuditEntry {
        let entry = AuditEntry::new("user.create").target(self.id);
        entry.change("email", self.email.as_str()).change("operator", self.operator)
    }

    /// Returns the context in which the audit log names the person as the actor.
    pub(crate) fn context(&self, arrived: &AuditContext) -> AuditContext {
        let actor = AuditActor {
            kind: ActorKind::User,
            id: Some(self.id.to_string().into()),
            name: Some(self.email.as_str().into()),
        };
        AuditContext { actor, ..arrived.clone() }
    }

    pub(crate) fn put(&self) -> Change {
        Change::put(Table::Meta, [PERSON_ROW, self.id.as_bytes()].concat(), codec::encode(self))
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
