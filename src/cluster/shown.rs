//! What a request shows of who calls.

use axum::http::{HeaderMap, header};

/// What the paths of operators' wishes begin with.
pub(super) const OPERATIONS: &str = "/admin/v1/cluster/";
/// What tokens of administrators begin with that were made.
const TOKENS: &str = "pra_";

/// The token of `Authorization: Bearer …`.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The token of an administrator that a request shows, if it is one that was made.
pub(super) fn admin_token(headers: &HeaderMap) -> Option<String> {
    bearer(headers).filter(|it| it.starts_with(TOKENS)).map(ToOwned::to_owned)
}
