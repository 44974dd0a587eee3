//! Admits administrators: with an admin token, as an operator, or by a role.

use axum::http::request::Parts;
use postrider_actors::domain::WorkspaceId;
use postrider_actors::{Permission, Permissions, Recent, SignedIn};

use super::auth::{Admitted, Credential, Guard, Key, bearer, reject};
use super::body_budget::Holder;
use super::error::{ApiError, Code};
use super::origin::{Identity, named_workspace};
use super::principal::{Principal, check_recent, member_of, permissions_elsewhere, visit};
use crate::http::edge::Edge;
use crate::http::elsewhere::{RemoteToken, RemoteWorkspace};
use crate::settings::SandboxClock;

/// Returns the identity of the request's admin token, if the token is valid. The token of the
/// settings or of `admin.token` has neither id nor name.
pub(super) fn administrator(edge: &Edge, parts: &Parts) -> Option<Identity> {
    let token = bearer(&parts.headers)?;
    match parts.extensions.get() {
        Some(RemoteToken(token_info)) if !edge.options.admin_token.matches(token) => {
            let (id, name) = token_info.clone()?;
            Some(Identity::Administrator { id: Some(id), name: Some(name) })
        }
        _ => administrator_of(edge, token),
    }
}

/// Returns the identity of an admin token, if the token is valid.
pub(crate) fn administrator_of(edge: &Edge, token: &str) -> Option<Identity> {
    if edge.options.admin_token.matches(token) {
        return Some(Identity::Administrator { id: None, name: None });
    }
    let info = edge.engine.access().authenticate_admin(token)?;
    let (id, name) = (info.id.to_string(), info.name);
    Some(Identity::Administrator { id: Some(id.into()), name: Some(name.into()) })
}

/// Admits holders of an admin token, and operators. An operator who changes something needs a
/// recent sign-in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Administrator;

/// Admits holders of an admin token, and operators who have signed in recently, to read everything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EverythingReader;

/// Admits holders of an admin token, operators, and members of the path's workspace. Members need
/// the permission. People need a recent sign-in if the permission asks for one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manages(Permission);

impl Manages {
    /// Returns the guard that requires this permission in the workspace.
    pub(crate) const fn of(permission: Permission) -> Self {
        Self(permission)
    }

    /// Returns a person's permissions in the workspace that the path names, if they include this
    /// one.
    fn check(self, edge: &Edge, parts: &Parts, who: &SignedIn) -> Result<Permissions, ApiError> {
        let id = named_workspace(parts).and_then(|id| id.parse().ok());
        let id = id.ok_or_else(|| ApiError::not_found("no such workspace"))?;
        let mut permissions = Permissions::all();
        if !who.is_operator() {
            permissions = self.check_member(edge, parts, who, &id)?;
        }
        check_recent(edge, &parts.method, who, self.0.recent())?;
        Ok(permissions)
    }
}

impl Manages {
    /// Returns a member's permissions in a workspace, if they include this one.
    fn check_member(
        self,
        edge: &Edge,
        parts: &Parts,
        who: &SignedIn,
        id: &WorkspaceId,
    ) -> Result<Permissions, ApiError> {
        if let Some(RemoteWorkspace(remote)) = parts.extensions.get() {
            let remote = remote.as_ref().filter(|remote| remote.id == *id);
            let remote = remote.ok_or_else(|| ApiError::not_found("no such workspace"))?;
            let permissions = permissions_elsewhere(edge, who, remote)?;
            let may = permissions.contains(self.0);
            return may.then_some(permissions).ok_or_else(|| ApiError::permission_missing(self.0));
        }
        let member = member_of(edge, who, id)?;
        member.check_authenticator(edge)?;
        let permissions = member.permissions;
        Principal::Person(Box::new(member)).check(self.0)?;
        Ok(permissions)
    }
}

/// Admits the same callers as [`Manages`], to give rights to others. The handler gets the caller's
/// own permissions, because nobody may give more than they have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delegates(Manages);

impl Delegates {
    /// Returns the guard that requires this permission in the workspace.
    pub(crate) const fn of(permission: Permission) -> Self {
        Self(Manages::of(permission))
    }
}

impl Guard for Delegates {
    type Caller = Permissions;

    fn admit(&self, edge: &Edge, parts: &Parts) -> Admitted<Permissions> {
        let check = |signed_in: &SignedIn| self.0.check(edge, parts, signed_in);
        admit_administrator(edge, parts, Permissions::all(), check)
    }

