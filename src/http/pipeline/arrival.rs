//! Finds out who makes a request, from where, and whether they may, before its body is read.
//!
//! A request that another reader could take for another request, or for another host's, is
//! refused.

use axum::http::header::{AUTHORIZATION, HOST, TRANSFER_ENCODING};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Version};
use postrider_actors::BucketState;
use postrider_actors::domain::WorkspaceId;

use super::auth::{Admitted, Guard};
use super::body_budget::BodyLease;
use super::client::{InReserve, exact_address};
use super::error::{ApiError, Code, catch_panic};
use super::origin::{Identity, RequestOrigin, named_workspace};
use super::principal::member;
use super::request_id::RequestId;
use crate::http::edge::Edge;

/// A request of which only the head was read.
pub(super) struct Arrival<C> {
    pub(super) origin: RequestOrigin,
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
        let admitted = check_head(edge, parts, route)
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
        let origin = RequestOrigin { identity, address, request_id };
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
fn check_head(edge: &Edge, parts: &Parts, route: &str) -> Result<(), ApiError> {
    let operators = ["/healthz", "/readyz", "/metrics"];
    let is_for_operators = operators.contains(&route) || route.starts_with("/admin/v1");
    if parts.extensions.get::<InReserve>().is_some() && !is_for_operators {
        return Err(ApiError::overloaded("there are too many connections; nothing was done"));
    }
    check_framing(parts, &edge.options.hosts)
}

/// Checks `Host`, `Transfer-Encoding` and `Authorization`. `hosts` are the names of this server; an
/// empty list allows any.
pub(crate) fn check_framing(parts: &Parts, hosts: &[String]) -> Result<(), ApiError> {
    let Parts { headers, version, .. } = parts;
    check_host(headers, *version, hosts)?;
    // Only `chunked` is decoded. Data in another coding would be taken for a part of the body.
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let coding = codings.next();
    let is_chunked = coding.is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
    if !is_chunked || codings.next().is_some() {
        let message = "`Transfer-Encoding` may be chunked and nothing else";
        return Err(ApiError::new(Code::NotImplemented, message).closing());
    }
    if headers.get_all(AUTHORIZATION).iter().count() > 1 {
        return Err(ApiError::field("Authorization", "must be given once").closing());
    }
    Ok(())
}

/// Checks that a request names one host, in HTTP/1.0 at most one (RFC 9112, section 3.2).
fn check_host(headers: &HeaderMap, version: Version, hosts: &[String]) -> Result<(), ApiError> {
    let mut given = headers.get_all(HOST).iter();
    let host = given.next();
    let is_missing = host.is_none() && version >= Version::HTTP_11;
    if is_missing || given.next().is_some() {
        return Err(ApiError::field("Host", "must be given once").closing());
    }
    let Some(host) = host.filter(|_| !hosts.is_empty()) else { return Ok(()) };
    let host = host.to_str().unwrap_or_default();
    // An IPv6 address has colons of its own, within brackets.
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    if hosts.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return Ok(());
    }
    Err(ApiError::new(Code::MisdirectedRequest, "this server has no such name").closing())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    fn checked(headers: &[(HeaderName, &'static str)], hosts: &[&str]) -> Option<Code> {
        let mut parts = axum::http::Request::new(()).into_parts().0;
        for (name, value) in headers {
            parts.headers.append(name, HeaderValue::from_static(value));
        }
        let hosts: Vec<_> = hosts.iter().map(|&host| host.to_owned()).collect();
        check_framing(&parts, &hosts).err().map(|error| error.code())
    }

    #[test]
    fn a_host_may_have_a_port() {
        for (host, known) in [
            ("a.example", "a.example"),
            ("A.Example:80", "a.example"),
            ("[::1]", "[::1]"),
            ("[::1]:8080", "[::1]"),
        ] {
            assert_eq!(checked(&[(HOST, host)], &[known]), None, "{host}");
        }
        for host in ["b.example", "a.example.b", "", "a.example:x"] {
            let code = checked(&[(HOST, host)], &["a.example"]);
            assert_eq!(code, Some(Code::MisdirectedRequest), "{host}");
            assert_eq!(checked(&[(HOST, host)], &[]), None, "any is allowed");
        }
    }

    #[test]
    fn what_is_ambiguous_is_refused() {
        let host = (HOST, "x");
        assert_eq!(checked(&[], &[]), Some(Code::ValidationError));
        assert_eq!(checked(&[host.clone(), host.clone()], &[]), Some(Code::ValidationError));
        let coding = |value| [host.clone(), (TRANSFER_ENCODING, value)];
        assert_eq!(checked(&coding("Chunked"), &[]), None);
        assert_eq!(checked(&coding("gzip, chunked"), &[]), Some(Code::NotImplemented));
        let key = (AUTHORIZATION, "Bearer x");
        assert_eq!(checked(&[host.clone(), key.clone()], &[]), None);
        assert_eq!(checked(&[host, key.clone(), key], &[]), Some(Code::ValidationError));
    }
}
