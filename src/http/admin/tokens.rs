//! Creates, lists and revokes admin tokens. Only the answer that creates one contains its text.

use std::borrow::Cow;

use axum::http::StatusCode;
use postrider_actors::domain::{AdminTokenId, Timestamp};
use postrider_actors::{AdminTokenInfo, CreatedAdminToken, NewAdminToken};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{check_name, expiry};
use crate::http::pipeline::{Administrator, Answer, ApiError, Call, Page, Reply, Routes, route};

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(create).guarded(Administrator))
        .routes(route!(list).guarded(Administrator))
        .routes(route!(revoke).guarded(Administrator))
}

/// An admin token to be made.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewTokenBody<'a> {
    /// Whose it is, for people.
    #[serde(borrow)]
    #[schema(example = "alice", min_length = 1, max_length = 100)]
    name: Cow<'a, str>,
    /// From when on it does not work any more; left out: it works until it is revoked.
    #[serde(borrow)]
    #[schema(format = DateTime, example = "2099-01-31T00:00:00Z")]
    expires_at: Option<Cow<'a, str>>,
}

/// An admin token that was made; without `Debug`, as it has the token.
#[derive(Serialize, ToSchema)]
pub(crate) struct NewTokenAnswer {
    /// The bearer token. It is shown here only.
    token: String,
    #[serde(flatten)]
    row: TokenRow,
}

/// An admin token without its text.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenRow {
    /// Its id.
    #[schema(example = "tok_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    id: String,
    /// Whose it is.
    name: String,
    /// Its first characters, to distinguish it from others.
    prefix: String,
    /// When it was made.
    #[schema(format = DateTime)]
    created_at: String,
    /// From when on it does not work any more.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
}

impl From<AdminTokenInfo> for TokenRow {
    fn from(info: AdminTokenInfo) -> Self {
        Self {
            id: info.id.to_string(),
            name: info.name,
            prefix: info.prefix,
            created_at: info.created_at.to_string(),
            expires_at: info.expires_at.map(|at| at.to_string()),
        }
    }
}

/// A page of admin tokens.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what a page of them is")]
pub(crate) struct TokensAnswer {
    /// The rows of the page.
    data: Vec<TokenRow>,
    /// Rows of all pages.
    total: usize,
    /// Which page this is.
    page: usize,
}

#[utoipa::path(
    post,
    path = "/admin/v1/tokens",
    operation_id = "createAdminToken",
    tag = "Administration",
    summary = "Make an admin token",
    description = "One for each person or program that administers, beside the one of the settings. \
                   It may do what that one may, and works at once.",
    request_body = NewTokenBody,
    responses(
        (status = 201, description = "Made; the token is shown here only", body = NewTokenAnswer),
    )
)]
async fn create(call: Call<()>) -> Answer {
    let new = new_token(call.json()?, call.edge.engine.clock().now())?;
    let CreatedAdminToken { info, token } =
        call.edge.engine.access().create_admin_token(new, call.audit_context()).await?;
    let answer = NewTokenAnswer { token: token.reveal().to_owned(), row: info.into() };
    Ok(Reply::json(StatusCode::CREATED, &answer))
}

fn new_token(body: NewTokenBody<'_>, now: Timestamp) -> Result<NewAdminToken, ApiError> {
    check_name(&body.name)?;
    let expires_at = expiry(body.expires_at.as_deref(), now)?;
    Ok(NewAdminToken { name: body.name.into_owned(), expires_at })
}

#[utoipa::path(
    get,
    path = "/admin/v1/tokens",
    operation_id = "listAdminTokens",
    tag = "Administration",
    summary = "List the admin tokens",
    description = "Those that were made; the one of the settings or of `admin.token` is not among \
                   them.",
    params(
        ("page" = Option<i64>, Query, minimum = 1, description = "Which page, 1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Rows of a page, \
         50 by default"),
    ),
    responses((status = 200, description = "A page of admin tokens", body = TokensAnswer))
)]
async fn list(call: Call<()>) -> Answer {
    let page = Page::of(&call.query()?)?;
    Ok(Reply::ok(&page.cut(call.edge.engine.access().admin_tokens(), TokenRow::from)))
}

#[utoipa::path(
    delete,
    path = "/admin/v1/tokens/{token_id}",
    operation_id = "revokeAdminToken",
    tag = "Administration",
    summary = "Revoke an admin token",
    description = "At once: the next request with it is answered 401. A token may revoke itself.",
    params(("token_id" = String, Path, description = "The token's id")),
    responses((status = 204, description = "Revoked"))
)]
async fn revoke(mut call: Call<()>) -> Answer {
    let missing = "no such admin token";
    let id: AdminTokenId = call.path("token_id", missing).await?;
    if !call.edge.engine.access().revoke_admin_token(id, call.audit_context()).await? {
        return Err(ApiError::not_found(missing));
    }
    let people = call.edge.engine.people();
    people.end_sessions_of_token(&id.to_string(), call.audit_context()).await?;
    Ok(Reply::no_content())
}
