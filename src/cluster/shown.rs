//! Reads from a request's headers what it shows about the caller.

use axum::http::{HeaderMap, header};

/// The prefix of the paths of operations on the cluster.
pub(super) const OPERATIONS: &str = "/admin/v1/cluster/";
/// The prefix of generated tokens of administrators.
const TOKENS: &str = "pra_";

/// Returns the token of `Authorization: Bearer …`.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Returns the generated token of an administrator that a request shows, if there is one.
pub(super) fn admin_token(headers: &HeaderMap) -> Option<String> {
    bearer(headers).filter(|it| it.starts_with(TOKENS)).map(ToOwned::to_owned)
}
