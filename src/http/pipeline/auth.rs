//! Authenticates and admits callers, in the order 401, 429, 403.

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use postrider_actors::domain::Scope;
use postrider_actors::{BucketState, Caller};

use super::body_budget::Holder;
use super::client::{client_address, exact_address};
use super::error::{ApiError, Code};
use super::origin::Identity;
use crate::http::edge::Edge;
use crate::settings::SandboxClock;

/// The result of a guard.
pub(crate) struct Admitted<C> {
    /// Who makes the request, as far as it is known.
    pub(crate) identity: Identity,
    /// The rate limit bucket that the request was counted in, for the headers.
    pub(crate) bucket: Option<BucketState>,
    /// The caller, or why the request is refused.
    pub(crate) caller: Result<C, ApiError>,
}

/// Decides whether a request may reach its handler.
pub(crate) trait Guard: Clone + Send + Sync + 'static {
    /// What the handler gets to know of the caller.
    type Caller: Send;

    /// Admits a request or refuses it. A guard may note in the request's extensions who calls.
    fn admit(&self, edge: &Edge, parts: &Parts) -> Admitted<Self::Caller>;

    /// Whom the bytes of the caller's bodies are counted for.
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

/// Admits holders of an API key with this scope, if one is required. Checks 401, then the address
/// (403), then 429, then the scope (403).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key(Option<Scope>);

impl Key {
    /// Any key, whatever its scopes.
    pub(crate) const ANY: Self = Self(None);
    pub(crate) const SEND: Self = Self(Some(Scope::MessagingSend));
    pub(crate) const READ_CONTACTS: Self = Self(Some(Scope::ContactsRead));
    pub(crate) const WRITE_CONTACTS: Self = Self(Some(Scope::ContactsWrite));
    pub(crate) const READ_ANALYTICS: Self = Self(Some(Scope::AnalyticsRead));
    pub(crate) const MANAGE_WEBHOOKS: Self = Self(Some(Scope::WebhooksManage));
}

impl Guard for Key {
    type Caller = Arc<Caller>;

    fn admit(&self, edge: &Edge, parts: &Parts) -> Admitted<Arc<Caller>> {
        let access = edge.engine.access();
        let Some(caller) = bearer(&parts.headers).and_then(|token| access.authenticate(token))
        else {
            return reject(edge, parts, "the API key is missing, unknown, expired or revoked");
        };
        let address = exact_address(parts, &edge.options.trusted_proxies);
        if !caller.allows(address) {
            // Whoever has a stolen key must not use up the requests of its owner.
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
        let caller = match (admission.refused, self.0) {
            (Some(wait), _) => Err(ApiError::rate_limited(wait, "too many requests with this key")),
            (None, Some(scope)) if !caller.scopes.contains(scope) => {
                Err(ApiError::scope_missing(scope))
            }
            (None, _) => Ok(caller),
        };
        Admitted { identity, bucket: admission.bucket, caller }
    }

    fn holder(&self, _: &Edge, caller: &Arc<Caller>, _: &Parts) -> Holder {
        Holder::Key(caller.key_id)
    }
}

/// Whose admin token the request carries, if it carries a good one. The token of the settings or
/// of `admin.token` has neither id nor name.
fn administrator(edge: &Edge, parts: &Parts) -> Option<Identity> {
    let token = bearer(&parts.headers)?;
    if edge.options.admin_token.matches(token) {
        return Some(Identity::Administrator { id: None, name: None });
    }
    let info = edge.engine.access().authenticate_admin(token)?;
    let (id, name) = (info.id.to_string(), info.name);
    Some(Identity::Administrator { id: Some(id.into()), name: Some(name.into()) })
}

/// Admits holders of an admin token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Administrator;

impl Guard for Administrator {
    type Caller = ();

    fn admit(&self, edge: &Edge, parts: &Parts) -> Admitted<()> {
        match administrator(edge, parts) {
            Some(identity) => Admitted { identity, bucket: None, caller: Ok(()) },
            None => reject(edge, parts, "the admin token is missing, wrong, expired or revoked"),
        }
    }

    fn holder(&self, _: &Edge, (): &(), _: &Parts) -> Holder {
        Holder::Administrator
    }
}

/// Admits whoever may move the sandbox's clock, as `sandbox.clock` says: holders of an admin token,
/// and of an API key that may send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockMover;

impl Guard for ClockMover {
    /// The holder of a key; `None` for one of an admin token.
    type Caller = Option<Arc<Caller>>;

    fn admit(&self, edge: &Edge, parts: &Parts) -> Admitted<Self::Caller> {
        if let Some(identity) = administrator(edge, parts) {
            return Admitted { identity, bucket: None, caller: Ok(None) };
        }
        let Admitted { identity, bucket, caller } = Key::SEND.admit(edge, parts);
        let caller = match edge.options.sandbox_clock {
            SandboxClock::Any => caller.map(Some),
            SandboxClock::Admin => caller.and_then(|_| Err(ApiError::admin_only())),
        };
        Admitted { identity, bucket, caller }
    }

    fn holder(&self, _: &Edge, caller: &Self::Caller, _: &Parts) -> Holder {
        caller.as_ref().map_or(Holder::Administrator, |caller| Holder::Key(caller.key_id))
    }
}

/// Refuses a request without a valid key or token: 401, or 429 once its address is over its limit.
fn reject<C>(edge: &Edge, parts: &Parts, message: &'static str) -> Admitted<C> {
    let address = client_address(parts, &edge.options.trusted_proxies);
    let admission = edge.engine.access().admit_address(address);
    let error = match admission.refused {
        None => ApiError::unauthorized(message),
        Some(wait) => ApiError::rate_limited(wait, "too many requests without a good key"),
    };
    let caller = Err(error.of_unauthenticated());
    Admitted { identity: Identity::Anonymous, bucket: admission.bucket, caller }
}

/// Counts a failure on a route that needs no key, so that targets, tokens and signatures cannot be
/// guessed without end: 429 once the address is over its limit. Other errors are not counted.
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

/// The token of `Authorization: Bearer …` (RFC 6750, section 2.1). The scheme is case-insensitive.
fn bearer(headers: &HeaderMap) -> Option<&str> {
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
}
