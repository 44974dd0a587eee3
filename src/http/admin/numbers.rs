//! Connects, lists, updates and disconnects messaging numbers.

use std::borrow::Cow;
use std::fmt::Display;

use axum::http::StatusCode;
use postrider_actors::domain::NumberId;
use postrider_actors::{
    CloudApiAccount, CloudApiSecrets, NewNumber, NewProvider, NumberChange, NumberInfo, NumberKind,
    Permission, ProviderId, Secret, Workspace, portfolio_of,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::number_health::{CheckAnswer, FiguresAnswer};
use super::{workspace, workspace_id};
use crate::http::callback_address;
use crate::http::pipeline::{
    Answer, ApiError, Call, Code, Integer, Manages, Page, Reply, Routes, route,
};

/// The maximum send rate of a number, in messages per second.
const RATE_MAX: u32 = 100_000;
const NO_SUCH_NUMBER: &str = "no such number";
/// The maximum length of a token or secret, in characters.
const SECRET_CHARS_MAX: usize = 1024;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(connect).guarded(Manages::of(Permission::NumbersManage)))
        .routes(route!(list).guarded(Manages::of(Permission::NumbersManage)))
        .routes(route!(read).guarded(Manages::of(Permission::NumbersManage)))
        .routes(route!(update).guarded(Manages::of(Permission::NumbersManage)))
        .routes(route!(disconnect).guarded(Manages::of(Permission::NumbersManage)))
}

/// A number to be connected; without `Debug`, as it has secrets.
#[derive(Deserialize, ToSchema)]
pub(crate) struct NumberInput<'a> {
    /// `sandbox`: delivers nowhere, and remembers what it was given. `cloud_api`: a number of the
    /// chat-app channel; it needs everything below but the rate.
    #[serde(borrow)]
    #[schema(example = "cloud_api")]
    kind: Cow<'a, str>,
    /// Most messages in a second, 0 for no limit; left out: the settings', or what the channel says
    /// of a `cloud_api` number, or 80 for it and no limit for `sandbox`.
    #[schema(value_type = Option<i64>, minimum = 0, example = 80)]
    messages_per_second: Option<Integer>,
    /// Whether it may be in the pool of numbers that messages leave through. Once a `cloud_api`
    /// number is in the pool, only those are.
    #[schema(default = true)]
    pool: Option<bool>,
    /// Whose daily budget of recipients it shares; left out or null: that of its `account_id`.
    #[serde(borrow)]
    #[schema(example = "102290129340398", pattern = "^[a-zA-Z0-9_-]{1,64}$")]
    portfolio_id: Option<Cow<'a, str>>,
    /// The phone number itself.
    #[serde(borrow)]
    #[schema(example = "+15550001111")]
    phone: Option<Cow<'a, str>>,
    /// The number's id at the provider.
    #[serde(borrow)]
    #[schema(example = "106540352242922")]
    phone_number_id: Option<Cow<'a, str>>,
    /// The id of its business account at the provider; templates are listed with it.
    #[serde(borrow)]
    #[schema(example = "102290129340398")]
    account_id: Option<Cow<'a, str>>,
    /// The bearer token of the provider's interface.
    #[serde(borrow)]
    #[schema(format = Password, example = "EAAGm0PX4ZCpsBA")]
    token: Option<Cow<'a, str>>,
    /// What the provider signs callbacks with.
    #[serde(borrow)]
    #[schema(format = Password, example = "614fc3afc15eec90")]
    app_secret: Option<Cow<'a, str>>,
    /// What the provider shows when it verifies the callback's address; of your choice.
    #[serde(borrow)]
    #[schema(format = Password, example = "of-your-choice")]
    verify_token: Option<Cow<'a, str>>,
}

