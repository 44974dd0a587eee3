//! The session of a request, and its holder's permissions.

use std::sync::Arc;

use postrider_domain::{ActorKind, AuditActor, WorkspaceId};

use crate::permission::Permissions;
use crate::person::Person;
use crate::session::{Session, SessionHolder};

/// The session of a request, and its person.
#[derive(Debug, Clone)]
pub struct SignedIn {
    /// The session.
    pub session: Arc<Session>,
    /// The person; `None` for a holder of an admin token.
    pub person: Option<Arc<Person>>,
}

impl SignedIn {
    /// Returns whether the holder may do everything.
    #[must_use]
    pub fn is_operator(&self) -> bool {
        self.person.as_ref().is_none_or(|person| person.operator)
    }

    /// Returns the holder's permissions in a workspace, or `None` if they have no role there.
    #[must_use]
    pub fn permissions_in(&self, workspace: &WorkspaceId, sandbox: bool) -> Option<Permissions> {
        if self.is_operator() {
            return Some(Permissions::all());
        }
        let role = self.person.as_ref()?.role_in(workspace)?;
        Some(role.permissions(sandbox))
    }

    /// Returns the actor as the audit log names them.
    #[must_use]
    pub fn actor(&self) -> AuditActor {
        match (&self.session.record().holder, &self.person) {
            (_, Some(person)) => AuditActor {
                kind: ActorKind::User,
                id: Some(person.id.to_string().into()),
                name: Some(person.email.as_str().into()),
            },
            (SessionHolder::AdminToken { id, name, .. }, None) => {
                AuditActor { kind: ActorKind::AdminToken, id: id.clone(), name: name.clone() }
            }
            // A person's session is known only with the person.
            (SessionHolder::Person(_), None) => AuditActor::of_kind(ActorKind::Anonymous),
        }
    }
}
