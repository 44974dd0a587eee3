//! Creates, lists and revokes API keys. Only the answer that creates a key contains its text.

use std::borrow::Cow;

use axum::http::StatusCode;
use postrider_actors::domain::{KeyId, LimitsOverride, Scope, Scopes};
use postrider_actors::{CreatedKey, KeyInfo, NewKey};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::limits::{KEY_LIMITS, LimitsBody};
use super::params::{check_name, workspace_id};
use crate::http::pipeline::{Administrator, Answer, ApiError, Call, Page, Reply, Routes, route};

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(create).guarded(Administrator))
        .routes(route!(list).guarded(Administrator))
        .routes(route!(revoke).guarded(Administrator))
}

/// A key to be made.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewKeyBody<'a> {
    /// Its name, for people.
    #[serde(borrow)]
    #[schema(example = "production", min_length = 1, max_length = 100)]
    name: Cow<'a, str>,
    /// What it allows: `messaging:send`, `contacts:write`, `contacts:read`, `webhooks:manage`,
    /// `analytics:read`.
    #[serde(borrow)]
    #[schema(example = json!(["messaging:send"]))]
    scopes: Vec<Cow<'a, str>>,
    /// Request limits of its own, instead of the workspace's: `key_requests_per_hour` and
    /// `key_requests_per_minute`.
    #[schema(value_type = Option<super::limits::KeyLimitsSchema>)]
    limits: Option<LimitsBody>,
}

/// A key that was made; without `Debug`, as it has the key.
#[derive(Serialize, ToSchema)]
pub(crate) struct NewKeyAnswer {
    /// The bearer token. It is shown here only.
    key: String,
    #[serde(flatten)]
    row: KeyRow,
}

/// A key without its text.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyRow {
    /// Its id.
    #[schema(example = "key_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    id: String,
    /// Its name.
    name: String,
    /// What it allows.
    scopes: Vec<&'static str>,
    /// Limits of its own.
    #[schema(value_type = super::limits::LimitsSchema)]
    limits: LimitsOverride,
    /// Its first characters, to tell it from others.
    prefix: String,
    /// When it was made.
    #[schema(format = DateTime)]
    created_at: String,
}

impl From<KeyInfo> for KeyRow {
    fn from(info: KeyInfo) -> Self {
        Self {
            id: info.id.to_string(),
            name: info.name,
            scopes: info.scopes.iter().map(Scope::as_str).collect(),
            limits: info.limits,
            prefix: info.prefix,
            created_at: info.created_at.to_string(),
        }
    }
}

/// A page of keys.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what a page of them is")]
pub(crate) struct KeysAnswer {
    /// The rows of the page.
    data: Vec<KeyRow>,
    /// Rows of all pages.
    total: usize,
    /// Which page this is.
    page: usize,
}

#[utoipa::path(
    post,
    path = "/admin/v1/workspaces/{workspace}/keys",
    operation_id = "createKey",
    tag = "Administration",
    summary = "Make an API key",
    params(("workspace" = String, Path, description = "The workspace's id")),
    request_body = NewKeyBody,
    responses((status = 201, description = "Made; the key is shown here only", body = NewKeyAnswer))
)]
async fn create(mut call: Call<()>) -> Answer {
    let new = new_key(call.json()?)?;
    let id = workspace_id(&mut call).await?;
    let CreatedKey { info, key } = call.edge.engine.admin().create_key(&id, new).await?;
    let answer = NewKeyAnswer { key: key.reveal().to_owned(), row: info.into() };
    Ok(Reply::json(StatusCode::CREATED, &answer))
}