/// What is to change of a number; what is left out stays. Without `Debug`, as it has secrets.
#[derive(Deserialize, ToSchema)]
pub(crate) struct NumberUpdate<'a> {
    /// Another bearer token of the provider's interface.
    #[serde(borrow)]
    #[schema(format = Password, example = "EAAGm0PX4ZCpsBA")]
    token: Option<Cow<'a, str>>,
    /// Another secret that the provider signs callbacks with.
    #[serde(borrow)]
    #[schema(format = Password, example = "614fc3afc15eec90")]
    app_secret: Option<Cow<'a, str>>,
    /// Another token that the provider shows when it verifies the callback's address.
    #[serde(borrow)]
    #[schema(format = Password, example = "of-your-choice")]
    verify_token: Option<Cow<'a, str>>,
    /// Most messages in a second, 0 for no limit; null takes this figure away, so that the
    /// settings' holds again, or what the channel says, or that of its kind.
    #[serde(default, deserialize_with = "crate::http::pipeline::object::nullable")]
    #[schema(value_type = Option<i64>, minimum = 0, example = 80)]
    messages_per_second: Option<Option<Integer>>,
    /// Whether it may be in the pool of numbers that messages leave through.
    #[schema(example = true)]
    pool: Option<bool>,
    /// Whose daily budget of recipients it shares; null: that of its `account_id`.
    #[serde(borrow, default, deserialize_with = "crate::http::pipeline::object::nullable")]
    #[schema(
        value_type = Option<String>, example = "102290129340398",
        pattern = "^[a-zA-Z0-9_-]{1,64}$"
    )]
    portfolio_id: Option<Option<Cow<'a, str>>>,
}

impl NumberUpdate<'_> {
    fn check(&self) -> Result<NumberChange, ApiError> {
        let secret = |field: &str, value: &Option<Cow<'_, str>>| {
            value.as_deref().map(|value| secret(field, Some(value))).transpose()
        };
        Ok(NumberChange {
            token: secret("token", &self.token)?,
            app_secret: secret("app_secret", &self.app_secret)?,
            verify_token: secret("verify_token", &self.verify_token)?,
            messages_per_second: self.messages_per_second.map(rate).transpose()?,
            pool: self.pool,
            portfolio_id: match &self.portfolio_id {
                Some(given) => Some(portfolio(given.as_deref())?),
                None => None,
            },
        })
    }
}

impl NumberInput<'_> {
    fn check(&self) -> Result<NewNumber, ApiError> {
        let provider = match &*self.kind {
            "sandbox" => NewProvider::Sandbox,
            "cloud_api" => {
                let account = CloudApiAccount {
                    phone: parsed("phone", self.phone.as_deref())?,
                    phone_number_id: parsed("phone_number_id", self.phone_number_id.as_deref())?,
                    account_id: parsed("account_id", self.account_id.as_deref())?,
                };
                let secrets = CloudApiSecrets {
                    token: secret("token", self.token.as_deref())?,
                    app_secret: secret("app_secret", self.app_secret.as_deref())?,
                    verify_token: secret("verify_token", self.verify_token.as_deref())?,
                };
                NewProvider::CloudApi(account, secrets)
            }
            _ => return Err(ApiError::field("kind", "must be `sandbox` or `cloud_api`")),
        };
        Ok(NewNumber {
            provider,
            messages_per_second: rate(self.messages_per_second)?,
            pool: self.pool.unwrap_or(true),
            portfolio_id: portfolio(self.portfolio_id.as_deref())?,
        })
    }
}

fn rate(given: Option<Integer>) -> Result<Option<u32>, ApiError> {
    given.map(|rate| rate.within("messages_per_second", 0, RATE_MAX)).transpose()
}

fn portfolio(given: Option<&str>) -> Result<Option<Box<str>>, ApiError> {
    let id = given.map(str::parse::<ProviderId>).transpose();
    let id = id.map_err(|rule| ApiError::field("portfolio_id", rule))?;
    Ok(id.map(|id| id.as_str().into()))
}

fn given<'a>(field: &str, value: Option<&'a str>) -> Result<&'a str, ApiError> {
    value.ok_or_else(|| ApiError::field(field, "must be given for the kind `cloud_api`"))
}

fn parsed<T>(field: &str, value: Option<&str>) -> Result<T, ApiError>
where
    T: std::str::FromStr<Err: Display>,
{
    given(field, value)?.parse().map_err(|rule| ApiError::field(field, rule))
}

fn secret(field: &str, value: Option<&str>) -> Result<Secret, ApiError> {
    let value = given(field, value)?;
    let good = (1..=SECRET_CHARS_MAX).contains(&value.len())
        && value.bytes().all(|byte| byte.is_ascii_graphic());
    if good {
        Ok(Secret::new(value))
    } else {
        let rule = format_args!("must have 1 to {SECRET_CHARS_MAX} visible ASCII characters");
        Err(ApiError::field(field, rule))
    }
}

