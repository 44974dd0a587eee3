//! Finds out who makes a request, from where, and whether they may, before its body is read.

use axum::http::request::Parts;
use postrider_actors::BucketState;
use postrider_actors::domain::WorkspaceId;

use super::auth::{Admitted, Guard};
use super::body_budget::BodyLease;
use super::client::{InReserve, exact_address};
use super::error::ApiError;
use super::framing;
use super::origin::{Identity, Origin, named_workspace};
use super::principal::member;
use super::request_id::RequestId;
use super::unwind::catch_panic;
use crate::http::edge::Edge;

/// A request of which only the head was read.
pub(super) struct Arrival<C> {
    pub(super) origin: Origin,
    /// The workspace that an administrative path names.
    pub(super) named: Option<Box<str>>,
    /// The workspace that the caller calls in.
    pub(super) workspace: Option<WorkspaceId>,
    /// The rate limit bucket that it was counted in.
    pub(super) bucket: Option<BucketState>,
    /// The caller with the lease for the body, or the refusal of the request.
    pub(super) caller: Result<(C, BodyLease), ApiError>,
}

impl<C> Arrival<C> {
    pub(super) fn of<G>(edge: &Edge, parts: &Parts, guard: &G, route: &str) -> Self
    where
        G: Guard<Caller = C>,
    {
        let request_id = RequestId::of(&parts.headers, edge.engine.clock());
        let address = exact_address(parts, &edge.options.trusted_proxies);
        let admitted = check(edge, parts, route)
            .and_then(|()| catch_panic(|| guard.admit(edge, parts)))
            .unwrap_or_else(|error| Admitted {
                identity: Identity::Anonymous,
                bucket: None,
                caller: Err(error),
            });
        let Admitted { identity, bucket, caller } = admitted;
        let workspace = match &caller {
            Ok(caller) => guard.workspace(caller),
            Err(_) => refused_in(edge, parts, &identity),
        };
        let caller = caller.map(|caller| {
            let holder = guard.holder(edge, &caller, parts);
            (caller, edge.body_budget.lease(holder))
        });
        let origin = Origin { identity, address, request_id };
        Self { origin, named: named_workspace(parts), workspace, bucket, caller }
    }
}

/// Returns the workspace in which a refused caller called.
fn refused_in(edge: &Edge, parts: &Parts, identity: &Identity) -> Option<WorkspaceId> {
    match identity {
        Identity::Key(caller) => Some(caller.workspace.id().clone()),
        Identity::Person(signed_in) => {
            let member = member(edge, parts, signed_in).ok()??;
            Some(member.workspace.id().clone())
        }
        Identity::Anonymous | Identity::Administrator { .. } => None,
    }
}

/// Checks the requirements of every route, before the caller is looked up.
fn check(edge: &Edge, parts: &Parts, route: &str) -> Result<(), ApiError> {
    let operators = ["/healthz", "/readyz", "/metrics"];
    let is_for_operators = operators.contains(&route) || route.starts_with("/admin/v1");
    if parts.extensions.get::<InReserve>().is_some() && !is_for_operators {
        return Err(ApiError::overloaded("there are too many connections; nothing was done"));
    }
    framing::check(parts, &edge.options.hosts)
}