fn new_key(body: NewKeyBody<'_>) -> Result<NewKey, ApiError> {
    check_name(&body.name)?;
    let scope = |(index, name): (usize, &Cow<'_, str>)| {
        let field = || format!("scopes[{index}]");
        name.parse::<Scope>().map_err(|error| ApiError::field(&field(), error))
    };
    if body.scopes.is_empty() {
        return Err(ApiError::field("scopes", "must have at least one scope"));
    }
    let scopes: Scopes = body.scopes.iter().enumerate().map(scope).collect::<Result<_, _>>()?;
    let limits = body.limits.unwrap_or_default();
    if let Some(name) = limits.names().find(|name| !name.starts_with(KEY_LIMITS)) {
        let field = format!("limits.{name}");
        return Err(ApiError::field(&field, "must not be given: it is a limit of the workspace"));
    }
    Ok(NewKey { name: body.name.into_owned(), scopes, limits: limits.check("limits.")? })
}

#[utoipa::path(
    get,
    path = "/admin/v1/workspaces/{workspace}/keys",
    operation_id = "listKeys",
    tag = "Administration",
    summary = "List the API keys",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("page" = Option<i64>, Query, minimum = 1, description = "Which page, 1 unless told"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Rows of a page, \
         50 unless told"),
    ),
    responses((status = 200, description = "A page of keys", body = KeysAnswer))
)]
async fn list(mut call: Call<()>) -> Answer {
    let page = Page::of(&call.query()?)?;
    let id = workspace_id(&mut call).await?;
    let all = call.edge.engine.admin().keys(&id).await?;
    Ok(Reply::ok(&page.cut(all, KeyRow::from)))
}

#[utoipa::path(
    delete,
    path = "/admin/v1/workspaces/{workspace}/keys/{key_id}",
    operation_id = "revokeKey",
    tag = "Administration",
    summary = "Revoke an API key",
    description = "At once: the next request with it is answered 401.",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("key_id" = String, Path, description = "The key's id"),
    ),
    responses((status = 204, description = "Revoked"))
)]
async fn revoke(mut call: Call<()>) -> Answer {
    let id = workspace_id(&mut call).await?;
    let key: KeyId = call.path("key_id", "no such key").await?;
    call.edge.engine.admin().revoke_key(&id, key).await?;
    Ok(Reply::no_content())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::pipeline::body;

    fn read(text: &'static str) -> Result<NewKey, String> {
        let body = body::parse::<NewKeyBody<'_>>(text.as_bytes());
        body.and_then(new_key).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn a_key_has_a_name_scopes_and_limits_of_keys() {
        let key = r#"{"name": "k", "scopes": ["messaging:send"], "limits": {"key_requests_per_hour": 3}}"#;
        let key = read(key).unwrap();
        assert!(
            key.scopes.contains(Scope::MessagingSend) && !key.scopes.contains(Scope::ContactsRead)
        );
        assert_eq!(key.limits.key_requests_per_hour, Some(3));
        for (text, expected) in [
            (r#"{"scopes": []}"#, "missing field `name`"),
            (r#"{"name": "", "scopes": []}"#, "`name` must have 1 to 100 characters"),
            (r#"{"name": "k"}"#, "missing field `scopes`"),
            (r#"{"name": "k", "scopes": []}"#, "`scopes` must have at least one"),
            (r#"{"name": "k", "scopes": "x"}"#, "`scopes`: invalid type: string"),
            (r#"{"name": "k", "scopes": ["messaging:send", "x"]}"#, "`scopes[1]` must be one of"),
            (
                r#"{"name": "k", "scopes": ["messaging:send"], "limits": []}"#,
                "`limits`: invalid type: sequence",
            ),
            (
                r#"{"name": "k", "scopes": ["messaging:send"], "limits": {"otp_per_phone_10m": 1}}"#,
                "`limits.otp_per_phone_10m` must not be given",
            ),
            (
                r#"{"name": "k", "scopes": ["messaging:send"], "limits": {"key_requests_per_hour": -1}}"#,
                "`limits.key_requests_per_hour` must be a whole number",
            ),
        ] {
            let message = read(text).map(|_| ()).unwrap_err();
            assert!(message.starts_with(expected), "{text}: {message}");
        }
    }
}
