//! The caller in a workspace: an API key, or a person who has signed in.

use std::sync::Arc;
use std::time::Duration;

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderName, Method};
use postrider_actors::domain::{Timestamp, WorkspaceId};
use postrider_actors::{
    BucketState, Caller, Permission, Permissions, Person, Recent, SignedIn, Workspace,
};

use super::auth::{Admitted, reject};
use super::body_budget::Holder;
use super::browser::{check_page, session_token};
use super::error::{ApiError, Code};
use super::origin::Identity;
use super::query::Query;
use crate::http::edge::Edge;
use crate::http::elsewhere::{KnownWorkspace, RemoteVisit};

const WORKSPACE: HeaderName = HeaderName::from_static("postrider-workspace");
/// The path of the event stream. A page cannot set a header when it opens a stream.
pub(crate) const STREAM: &str = "/v1/events/stream";

/// A person in one of their workspaces.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) signed_in: SignedIn,
    pub(crate) workspace: Workspace,
    pub(crate) permissions: Permissions,
}

/// The caller in a workspace.
#[derive(Debug, Clone)]
pub(crate) enum Principal {
    Key(Arc<Caller>),
    Person(Box<Member>),
}

impl Principal {
    /// Returns the workspace of the call.
    pub(crate) fn workspace(&self) -> &Workspace {
        match self {
            Self::Key(caller) => &caller.workspace,
            Self::Person(member) => &member.workspace,
        }
    }

    /// Refuses the call if the caller lacks the permission.
    pub(crate) fn check(&self, permission: Permission) -> Result<(), ApiError> {
        match self {
            Self::Key(caller) => match permission.scope() {
                Some(scope) if caller.scopes.contains(scope) => Ok(()),
                Some(scope) => Err(ApiError::scope_missing(scope)),
                None => Err(ApiError::permission_missing(permission)),
            },
            Self::Person(member) => member.check(permission),
        }
    }

    /// Returns whether the key or session is still valid, and its holder's permissions are
    /// unchanged.
    pub(crate) fn still_works(&self, edge: &Edge) -> bool {
        match self {
            Self::Key(caller) => edge.engine.access().still_works(caller),
            Self::Person(member) => {
                let people = edge.engine.people();
                let id = member.workspace.id();
                let is_remote = member.signed_in.session.is_remote();
                // The node checks a remote session again, and ends it.
                let now = |it: &Arc<Person>| match is_remote {
                    true => Some(Arc::clone(it)),
                    false => people.person(it.id),
                };
                let known = member.signed_in.person.as_ref().map(now);
                let may_as_much = match known {
                    Some(Some(person)) => {
                        let now = SignedIn { person: Some(person), ..member.signed_in.clone() };
                        let may = now.permissions_in(id, edge.options.sandbox);
                        may == Some(member.permissions)
                    }
                    Some(None) => false,
                    None => true,
                };
                may_as_much
                    && !member.lacks_authenticator(edge)
                    && people.goes_on(&member.signed_in)
            }
        }
    }

    /// Returns the moment of engine time at which a key expires.
    pub(crate) fn expires_at(&self) -> Option<Timestamp> {
        match self {
            Self::Key(caller) => caller.expires_at(),
            Self::Person(_) => None,
        }
    }

    pub(super) fn holder(&self) -> Holder {
        match self {
            Self::Key(caller) => Holder::Key(caller.key_id),
            Self::Person(member) => Holder::Session(member.signed_in.session.id()),
        }
    }
}

impl Member {
    fn check(&self, permission: Permission) -> Result<(), ApiError> {
        if self.permissions.contains(permission) {
            return Ok(());
        }
        Err(ApiError::permission_missing(permission))
    }

    /// Returns whether the member lacks an authenticator that the workspace requires.
    pub(super) fn lacks_authenticator(&self, edge: &Edge) -> bool {
        let (people, id) = (edge.engine.people(), self.workspace.id());
        let person = self.signed_in.person.as_ref().filter(|it| it.role_in(id).is_some());
        person.is_some_and(|person| !person.has_authenticator() && people.requires_totp(id))
    }

    /// Refuses a member who lacks a required authenticator.
    pub(super) fn check_authenticator(&self, edge: &Edge) -> Result<(), ApiError> {
        if self.lacks_authenticator(edge) { Err(authenticator_missing()) } else { Ok(()) }
    }
}

fn authenticator_missing() -> ApiError {
    let message = "this workspace asks its members for an authenticator; set one up first";
    ApiError::new(Code::Forbidden, message).because("totp_required")
}

/// Returns a person's permissions in a workspace of another engine. A workspace that is none of
/// theirs is answered like an unknown one.
///
/// # Errors
/// [`ApiError`]: the workspace is none of theirs, or requires an authenticator that they do not
/// have.
pub(crate) fn permissions_elsewhere(
    edge: &Edge,
    who: &SignedIn,
    workspace: &KnownWorkspace,
) -> Result<Permissions, ApiError> {
    let permissions = who.permissions_in(&workspace.id, edge.options.sandbox);
    let permissions = permissions.ok_or_else(|| ApiError::not_found("no such workspace"))?;
    let member = who.person.as_ref().filter(|it| it.role_in(&workspace.id).is_some());
    let lacks = member.is_some_and(|it| !it.has_authenticator() && workspace.requires_totp);
    if lacks { Err(authenticator_missing()) } else { Ok(permissions) }
}

