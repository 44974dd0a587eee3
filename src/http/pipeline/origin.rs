//! The origin of a request for the logs: its caller, address and id.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::request::Parts;
use postrider_actors::domain::{ActorKind, AuditActor, AuditContext, PersonId};
use postrider_actors::{Caller, Session, SignedIn};

use super::request_id::RequestId;

/// The prefix of the paths whose next part is a workspace.
const WORKSPACES: &str = "/admin/v1/workspaces/";

/// The caller of a request, as far as its guard knows them.
#[derive(Debug, Clone)]
pub(crate) enum Identity {
    /// An unknown caller.
    Anonymous,
    /// The holder of an API key.
    Key(Arc<Caller>),
    /// A person who has signed in.
    Person(SignedIn),
    /// The holder of an admin token.
    Administrator {
        /// The token's id, if it has one.
        id: Option<Box<str>>,
        /// The token's name, if it has one.
        name: Option<Box<str>>,
    },
}

impl Identity {
    /// Returns whether the caller operates the server.
    pub(super) fn operates(&self) -> bool {
        match self {
            Self::Person(who) => who.is_operator(),
            Self::Administrator { .. } => true,
            Self::Anonymous | Self::Key(_) => false,
        }
    }

    /// Returns the caller's id, if they are a person.
    pub(super) fn person(&self) -> Option<PersonId> {
        match self {
            Self::Person(who) => who.person.as_ref().map(|person| person.id),
            _ => None,
        }
    }

    /// Returns the API key of the request.
    pub(super) fn key(&self) -> Option<&Caller> {
        match self {
            Self::Key(caller) => Some(caller),
            Self::Anonymous | Self::Person(_) | Self::Administrator { .. } => None,
        }
    }

    /// Returns the session of the request.
    pub(super) fn session(&self) -> Option<&Session> {
        match self {
            Self::Person(signed_in) => Some(&signed_in.session),
            Self::Anonymous | Self::Key(_) | Self::Administrator { .. } => None,
        }
    }

    /// Returns the caller as the audit log names them.
    pub(crate) fn actor(&self) -> AuditActor {
        match self {
            Self::Anonymous => AuditActor::of_kind(ActorKind::Anonymous),
            Self::Key(caller) => AuditActor {
                kind: ActorKind::Key,
                id: Some(caller.key_id.to_string().into()),
                name: Some(caller.key_name().into()),
            },
            Self::Person(signed_in) => signed_in.actor(),
            Self::Administrator { id, name } => {
                AuditActor { kind: ActorKind::AdminToken, id: id.clone(), name: name.clone() }
            }
        }
    }
}

/// The origin of a request.
#[derive(Debug, Clone)]
pub(crate) struct RequestOrigin {
    pub(super) identity: Identity,
    pub(super) address: IpAddr,
    pub(super) request_id: RequestId,
}

impl RequestOrigin {
    pub(super) fn audit_context(&self) -> Arc<AuditContext> {
        Arc::new(AuditContext {
            actor: self.identity.actor(),
            address: Some(self.address.to_string().into()),
            request_id: Some(self.request_id.as_str().into()),
        })
    }
}

/// Returns the workspace that the path of an administrative request names.
pub(super) fn named_workspace(parts: &Parts) -> Option<Box<str>> {
    let rest = parts.uri.path().strip_prefix(WORKSPACES)?;
    Some(rest.split('/').next()?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_an_administrative_request_names_a_workspace() {
        let named = |path: &str| {
            let request = axum::http::Request::builder().uri(path).body(()).unwrap();
            named_workspace(&request.into_parts().0)
        };
        assert_eq!(named("/admin/v1/workspaces/acme/keys?page=1").as_deref(), Some("acme"));
        assert_eq!(named("/admin/v1/workspaces/acme").as_deref(), Some("acme"));
        for other in ["/admin/v1/workspaces", "/admin/v1/audit", "/v1/webhooks"] {
            assert_eq!(named(other), None, "{other}");
        }
    }
}
