//! Authenticates and admits callers, in the order 401, 429, 403.

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use postrider_actors::domain::{Scope, WorkspaceId};
use postrider_actors::{BucketState, Permission};

use super::body_budget::Holder;
use super::client::{client_address, exact_address};
use super::error::{ApiError, Code};
use super::origin::Identity;
use super::principal::{Principal, SessionVisit, check_recent, member, visit, which_workspace};
use crate::http::edge::Edge;

/// The result of a guard.
pub(crate) struct Admitted<C> {
    /// The identity of the caller, as far as it is known.
    pub(crate) identity: Identity,
    /// The rate limit bucket that the request was counted in, for the headers.
    pub(crate) bucket: Option<BucketState>,
    /// The caller, or the refusal of the request.
    pub(crate) caller: Result<C, ApiError>,
}

impl Admitted<()> {
    /// Converts a refusal to one for any type of caller.
    pub(super) fn without_caller<C>(self) -> Admitted<C> {
        let Self { identity, bucket, caller } = self;
        // This is always a refusal. If it were none, the caller would be unknown.
        let caller = match caller {
            Err(error) => Err(error),
            Ok(()) => Err(ApiError::internal()),
        };
        Admitted { identity, bucket, caller }
    }
}

/// Decides whether a request may reach its handler.
pub(crate) trait Guard: Clone + Send + Sync + 'static {
    /// The caller's data that the handler gets.
    type Caller: Send;

    /// Admits a request or refuses it. A guard may note in the request's extensions who calls.
    fn admit(&self, edge: &Edge, parts: &Parts) -> Admitted<Self::Caller>;

    /// Returns the requirement that the document states for callers, if there is one.
    fn needs(&self) -> Option<&'static str> {
        None
    }

    /// Returns the workspace in which the caller calls, if there is one.
    fn workspace(&self, _caller: &Self::Caller) -> Option<WorkspaceId> {
        None
    }

    /// Returns the holder for whom the bytes of the caller's bodies are counted.
    fn holder(&self, edge: &Edge, _caller: &Self::Caller, parts: &Parts) -> Holder {
        Holder::Stranger(client_address(parts, &edge.options.trusted_proxies))
    }
}

/// Admits everyone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Open;

impl Guard for Open {
    type Caller = ();

    fn admit(&self, _: &Edge, _: &Parts) -> Admitted<()> {
        Admitted { identity: Identity::Anonymous, bucket: None, caller: Ok(()) }
    }
}

/// Admits holders of an API key with the scope, and members of the workspace with the permission.
///
/// The scope and the permission count if they are set. Members must have signed in recently if the
/// permission asks for it. It checks 401, then the address (403), then 429, then the scope or
/// permission (403).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    scope: Option<Scope>,
    permission: Option<Permission>,
}

impl Key {
    /// Any key, whatever its scopes, and any person.
    pub(crate) const ANY: Self = Self { scope: None, permission: None };
    /// Replying to a customer, which sends a message.
    pub(crate) const REPLY: Self =
        Self { scope: Some(Scope::MessagingSend), ..Self::of(Permission::InboxWrite) };
    /// The event stream. A person sees the events on it that their role may read.
    pub(crate) const STREAM: Self = Self { permission: None, ..Self::of(Permission::EventsRead) };

    /// Returns the guard that requires this permission.
    pub(crate) const fn of(permission: Permission) -> Self {
        Self { scope: permission.scope(), permission: Some(permission) }
    }

    fn admit_person(self, edge: &Edge, parts: &Parts, visit: SessionVisit) -> Admitted<Principal> {
        let (signed_in, bucket) = visit;
        let found = member(edge, parts, &signed_in);
        let caller = found.and_then(|found| found.ok_or_else(which_workspace)).and_then(|member| {
            member.check_authenticator(edge)?;
            let principal = Principal::Person(Box::new(member));
            if let Some(permission) = self.permission {
                principal.check(permission)?;
                check_recent(edge, &parts.method, &signed_in, permission.recent())?;
            }
            Ok(principal)
        });
        Admitted { identity: Identity::Person(signed_in), bucket, caller }
    }
}

impl Guard for Key {
    type Caller = Principal;