/// A person whose session a request carries and who may make a request, with their bucket.
pub(super) type SessionVisit = (SignedIn, Option<BucketState>);

/// Returns the session that authorises a request, if one does. A session counts if there is no
/// `Authorization` and a cookie of this server. It checks the host and the origin (403), the
/// session (401) and its requests (429).
pub(super) fn visit(edge: &Edge, parts: &Parts) -> Option<Result<SessionVisit, Admitted<()>>> {
    if parts.headers.contains_key(AUTHORIZATION) {
        return None;
    }
    let token = session_token(edge, &parts.headers)?;
    if let Err(error) = check_page(&edge.options.dashboard, parts) {
        return Some(Err(refused_admission(Identity::Anonymous, None, error)));
    }
    let Some((signed_in, wait, bucket)) = session_of(edge, parts, token) else {
        return Some(Err(reject(edge, parts, "the session has ended; sign in again")));
    };
    if let Some(wait) = wait {
        let error = ApiError::rate_limited(wait, "too many requests with this session");
        return Some(Err(refused_admission(Identity::Person(signed_in), bucket, error)));
    }
    Some(Ok((signed_in, bucket)))
}

/// Returns the person of a session's token, the time that they have to wait, and their bucket.
fn session_of(
    edge: &Edge,
    parts: &Parts,
    token: &str,
) -> Option<(SignedIn, Option<Duration>, Option<BucketState>)> {
    if let Some(RemoteVisit(known)) = parts.extensions.get() {
        return known.clone();
    }
    let people = edge.engine.people();
    let signed_in = people.signed_in(token)?;
    let (wait, bucket) = people.admit(&signed_in.session);
    Some((signed_in, wait, bucket))
}

fn refused_admission<C>(
    identity: Identity,
    bucket: Option<BucketState>,
    error: ApiError,
) -> Admitted<C> {
    Admitted { identity, bucket, caller: Err(error) }
}

/// Returns a person in the workspace that the request names. `None` if it names none and they have
/// several.
pub(super) fn member(
    edge: &Edge,
    parts: &Parts,
    signed_in: &SignedIn,
) -> Result<Option<Member>, ApiError> {
    let id = match requested_workspace(parts)? {
        Some(id) => id,
        None => match signed_in.person.as_ref().map(|person| person.memberships.as_slice()) {
            Some([only]) if !is_elsewhere(edge, &only.workspace) => only.workspace.clone(),
            _ => return Ok(None),
        },
    };
    member_of(edge, signed_in, &id).map(Some)
}

/// Returns whether a workspace may exist only in another engine.
fn is_elsewhere(edge: &Edge, id: &WorkspaceId) -> bool {
    edge.options.elsewhere.is_some() && edge.engine.workspace(id).is_none()
}

/// Returns a person in this workspace. A workspace that is none of theirs is answered like an
/// unknown one.
pub(super) fn member_of(
    edge: &Edge,
    signed_in: &SignedIn,
    id: &WorkspaceId,
) -> Result<Member, ApiError> {
    let permissions = signed_in.permissions_in(id, edge.options.sandbox);
    let workspace = edge.engine.workspace(id);
    match (workspace, permissions) {
        (Some(workspace), Some(permissions)) => {
            Ok(Member { signed_in: signed_in.clone(), workspace, permissions })
        }
        _ => Err(ApiError::not_found("no such workspace")),
    }
}

/// Returns the workspace that the header names, or on the stream the query.
fn requested_workspace(parts: &Parts) -> Result<Option<WorkspaceId>, ApiError> {
    let none = || ApiError::not_found("no such workspace");
    if let Some(value) = parts.headers.get(WORKSPACE) {
        return value.to_str().ok().and_then(|id| id.parse().ok()).map(Some).ok_or_else(none);
    }
    if parts.uri.path() != STREAM {
        return Ok(None);
    }
    let query = Query::of(&parts.uri)?;
    query.text("workspace")?.map(|id| id.parse().map_err(|_| none())).transpose()
}

/// Returns the refusal of a request that names no workspace although it has to.
pub(super) fn which_workspace() -> ApiError {
    ApiError::field("Postrider-Workspace", "must name one of your workspaces, as there are several")
}

/// Refuses a request that needs a recent sign-in.
pub(super) fn check_recent(
    edge: &Edge,
    method: &Method,
    signed_in: &SignedIn,
    needed: Recent,
) -> Result<(), ApiError> {
    let is_needed = needed.is_needed(method.is_safe());
    if !is_needed || edge.engine.people().is_elevated(&signed_in.session) {
        return Ok(());
    }
    let message = "this needs a sign-in or confirmation within the last ten minutes";
    Err(ApiError::new(Code::Forbidden, message).because("step_up_required"))
}
