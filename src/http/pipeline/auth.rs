//! Authenticates and admits callers, in the order 401, 429, 403.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use postrider_actors::domain::Scope;
use postrider_actors::{BucketState, Caller};

use super::error::ApiError;
use crate::http::edge::Edge;

/// The remote address of a connection, in the extensions of its requests. The server adds it.
/// Whoever serves the router otherwise should add it too, or all clients share one rate limit.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// The result of a guard.
pub(crate) struct Admitted<C> {
    /// The rate limit bucket that the request was counted in, for the headers.
    pub(crate) bucket: Option<BucketState>,
    /// The caller, or why the request is refused.
    pub(crate) caller: Result<C, ApiError>,
}

/// Decides whether a request may reach its handler.
pub(crate) trait Guard: Clone + Send + Sync + 'static {
    /// What the handler gets to know of the caller.
    type Caller: Send;

    fn admit(&self, edge: &Edge, parts: &Parts) -> Admitted<Self::Caller>;
}

/// Admits everyone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Open;

impl Guard for Open {
    type Caller = ();

    fn admit(&self, _: &Edge, _: &Parts) -> Admitted<()> {
        Admitted { bucket: None, caller: Ok(()) }
    }
}

/// Admits holders of an API key with this scope, if one is required. Checks 401, then 429, then
/// 403.
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
            return reject(edge, parts, "the API key is missing, unknown or revoked");
        };
        let admission = access.admit(&caller);
        let caller = match (admission.refused, self.0) {
            (Some(wait), _) => Err(ApiError::rate_limited(wait, "too many requests with this key")),
            (None, Some(scope)) if !caller.scopes.contains(scope) => {
                Err(ApiError::scope_missing(scope))
            }
            (None, _) => Ok(caller),
        };
        Admitted { bucket: admission.bucket, caller }
    }
}

/// Admits holders of the admin token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Administrator;

impl Guard for Administrator {
    type Caller = ();

    fn admit(&self, edge: &Edge, parts: &Parts) -> Admitted<()> {
        match bearer(&parts.headers) {
            Some(token) if edge.options.admin_token.matches(token) => {
                Admitted { bucket: None, caller: Ok(()) }
            }
            _ => reject(edge, parts, "the admin token is missing or wrong"),
        }
    }
}

/// Refuses a request without a valid key or token: 401, or 429 once its address is over its limit.
fn reject<C>(edge: &Edge, parts: &Parts, message: &'static str) -> Admitted<C> {
    let admission = edge.engine.access().admit_address(client_address(parts));
    let error = match admission.refused {
        None => ApiError::unauthorized(message),
        Some(wait) => ApiError::rate_limited(wait, "too many requests without a good key"),
    };
    Admitted { bucket: admission.bucket, caller: Err(error) }
}

/// The address that rejected requests are counted by. An IPv6 client usually owns a whole /64, so
/// that counts as one address.
fn client_address(parts: &Parts) -> IpAddr {
    let peer = parts.extensions.get::<Peer>();
    match peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0.ip().to_canonical()) {
        IpAddr::V6(address) if !address.is_loopback() => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
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

    #[test]
    fn an_ipv6_address_counts_with_its_network() {
        let counted = |text: &str| {
            let mut parts = axum::http::Request::new(()).into_parts().0;
            parts.extensions.insert(Peer(SocketAddr::new(text.parse().unwrap(), 1)));
            client_address(&parts).to_string()
        };
        assert_eq!(counted("192.0.2.7"), "192.0.2.7");
        assert_eq!(counted("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(counted("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(counted("::1"), "::1");
    }
}
