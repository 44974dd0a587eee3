//! Creates, lists and revokes API keys. Only the answer that creates a key contains its text.

use std::borrow::Cow;
use std::net::IpAddr;

use axum::http::StatusCode;
use ipnet::IpNet;
use postrider_actors::domain::{KeyId, LimitsOverride, Scope, Scopes, Timestamp};
use postrider_actors::{CreatedKey, KeyChange, KeyInfo, NewKey, Permission, Permissions};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::audit::ActorAnswer;
use super::limits::{KEY_LIMITS, LimitsBody};
use super::{check_name, expiry, workspace_id};
use crate::http::pipeline::object::nullable;
use crate::http::pipeline::{
    Answer, ApiError, Call, Code, Delegates, Manages, Page, Reply, Routes, route,
};

/// The maximum number of subnets of a key.
const SUBNETS_MAX: usize = 100;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(create).guarded(Delegates::of(Permission::KeysManage)))
        .routes(route!(list).guarded(Manages::of(Permission::KeysManage)))
        .routes(route!(update).guarded(Delegates::of(Permission::KeysManage)))
        .routes(route!(revoke).guarded(Manages::of(Permission::KeysManage)))
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
    /// From when on it does not work any more; left out: it works until it is revoked.
    #[serde(borrow)]
    #[schema(format = DateTime, example = "2099-01-31T00:00:00Z")]
    expires_at: Option<Cow<'a, str>>,
    /// Addresses and subnets that it may be used from; left out or empty: any. The address is that
    /// of the connection, or behind a trusted proxy the one that it reports.
    #[serde(borrow)]
    #[schema(example = json!(["192.0.2.7", "10.1.0.0/16"]), max_items = 100)]
    allowed_subnets: Option<Vec<Cow<'a, str>>>,
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
    /// Its first characters, to distinguish it from others.
    prefix: String,
    /// When it was made.
    #[schema(format = DateTime)]
    created_at: String,
    /// Who made it.
    created_by: ActorAnswer,
    /// From when on it does not work any more.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    /// When a request was made with it last, to the minute. After a crash the last minute may be
    /// missing.
    #[schema(format = DateTime)]
    last_used_at: Option<String>,
    /// The subnets that it may be used from; empty: any.
    allowed_subnets: Vec<String>,
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
            created_by: ActorAnswer::from(info.created_by),
            expires_at: info.expires_at.map(|at| at.to_string()),
            last_used_at: info.last_used_at.map(|at| at.to_string()),
            allowed_subnets: info.allowed_subnets.iter().map(IpNet::to_string).collect(),
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
    description = "A workspace may have many. To rotate one, make another beside it, have all clients \
                   use that, and revoke the first once its `last_used_at` stands still. After \
                   `expires_at` a key is answered 401, as a revoked one is; from an address outside \
                   of `allowed_subnets` it is answered 403. Nobody gives a key what they may not do \
                   in the workspace themselves: 403 with the reason `scope_beyond_role`.",
    params(("workspace" = String, Path, description = "The workspace's id")),
    request_body = NewKeyBody,
    responses((status = 201, description = "Made; the key is shown here only", body = NewKeyAnswer))
)]
async fn create(mut call: Call<Permissions>) -> Answer {
    let new = new_key(call.json()?, call.edge.engine.clock().now())?;
    may_give(&call, new.scopes)?;
    let id = workspace_id(&mut call).await?;
    let CreatedKey { info, key } = call.admin().create_key(&id, new).await?;
    let answer = NewKeyAnswer { key: key.reveal().to_owned(), row: info.into() };
    Ok(Reply::json(StatusCode::CREATED, &answer))
}

/// Refuses scopes that allow more than the caller's own permissions.
fn may_give(call: &Call<Permissions>, scopes: Scopes) -> Result<(), ApiError> {
    for scope in scopes.iter() {
        if let Some(lacks) = call.caller.lacks_for(scope, call.edge.options.sandbox) {
            let message = format!("a key with {scope} may do what you may not: {lacks}");
            return Err(ApiError::new(Code::Forbidden, message).because("scope_beyond_role"));
        }
    }
    Ok(())
}