/// A connected number.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NumberRow {
    /// Its id.
    #[schema(example = "num_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    id: String,
    /// What is behind it.
    #[schema(example = "cloud_api")]
    kind: &'static str,
    /// Where the provider calls back; null for a number that has no provider.
    #[schema(example = "/channels/cloud-api/num_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    callback_path: Option<String>,
    /// The phone number itself, if it has one.
    #[schema(example = "+15550001111")]
    phone: Option<String>,
    /// Its id at the provider.
    phone_number_id: Option<String>,
    /// The id of its account at the provider.
    account_id: Option<String>,
    /// Most messages in a second, 0 for no limit; null when it is not the number's own.
    messages_per_second: Option<u32>,
    /// Whether it may be in the pool of numbers that messages leave through.
    pool: bool,
    /// Whose daily budget of recipients it shares; null: nobody is counted.
    portfolio_id: Option<String>,
    /// Why it cannot send at the time, as the provider explains it, in the list of numbers: without
    /// what looks like a phone or a token. Left out while it can, and in other answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "error 190: the access token has expired")]
    trouble: Option<String>,
    /// When it was connected.
    #[schema(format = DateTime)]
    created_at: String,
}

impl From<NumberInfo> for NumberRow {
    fn from(info: NumberInfo) -> Self {
        let called = info.kind == NumberKind::CloudApi;
        let account = info.account.as_ref();
        Self {
            id: info.id.to_string(),
            kind: info.kind.as_str(),
            callback_path: called.then(|| callback_address(&info.id.to_string())),
            phone: account.map(|account| account.phone.to_string()),
            phone_number_id: account.map(|account| account.phone_number_id.as_str().to_owned()),
            account_id: account.map(|account| account.account_id.as_str().to_owned()),
            messages_per_second: info.messages_per_second,
            pool: info.pool,
            portfolio_id: portfolio_of(&info).map(str::to_owned),
            trouble: None,
            created_at: info.created_at.to_string(),
        }
    }
}

/// A number, and how it does.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NumberDetail {
    #[serde(flatten)]
    number: NumberRow,
    #[serde(flatten)]
    figures: FiguresAnswer,
    /// What its last check found; null before the first, and of one that has no provider.
    check: Option<CheckAnswer>,
}

impl NumberDetail {
    pub(super) async fn of(call: &Call<()>, workspace: &Workspace, info: NumberInfo) -> Self {
        let check = match info.kind {
            // The number is shown even if its check cannot be read.
            NumberKind::CloudApi => workspace.last_check(info.id).await.unwrap_or_default(),
            _ => None,
        };
        let check = check.map(CheckAnswer::from);
        let (admin, now) = (call.edge.engine.admin(), call.edge.engine.clock().now());
        let figures = admin.number_figures(info.id).await;
        let trouble = figures.reason.clone();
        let figures = FiguresAnswer::of(figures, info.created_at, now);
        Self { number: NumberRow { trouble, ..NumberRow::from(info) }, figures, check }
    }
}

/// A page of numbers.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what a page of them is")]
pub(crate) struct NumbersAnswer {
    /// The rows of the page.
    data: Vec<NumberDetail>,
    /// Rows of all pages.
    total: usize,
    /// Which page this is.
    page: usize,
}

#[utoipa::path(
    post,
    path = "/admin/v1/workspaces/{workspace}/numbers",
    operation_id = "connectNumber",
    tag = "Administration",
    summary = "Connect a number",
    description = "The templates of a `cloud_api` number are brought up to date in the background. A \
        `phone_number_id` that is connected already, in whatever workspace, is refused with 409. A \
        number of the kind `sandbox` is connected in a sandbox only: elsewhere it is refused with 422 \
        and the reason `not_a_sandbox`. A workspace has at most 64 numbers: one more is refused with \
        422 and the reason `number_limit`.",
    params(("workspace" = String, Path, description = "The workspace's id")),
    request_body = NumberInput,
    responses((status = 201, description = "Connected", body = NumberRow))
)]
async fn connect(mut call: Call<()>) -> Answer {
    let new = call.json::<NumberInput<'_>>()?.check()?;
    if matches!(new.provider, NewProvider::Sandbox) && !call.edge.options.sandbox {
        let message =
            "this server is no sandbox: what left through such a number would reach nobody";
        return Err(ApiError::new(Code::Unprocessable, message).because("not_a_sandbox"));
    }
    let id = workspace_id(&mut call).await?;
    let number = call.admin().connect_number(&id, new).await?;
    Ok(Reply::json(StatusCode::CREATED, &NumberRow::from(number)))
}

