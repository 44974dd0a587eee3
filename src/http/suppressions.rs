//! Serves suppressions, which are the phones that have opted out.

use axum::http::StatusCode;
use postrider_actors::domain::{PartyId, Phone, UserId};
use postrider_actors::{Permission, Suppression, UnsuppressError};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::pipeline::{Answer, ApiError, Call, Key, Page, Principal, Reply, Routes, route};

/// The maximum length of a reason, in characters.
const REASON_CHARS_MAX: usize = 200;

const NOT_SUPPRESSED: &str = "the phone has not opted out";

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(list).guarded(Key::of(Permission::ContactsRead)))
        .routes(route!(create).guarded(Key::of(Permission::ContactsWrite)))
        .routes(route!(delete).guarded(Key::of(Permission::ContactsWrite)))
}

/// A phone that has opted out.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct SuppressionBody {
    /// The phone, in E.164; left out with `user_id`. It opts out in every form that its country
    /// has, such as `+551187654321` for `+5511987654321`.
    #[schema(example = "+15550123456", pattern = r"^\+[1-9][0-9]{6,14}$")]
    phone: Option<String>,
    /// The channel's id of a person; left out with `phone`.
    #[schema(pattern = r"^[A-Z]{2}\.(ENT\.)?[A-Za-z0-9]{1,128}$")]
    user_id: Option<String>,
    /// Why, for people.
    #[schema(example = "asked by phone", max_length = 200)]
    reason: Option<String>,
}

/// A phone that has opted out.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Suppression)]
pub(crate) struct SuppressionRow {
    /// The phone; null of a person who is known by the channel's id alone.
    #[schema(example = "+15550123456")]
    phone: Option<String>,
    /// The channel's id of a person; null of a phone.
    #[schema(example = "US.13491208655302741918")]
    user_id: Option<String>,
    /// Why, if somebody said so.
    #[schema(example = "asked by phone")]
    reason: Option<String>,
    /// What opted it out: `word` (a message), `api` (a call), `channel` (a choice in the channel's
    /// app) or `refusal` (the channel's refusal to send marketing).
    #[schema(example = "api")]
    source: &'static str,
    /// Since when.
    #[schema(format = DateTime, example = "2026-01-31T09:25:00.000Z")]
    created_at: String,
}

/// A page of phones that have opted out.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what `list` writes")]
pub(crate) struct SuppressionsAnswer {
    /// By phone.
    data: Vec<SuppressionRow>,
    /// How many there are on all pages.
    total: u64,
    /// The page's number.
    page: u64,
}

impl From<Suppression> for SuppressionRow {
    fn from(suppression: Suppression) -> Self {
        Self {
            phone: suppression.party.phone().map(|phone| phone.to_string()),
            user_id: suppression.party.user_id().map(ToString::to_string),
            reason: suppression.reason,
            source: suppression.source.as_str(),
            created_at: suppression.created_at.to_string(),
        }
    }
}

/// Returns the party that `phone` or `user_id` names; exactly one of them must be given.
fn party(phone: Option<&str>, user_id: Option<&str>) -> Result<PartyId, ApiError> {
    match (phone, user_id) {
        (Some(phone), None) => {
            let phone: Phone = phone.parse().map_err(|error| ApiError::field("phone", error))?;
            Ok(phone.into())
        }
        (None, Some(id)) => {
            let id: UserId = id.parse().map_err(|error| ApiError::field("user_id", error))?;
            Ok(id.into())
        }
        _ => Err(ApiError::field("phone", "must be given, or `user_id`, and not both")),
    }
}

#[utoipa::path(
    post,
    path = "/v1/suppressions",
    operation_id = "createSuppression",
    tag = "Suppressions",
    summary = "Opt a phone out of messages",
    description = "Marketing templates and broadcasts are not sent to it; one-time passwords are. A \
                   phone that has opted out already keeps its moment.",
    request_body = SuppressionBody,
    responses((status = 201, description = "It has opted out", body = SuppressionRow))
)]
async fn create(call: Call<Principal>) -> Answer {
    let body: SuppressionBody = call.json()?;
    let party = party(body.phone.as_deref(), body.user_id.as_deref())?;
    if body.reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON_CHARS_MAX) {
        return Err(ApiError::field("reason", "must have at most 200 characters"));
    }
    let suppression = call.caller.workspace().suppress(party, body.reason).await?;
    Ok(Reply::json(StatusCode::CREATED, &SuppressionRow::from(suppression)))
}

#[utoipa::path(
    get,
    path = "/v1/suppressions",
    operation_id = "listSuppressions",
    tag = "Suppressions",
    summary = "List the phones that have opted out",
    params(
        ("page" = Option<i64>, Query, minimum = 1, description = "1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Most phones of a \
         page, 50 by default"),
        ("phone" = Option<String>, Query, pattern = r"^\+[1-9][0-9]{6,14}$", description = "Only this \
         phone: one row, or none where it has not opted out"),
        ("user_id" = Option<String>, Query, pattern = r"^[A-Z]{2}\.(ENT\.)?[A-Za-z0-9]{1,128}$",
         description = "Only the person with this id of the channel; not with `phone`"),
    ),
    responses((status = 200, description = "Phones, in their order", body = SuppressionsAnswer))
)]
async fn list(call: Call<Principal>) -> Answer {
    let query = call.query()?;
    let page = Page::of(&query)?;
    let (phone, user_id) = (query.text("phone")?, query.text("user_id")?);
    if phone.is_some() || user_id.is_some() {
        let found = call.caller.workspace().suppression_of(party(phone, user_id)?).await?;
        return Ok(Reply::ok(&page.cut(found.into_iter().collect(), SuppressionRow::from)));
    }
    let found = call.caller.workspace().suppressions(page.skip(), page.limit()).await?;
    let rows: Vec<_> = found.suppressions.into_iter().map(SuppressionRow::from).collect();
    Ok(Reply::ok(&page.of_rows(rows, found.total)))
}

#[utoipa::path(
    delete,
    path = "/v1/suppressions/{party}",
    operation_id = "deleteSuppression",
    tag = "Suppressions",
    summary = "Take an opt-out back",
    params(("party" = String, Path, description = "The phone, in E.164, in \
         any form that its country has, or the user id")),
    responses((status = 204, description = "It has not opted out any more"))
)]
async fn delete(mut call: Call<Principal>) -> Answer {
    let party: PartyId = call.path("party", NOT_SUPPRESSED).await?;
    call.caller.workspace().unsuppress(party).await?;
    Ok(Reply::no_content())
}

impl From<UnsuppressError> for ApiError {
    fn from(error: UnsuppressError) -> Self {
        match error {
            UnsuppressError::NotFound => Self::not_found(NOT_SUPPRESSED),
            UnsuppressError::Unavailable(error) => error.into(),
        }
    }
}