fn new_key(body: NewKeyBody<'_>, now: Timestamp) -> Result<NewKey, ApiError> {
    check_name(&body.name)?;
    let scope = |(index, name): (usize, &Cow<'_, str>)| {
        let field = || format!("scopes[{index}]");
        name.parse::<Scope>().map_err(|error| ApiError::field(&field(), error))
    };
    if body.scopes.is_empty() {
        return Err(ApiError::field("scopes", "must have at least one scope"));
    }
    let scopes: Scopes = body.scopes.iter().enumerate().map(scope).collect::<Result<_, _>>()?;
    Ok(NewKey {
        limits: key_limits(&body.limits.unwrap_or_default())?,
        expires_at: expiry(body.expires_at.as_deref(), now)?,
        allowed_subnets: subnets(&body.allowed_subnets.unwrap_or_default())?,
        ..NewKey::new(body.name, scopes)
    })
}

/// Checks the limits of a key, which has only some of the limits of a workspace.
fn key_limits(limits: &LimitsBody) -> Result<LimitsOverride, ApiError> {
    if let Some(name) = limits.names().find(|name| !name.starts_with(KEY_LIMITS)) {
        let field = format!("limits.{name}");
        return Err(ApiError::field(&field, "must not be given: it is a limit of the workspace"));
    }
    limits.check("limits.")
}

/// What is to change of a key; what is left out stays.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct KeyUpdate<'a> {
    /// Another name.
    #[serde(borrow)]
    #[schema(example = "backend", min_length = 1, max_length = 100)]
    name: Option<Cow<'a, str>>,
    /// In place of all request limits of its own: an empty object is none.
    #[schema(value_type = Option<super::limits::KeyLimitsSchema>)]
    limits: Option<LimitsBody>,
    /// From when on it does not work any more; `null`: it works until it is revoked.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>, format = DateTime, example = "2099-01-31T00:00:00Z")]
    expires_at: Option<Option<String>>,
}

impl KeyUpdate<'_> {
    fn check(self, now: Timestamp) -> Result<KeyChange, ApiError> {
        self.name.as_deref().map_or(Ok(()), check_name)?;
        let end = self.expires_at.map(|text| expiry(text.as_deref(), now));
        Ok(KeyChange {
            name: self.name.map(Cow::into_owned),
            limits: self.limits.as_ref().map(key_limits).transpose()?,
            expires_at: end.transpose()?,
        })
    }
}