#[utoipa::path(
    get,
    path = "/admin/v1/workspaces/{workspace}/numbers",
    operation_id = "listNumbers",
    tag = "Administration",
    summary = "List the numbers",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("page" = Option<i64>, Query, minimum = 1, description = "Which page, 1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Rows of a page, \
         50 by default"),
    ),
    responses((status = 200, description = "A page of numbers", body = NumbersAnswer))
)]
async fn list(mut call: Call<()>) -> Answer {
    let page = Page::of(&call.query()?)?;
    let of = workspace(&mut call).await?;
    let all = call.edge.engine.admin().numbers(of.id()).await?;
    let total = all.len();
    let mut rows = Vec::new();
    for info in all.into_iter().skip(page.skip()).take(page.limit()) {
        rows.push(NumberDetail::of(&call, &of, info).await);
    }
    Ok(Reply::ok(&page.of_rows(rows, total)))
}

#[utoipa::path(
    get,
    path = "/admin/v1/workspaces/{workspace}/numbers/{number_id}",
    operation_id = "readNumber",
    tag = "Administration",
    summary = "Read a number, and how it does",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("number_id" = String, Path, description = "The number's id"),
    ),
    responses((status = 200, description = "The number", body = NumberDetail))
)]
async fn read(mut call: Call<()>) -> Answer {
    let of = workspace(&mut call).await?;
    let number: NumberId = call.path("number_id", NO_SUCH_NUMBER).await?;
    let all = call.edge.engine.admin().numbers(of.id()).await?;
    let info = all.into_iter().find(|info| info.id == number);
    let info = info.ok_or_else(|| ApiError::not_found(NO_SUCH_NUMBER))?;
    Ok(Reply::ok(&NumberDetail::of(&call, &of, info).await))
}

#[utoipa::path(
    patch,
    path = "/admin/v1/workspaces/{workspace}/numbers/{number_id}",
    operation_id = "updateNumber",
    tag = "Administration",
    summary = "Give a number other secrets or another pace",
    description = "For a token that has expired, or secrets that have leaked. They are in force when \
        this is answered: callbacks are held against the new ones, and a number that has stopped is \
        tried at once, whatever was changed. What it holds goes out in order. 409 when the secrets \
        that are left out cannot be read, because the master key is another one: then give all.",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("number_id" = String, Path, description = "The number's id"),
    ),
    request_body = NumberUpdate,
    responses((status = 200, description = "Changed", body = NumberRow))
)]
async fn update(mut call: Call<()>) -> Answer {
    let change = call.json::<NumberUpdate<'_>>()?.check()?;
    let id = workspace_id(&mut call).await?;
    let number: NumberId = call.path("number_id", "no such number").await?;
    call.keeps(&["kind", "phone", "phone_number_id", "account_id"], async || {
        let all = call.edge.engine.admin().numbers(&id).await?;
        let info = all.into_iter().find(|info| info.id == number);
        info.map(NumberRow::from).ok_or_else(|| ApiError::not_found(NO_SUCH_NUMBER))
    })
    .await?;
    let changed = call.admin().update_number(&id, number, change).await?;
    Ok(Reply::ok(&NumberRow::from(changed)))
}

#[utoipa::path(
    delete,
    path = "/admin/v1/workspaces/{workspace}/numbers/{number_id}",
    operation_id = "disconnectNumber",
    tag = "Administration",
    summary = "Disconnect a number",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("number_id" = String, Path, description = "The number's id"),
    ),
    responses((status = 204, description = "Disconnected"))
)]
async fn disconnect(mut call: Call<()>) -> Answer {
    let id = workspace_id(&mut call).await?;
    let number: NumberId = call.path("number_id", "no such number").await?;
    call.admin().disconnect_number(&id, number).await?;
    Ok(Reply::no_content())
}