    fn holder(&self, _: &Edge, _: &Permissions, _: &Parts) -> Holder {
        Holder::Administrator
    }

    fn needs(&self) -> Option<&'static str> {
        self.0.needs()
    }
}

/// Admits a holder of an admin token, or a person who passes this check.
fn admit_administrator<C>(
    edge: &Edge,
    parts: &Parts,
    of_token: C,
    check: impl FnOnce(&SignedIn) -> Result<C, ApiError>,
) -> Admitted<C> {
    if let Some(visit) = visit(edge, parts) {
        return visit.map_or_else(Admitted::without_caller, |(signed_in, bucket)| {
            let caller = check(&signed_in);
            Admitted { identity: Identity::Person(signed_in), bucket, caller }
        });
    }
    match administrator(edge, parts) {
        Some(identity) => Admitted { identity, bucket: None, caller: Ok(of_token) },
        None => reject(edge, parts, Credential::AdminToken.fault(&parts.headers)),
    }
}

fn admit_operator(edge: &Edge, parts: &Parts, recent: Recent) -> Admitted<()> {
    admit_administrator(edge, parts, (), |signed_in| {
        if !signed_in.is_operator() {
            let message = "only an operator of this server may do this";
            return Err(ApiError::new(Code::Forbidden, message));
        }
        check_recent(edge, &parts.method, signed_in, recent)
    })
}

impl Guard for Administrator {
    type Caller = ();

    fn admit(&self, edge: &Edge, parts: &Parts) -> Admitted<()> {
        admit_operator(edge, parts, Recent::Changes)
    }

    fn holder(&self, _: &Edge, (): &(), _: &Parts) -> Holder {
        Holder::Administrator
    }

    fn needs(&self) -> Option<&'static str> {
        Some("operator")
    }
}

impl Guard for EverythingReader {
    type Caller = ();

    fn admit(&self, edge: &Edge, parts: &Parts) -> Admitted<()> {
        admit_operator(edge, parts, Recent::Always)
    }

    fn holder(&self, _: &Edge, (): &(), _: &Parts) -> Holder {
        Holder::Administrator
    }

    fn needs(&self) -> Option<&'static str> {
        Administrator.needs()
    }
}

impl Guard for Manages {
    type Caller = ();

    fn admit(&self, edge: &Edge, parts: &Parts) -> Admitted<()> {
        admit_administrator(edge, parts, (), |signed_in| {
            self.check(edge, parts, signed_in).map(drop)
        })
    }

    fn holder(&self, _: &Edge, (): &(), _: &Parts) -> Holder {
        Holder::Administrator
    }

    fn needs(&self) -> Option<&'static str> {
        Some(self.0.as_str())
    }
}

/// Admits the callers who may move the sandbox's clock: holders of an admin token and operators. If
/// `sandbox.clock` is `any`, it also admits everybody who may use the sandbox.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockMover;

impl Guard for ClockMover {
    /// The caller with a key or a session; `None` for the holder of an admin token.
    type Caller = Option<Principal>;

    fn admit(&self, edge: &Edge, parts: &Parts) -> Admitted<Self::Caller> {
        if let Some(identity) = administrator(edge, parts) {
            return Admitted { identity, bucket: None, caller: Ok(None) };
        }
        let needs = Key::of(Permission::SandboxUse);
        let Admitted { identity, bucket, caller } = needs.admit(edge, parts);
        let is_operator = matches!(&identity, Identity::Person(who) if who.is_operator());
        let caller = match edge.options.sandbox_clock {
            SandboxClock::Admin if !is_operator => caller.and_then(|_| Err(ApiError::admin_only())),
            SandboxClock::Any | SandboxClock::Admin => caller.map(Some),
        };
        Admitted { identity, bucket, caller }
    }

    fn workspace(&self, caller: &Self::Caller) -> Option<WorkspaceId> {
        caller.as_ref().map(|caller| caller.workspace().id().clone())
    }

    fn holder(&self, _: &Edge, caller: &Self::Caller, _: &Parts) -> Holder {
        caller.as_ref().map_or(Holder::Administrator, Principal::holder)
    }

    fn needs(&self) -> Option<&'static str> {
        Some(Permission::SandboxUse.as_str())
    }
}