/// Reads `allowed_subnets`: addresses, and subnets in the notation of CIDR.
fn subnets(texts: &[Cow<'_, str>]) -> Result<Vec<IpNet>, ApiError> {
    if texts.len() > SUBNETS_MAX {
        let rule = format_args!("must have at most {SUBNETS_MAX} subnets");
        return Err(ApiError::field("allowed_subnets", rule));
    }
    let subnet = |(index, text): (usize, &Cow<'_, str>)| {
        let address = || text.parse::<IpAddr>().map(|address| address.to_canonical().into());
        let subnet = text.parse::<IpNet>().or_else(|_| address());
        subnet.map(|subnet| canonical(subnet.trunc())).map_err(|_| {
            let rule = "must be an IP address or a subnet, such as 192.0.2.7 or 10.1.0.0/16";
            ApiError::field(&format!("allowed_subnets[{index}]"), rule)
        })
    };
    texts.iter().enumerate().map(subnet).collect()
}

/// Converts a network of IPv4-mapped IPv6 addresses to the IPv4 network. Clients' addresses are
/// compared as IPv4 addresses.
fn canonical(subnet: IpNet) -> IpNet {
    const MAPPED_BITS: u8 = 96;
    let mapped = match subnet {
        IpNet::V6(network) => network.addr().to_ipv4_mapped(),
        IpNet::V4(_) => None,
    };
    let network = mapped.zip(subnet.prefix_len().checked_sub(MAPPED_BITS));
    let network = network.and_then(|(address, bits)| IpNet::new(address.into(), bits).ok());
    network.unwrap_or(subnet)
}

#[utoipa::path(
    get,
    path = "/admin/v1/workspaces/{workspace}/keys",
    operation_id = "listKeys",
    tag = "Administration",
    summary = "List the API keys",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("page" = Option<i64>, Query, minimum = 1, description = "Which page, 1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Rows of a page, \
         50 by default"),
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
    patch,
    path = "/admin/v1/workspaces/{workspace}/keys/{key_id}",
    operation_id = "updateKey",
    tag = "Administration",
    summary = "Change an API key",
    description = "Its name, its limits and its end, from the next request on. One that has expired \
                   works again with a later end. What it allows stays: make another key for that.",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("key_id" = String, Path, description = "The key's id"),
    ),
    request_body = KeyUpdate,
    responses((status = 200, description = "Changed", body = KeyRow))
)]
async fn update(mut call: Call<Permissions>) -> Answer {
    let change = call.json::<KeyUpdate<'_>>()?.check(call.edge.engine.clock().now())?;
    let id = workspace_id(&mut call).await?;
    let key: KeyId = call.path("key_id", "no such key").await?;
    call.keeps(&["scopes", "allowed_subnets", "created_by"], async || {
        let keys = call.admin().keys(&id).await?;
        let known = keys.into_iter().find(|known| known.id == key);
        known.map(KeyRow::from).ok_or_else(|| ApiError::not_found("no such key"))
    })
    .await?;
    // The change could make an expired key valid again, so the caller must be allowed to give it.
    if change.expires_at.is_some() || change.limits.is_some() {
        let keys = call.admin().keys(&id).await?;
        if let Some(known) = keys.into_iter().find(|known| known.id == key) {
            may_give(&call, known.scopes)?;
        }
    }
    Ok(Reply::ok(&KeyRow::from(call.admin().update_key(&id, key, change).await?)))
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
    call.admin().revoke_key(&id, key).await?;
    Ok(Reply::no_content())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::pipeline::json;

    fn read(text: &'static str) -> Result<NewKey, String> {
        let body = json::parse::<NewKeyBody<'_>>(text.as_bytes());
        let now = Timestamp::from_millis(1_700_000_000_000);
        body.and_then(|body| new_key(body, now)).map_err(|error| error.message().to_owned())
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
            (
                r#"{"name": "k", "scopes": ["messaging:send"], "expires_at": "tomorrow"}"#,
                "`expires_at` must be an RFC 3339 date and time",
            ),
            (
                r#"{"name": "k", "scopes": ["messaging:send"], "expires_at": "2023-11-14T22:13:20Z"}"#,
                "`expires_at` must be in the future",
            ),
            (
                r#"{"name": "k", "scopes": ["messaging:send"], "allowed_subnets": ["::/0", "x/8"]}"#,
                "`allowed_subnets[1]` must be an IP address or a subnet",
            ),
        ] {
            let message = read(text).map(|_| ()).unwrap_err();
            assert!(message.starts_with(expected), "{text}: {message}");
        }
    }

    #[test]
    fn subnets_are_addresses_and_networks() {
        let key = r#"{"name": "k", "scopes": ["messaging:send"],
            "allowed_subnets": ["192.0.2.7", "10.1.2.3/16", "::ffff:192.0.2.8", "2001:db8::1",
                                "::ffff:10.2.3.4/112", "::ffff:0:0/96", "::/0"]}"#;
        let subnets: Vec<_> =
            read(key).unwrap().allowed_subnets.iter().map(IpNet::to_string).collect();
        let expected = ["192.0.2.7/32", "10.1.0.0/16", "192.0.2.8/32", "2001:db8::1/128"];
        assert_eq!(subnets[..4], expected);
        assert_eq!(subnets[4..], ["10.2.0.0/16", "0.0.0.0/0", "::/0"], "IPv4 in IPv6 is IPv4");
        let many = vec!["\"::1\""; SUBNETS_MAX + 1].join(",");
        let key = format!(
            r#"{{"name": "k", "scopes": ["messaging:send"], "allowed_subnets": [{many}]}}"#
        );
        let message = read(key.leak()).map(|_| ()).unwrap_err();
        assert!(message.starts_with("`allowed_subnets` must have at most"), "{message}");
    }
}