    fn admit(&self, edge: &Edge, parts: &Parts) -> Admitted<Principal> {
        if let Some(visit) = visit(edge, parts) {
            return visit.map_or_else(Admitted::without_caller, |visit| {
                self.admit_person(edge, parts, visit)
            });
        }
        let access = edge.engine.access();
        let Some(caller) = bearer(&parts.headers).and_then(|token| access.authenticate(token))
        else {
            return reject(edge, parts, Credential::Key.fault(&parts.headers));
        };
        let address = exact_address(parts, &edge.options.trusted_proxies);
        if !caller.allows(address) {
            // The holder of a stolen key must not use up the requests of its owner.
            let admission = access.admit_address(address);
            let error = match admission.refused {
                None => ApiError::address_refused(address),
                Some(wait) => ApiError::rate_limited(wait, "too many failures from this address"),
            };
            let identity = Identity::Key(caller);
            return Admitted { identity, bucket: admission.bucket, caller: Err(error) };
        }
        let admission = access.admit(&caller);
        let identity = Identity::Key(Arc::clone(&caller));
        let caller = match (admission.refused, self.scope, self.permission) {
            (Some(wait), ..) => {
                Err(ApiError::rate_limited(wait, "too many requests with this key"))
            }
            (None, Some(scope), _) if !caller.scopes.contains(scope) => {
                Err(ApiError::scope_missing(scope))
            }
            // No key has this permission.
            (None, None, Some(permission)) => Err(ApiError::permission_missing(permission)),
            (None, ..) => Ok(Principal::Key(caller)),
        };
        Admitted { identity, bucket: admission.bucket, caller }
    }

    fn workspace(&self, caller: &Principal) -> Option<WorkspaceId> {
        Some(caller.workspace().id().clone())
    }

    fn holder(&self, _: &Edge, caller: &Principal, _: &Parts) -> Holder {
        caller.holder()
    }

    fn needs(&self) -> Option<&'static str> {
        Some(self.permission.map_or("any", Permission::as_str))
    }
}

/// The kind of credential that a request must show.
#[derive(Debug, Clone, Copy)]
pub(super) enum Credential {
    Key,
    AdminToken,
}

impl Credential {
    /// Returns the fault of a request that shows no valid credential.
    pub(super) fn fault(self, headers: &HeaderMap) -> &'static str {
        let [missing, malformed, bad] = match self {
            Self::Key => [
                "there is no `Authorization` header; it must be `Bearer` and an API key",
                "the `Authorization` header must be `Bearer` and an API key",
                "the API key is unknown, expired or revoked",
            ],
            Self::AdminToken => [
                "there is no `Authorization` header; it must be `Bearer` and an admin token",
                "the `Authorization` header must be `Bearer` and an admin token",
                "the admin token is wrong, expired or revoked",
            ],
        };
        match (headers.contains_key(AUTHORIZATION), bearer(headers)) {
            (false, _) => missing,
            (true, None) => malformed,
            (true, Some(_)) => bad,
        }
    }
}

/// Refuses a request without a valid key or token: 401, or 429 if its address is over its limit.
pub(super) fn reject<C>(edge: &Edge, parts: &Parts, message: &'static str) -> Admitted<C> {
    let address = client_address(parts, &edge.options.trusted_proxies);
    let admission = edge.engine.access().admit_address(address);
    let error = match admission.refused {
        None => ApiError::unauthorized(message),
        Some(wait) => ApiError::rate_limited(wait, "too many requests without a good key"),
    };
    let caller = Err(error.of_unauthenticated());
    Admitted { identity: Identity::Anonymous, bucket: admission.bucket, caller }
}

/// Counts a failure on a route that needs no key: 429 if the address is over its limit.
///
/// Targets, tokens and signatures thus cannot be guessed without end. Other errors are not counted.
pub(crate) fn count_failure(edge: &Edge, parts: &Parts, error: ApiError) -> ApiError {
    if !matches!(error.code(), Code::Unauthorized | Code::Forbidden | Code::NotFound) {
        return error;
    }
    let address = client_address(parts, &edge.options.trusted_proxies);
    let is_unauthenticated = error.code() != Code::NotFound;
    let error = match edge.engine.access().admit_address(address).refused {
        None => error,
        Some(wait) => ApiError::rate_limited(wait, "too many failures from this address"),
    };
    if is_unauthenticated { error.of_unauthenticated() } else { error }
}

/// Returns the token of `Authorization: Bearer …` (RFC 6750, section 2.1). The scheme is
/// case-insensitive.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(value: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, value.parse().unwrap());
        bearer(&headers).map(str::to_owned)
    }

    #[test]
    fn only_a_bearer_token_is_one() {
        for good in ["Bearer abc", "bearer abc", "BEARER  abc"] {
            assert_eq!(token(good).as_deref(), Some("abc"), "{good}");
        }
        for bad in ["abc", "Bearer", "Bearer ", "Basic abc", "Bearerabc", ""] {
            assert_eq!(token(bad), None, "{bad}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }

    #[test]
    fn a_header_that_is_missing_and_a_bad_key_are_told_apart() {
        let mut headers = HeaderMap::new();
        for needs in [Credential::Key, Credential::AdminToken] {
            headers.clear();
            assert!(needs.fault(&headers).starts_with("there is no `Authorization` header"));
            for (value, expected) in
                [("Basic YTpi", "the `Authorization` header must be"), ("Bearer x", "the ")]
            {
                headers.insert(AUTHORIZATION, value.parse().unwrap());
                assert!(needs.fault(&headers).starts_with(expected), "{value}");
            }
            assert!(needs.fault(&headers).ends_with(", expired or revoked"));
        }
    }
}
