//! Pure: records of the audit log: the change, its author, the address and the request.
//!
//! The code that makes a change holds an [`AuditContext`] of its caller and an [`AuditEntry`] of
//! the change. Together they make the [`AuditRecord`] that is committed with the change. No field
//! may hold a secret, a code or the text of a message.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{AuditId, WorkspaceId};

/// The text recorded for a new value that must not be repeated.
const CONCEALED: &str = "changed";

/// The kind of an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    /// A holder of an admin token.
    AdminToken,
    /// A holder of an API key.
    Key,
    /// A person who has signed in.
    User,
    /// The server itself, or the program that the engine is embedded in.
    System,
    /// A caller that was not authenticated.
    Anonymous,
}

impl ActorKind {
    /// Returns the name in records and filters.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AdminToken => "admin_token",
            Self::Key => "key",
            Self::User => "user",
            Self::System => "system",
            Self::Anonymous => "anonymous",
        }
    }
}

/// The author of a change.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AuditActor {
    /// The kind of the actor.
    pub kind: ActorKind,
    /// Its identifier, such as that of an API key.
    pub id: Option<Box<str>>,
    /// Its name, for people.
    pub name: Option<Box<str>>,
}

impl AuditActor {
    /// Creates an actor of this kind, without an id and a name.
    #[must_use]
    pub const fn of_kind(kind: ActorKind) -> Self {
        Self { kind, id: None, name: None }
    }
}

/// The caller of a change, its address, and its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditContext {
    /// The caller.
    pub actor: AuditActor,
    /// The network address of the caller.
    pub address: Option<Box<str>>,
    /// The identifier of the request, as in the server's log.
    pub request_id: Option<Box<str>>,
}

impl AuditContext {
    /// Returns the context of a change that the server makes by itself.
    #[must_use]
    pub const fn system() -> Self {
        let actor = AuditActor::of_kind(ActorKind::System);
        Self { actor, address: None, request_id: None }
    }
}

/// One change, without its author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    action: &'static str,
    target: Option<Box<str>>,
    workspace: Option<WorkspaceId>,
    changes: Map<String, Value>,
}

impl AuditEntry {
    /// Creates the entry of a change such as `key.create`.
    #[must_use]
    pub fn new(action: &'static str) -> Self {
        Self { action, target: None, workspace: None, changes: Map::new() }
    }

    /// Sets the changed object.
    #[must_use]
    pub fn target(mut self, target: impl ToString) -> Self {
        self.target = Some(target.to_string().into());
        self
    }

    /// Sets the workspace of the changed object.
    #[must_use]
    pub fn workspace(mut self, workspace: &WorkspaceId) -> Self {
        self.workspace = Some(workspace.clone());
        self
    }

    /// Adds a new value, which must not be a secret. A value without a JSON form becomes null.
    #[must_use]
    pub fn change(mut self, name: &str, value: impl Serialize) -> Self {
        self.changes.insert(name.to_owned(), serde_json::to_value(value).unwrap_or_default());
        self
    }

    /// Adds a new value if there is one.
    #[must_use]
    pub fn change_if_some(self, name: &str, value: Option<impl Serialize>) -> Self {
        match value {
            Some(value) => self.change(name, value),
            None => self,
        }
    }

    /// Adds a change of a secret, or of a text that must not be repeated, if it was set.
    #[must_use]
    pub fn change_concealed(self, name: &str, is_set: bool) -> Self {
        if is_set { self.change(name, CONCEALED) } else { self }
    }

    /// Adds the old value of a change, which must not be a secret either. Both values are recorded,
    /// as `from` and `to`. A name that the entry does not have, or that is concealed, is ignored.
    pub fn replaces(&mut self, name: &str, from: impl Serialize) {
        if let Some(to) = self.changes.get_mut(name).filter(|to| **to != *CONCEALED) {
            let from = serde_json::to_value(from).unwrap_or_default();
            *to = serde_json::json!({ "from": from, "to": to.take() });
        }
    }

    /// Returns the record of this change by that caller.
    #[must_use]
    pub fn record(self, id: AuditId, context: &AuditContext) -> AuditRecord {
        let AuditContext { actor, address, request_id } = context.clone();
        let Self { action, target, workspace, changes } = self;
        let action = action.into();
        AuditRecord { id, actor, action, target, workspace, address, request_id, changes }
    }
}

/// A record of the audit log, without its time and its place in the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// The record's id.
    pub id: AuditId,
    /// The author of the change.
    pub actor: AuditActor,
    /// The operation, such as `key.create`.
    pub action: Box<str>,
    /// The changed object.
    pub target: Option<Box<str>>,
    /// The workspace that it belongs to.
    pub workspace: Option<WorkspaceId>,
    /// The network address of the caller.
    pub address: Option<Box<str>>,
    /// The identifier of the request.
    pub request_id: Option<Box<str>>,
    /// The new values by name; for a value that was changed also the old one, as `from` and `to`.
    pub changes: Map<String, Value>,
}

/// Returns the scheme, host and port of a URL. Its path may hold a secret, such as a token.
#[must_use]
pub fn origin(url: &str) -> String {
    url::Url::parse(url).map_or_else(|_| String::new(), |url| url.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    #[test]
    fn an_entry_and_its_context_make_a_record_without_secrets() {
        let workspace: WorkspaceId = "acme".parse().unwrap();
        let mut entry = AuditEntry::new("number.update")
            .target("num_1")
            .workspace(&workspace)
            .change("messages_per_second", 80)
            .change("enabled", true)
            .change_if_some("phone", None::<&str>)
            .change_concealed("token", true)
            .change_concealed("app_secret", false);
        entry.replaces("messages_per_second", 20);
        entry.replaces("token", "the old one");
        entry.replaces("kind", "it is not changed");
        let context = AuditContext { address: Some("192.0.2.7".into()), ..AuditContext::system() };
        let id = AuditId::from_parts(Timestamp::from_millis(1), 2);
        let json = serde_json::to_value(entry.record(id, &context)).unwrap();
        let expected = serde_json::json!({
            "id": id.to_string(),
            "actor": {"kind": "system", "id": null, "name": null},
            "action": "number.update",
            "target": "num_1",
            "workspace": "acme",
            "address": "192.0.2.7",
            "request_id": null,
            "changes": {"messages_per_second": {"from": 20, "to": 80}, "enabled": true,
                "token": "changed"},
        });
        assert_eq!(json, expected);
        assert_eq!(serde_json::to_value(ActorKind::AdminToken).unwrap(), "admin_token");
    }

    #[test]
    fn an_origin_has_no_path_query_or_user() {
        assert_eq!(
            origin("https://user:pass@example.com:8443/T0/secret?token=x"),
            "https://example.com:8443"
        );
        assert_eq!(origin("no address"), "");
    }
}
