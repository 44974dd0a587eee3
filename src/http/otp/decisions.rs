//! Lists the decisions about codes to limited destinations, with their figures.

use postrider_actors::domain::RequestId;
use postrider_actors::domain::event::decision::OtpDecision;
use postrider_actors::{DecisionData, DecisionFilter, DecisionRow, Permission};
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::events::{after_cursor, encode_cursor};
use crate::http::pipeline::{
    Answer, ApiError, Call, Key, LIMIT_DEFAULT, LIMIT_MAX, Principal, Query, Reply, Routes, route,
};

pub(super) fn routes() -> Routes {
    Routes::default().routes(route!(list).guarded(Key::of(Permission::OtpRead))).routes(
        route!(list)
            .at("/v1/messaging/otp/decisions", "listOtpDecisionsByMessagingPath")
            .guarded(Key::of(Permission::OtpRead)),
    )
}

/// What was decided of one send.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OtpDecision)]
pub(crate) struct OtpDecisionRow {
    /// The event that has it.
    #[schema(example = "evt_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    event_id: String,
    /// When it was decided.
    #[schema(format = DateTime, example = "2026-01-31T09:25:00.000Z")]
    decided_at: String,
    /// The request for the code; null where it was refused, so that there is none.
    #[schema(example = "otp_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    request_id: Option<String>,
    /// Where it was to go, in E.164.
    #[schema(example = "+15550123456")]
    phone: String,
    /// The destination that is limited: a calling code, or one and the next three digits.
    #[schema(example = "1555")]
    prefix: String,
    /// `country` where that is a calling code, else `prefix`.
    #[schema(example = "prefix")]
    rule: String,
    /// How many codes to it had ended within the window; of a country, without those of its regions
    /// that are limited themselves.
    #[schema(example = 50)]
    sent: u32,
    /// How many of them were verified.
    #[schema(example = 4)]
    verified: u32,
    /// `allowed` (a safe destination), `probe`, `refused` or `would_refuse`.
    #[schema(example = "refused")]
    decision: &'static str,
}

impl From<DecisionRow> for OtpDecisionRow {
    fn from(row: DecisionRow) -> Self {
        let DecisionData { request_id, phone, prefix, rule, sent, verified, decision } = row.data;
        Self {
            event_id: row.event_id.to_string(),
            decided_at: row.at.to_string(),
            request_id: request_id.map(|id| id.to_string()),
            phone: phone.to_string(),
            prefix,
            rule,
            sent,
            verified,
            decision: decision.as_str(),
        }
    }
}

/// A part of the decisions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OtpDecisionsAnswer {
    /// Newest first. It may be short of rows, or empty, while `next_cursor` goes on.
    data: Vec<OtpDecisionRow>,
    /// Give it as `cursor`, with the same filters, to go on after this part; null at the oldest.
    #[schema(example = "AQAAAAAAAAAB")]
    next_cursor: Option<String>,
}

#[utoipa::path(
    get,
    path = "/v1/otp/decisions",
    operation_id = "listOtpDecisions",
    tag = "OTP",
    summary = "List what was decided of codes to limited destinations",
    description = "Why codes to destinations whose codes are rarely verified were sent or refused. \
                   These are the events `otp.decided`, as long as events are kept: all of what was \
                   sent, and of refusals the first 300 for a destination in five minutes, and 3,000 \
                   of a workspace. The message of each refusal has the figures too. Filters combine. \
                   `phone` and `request_id` are found by an index. Of what else is asked for, a \
                   part looks at 50,000 events at most, so it may be empty while `next_cursor` goes on; with `since` that ends sooner.",
    params(
        ("prefix" = Option<String>, Query, description = "Only those about phones that begin with \
         these digits"),
        ("phone" = Option<String>, Query, description = "Only those about this phone, in E.164"),
        ("request_id" = Option<String>, Query, description = "Only those about this request for a \
         code"),
        ("decision" = Option<String>, Query, description = "Only `allowed`, `probe`, `refused` or \
         `would_refuse` ones"),
        ("since" = Option<String>, Query, format = DateTime, description = "Only those of this \
         moment or later"),
        ("until" = Option<String>, Query, format = DateTime, description = "Only those before this \
         moment"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the part before"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Most rows, 50 \
         by default"),
    ),
    responses((status = 200, description = "Decisions, newest first", body = OtpDecisionsAnswer))
)]
async fn list(call: Call<Principal>) -> Answer {
    let query = call.query()?;
    let limit = query.integer("limit", LIMIT_DEFAULT, 1, LIMIT_MAX)?;
    let before = after_cursor(&query)?;
    let page = call.caller.workspace().otp_decisions(filter(&query)?, before, limit).await?;
    Ok(Reply::ok(&OtpDecisionsAnswer {
        data: page.rows.into_iter().map(OtpDecisionRow::from).collect(),
        next_cursor: page.next_before.map(encode_cursor),
    }))
}

fn filter(query: &Query) -> Result<DecisionFilter, ApiError> {
    let (since, until) = (query.moment("since")?, query.moment("until")?);
    if since.zip(until).is_some_and(|(since, until)| until < since) {
        return Err(ApiError::field("until", "must not be before `since`"));
    }
    let prefix = query.text("prefix")?.map(str::parse).transpose();
    let request_id = query.text("request_id")?.map(|text| {
        let bad = |_| ApiError::field("request_id", "must be the `request_id` of a sent code");
        text.parse::<RequestId>().map_err(bad)
    });
    Ok(DecisionFilter {
        prefix: prefix.map_err(|error| ApiError::field("prefix", error))?,
        phone: query.phone("phone")?,
        request_id: request_id.transpose()?,
        decision: query.text("decision")?.map(decision).transpose()?,
        since,
        until,
    })
}

fn decision(text: &str) -> Result<OtpDecision, ApiError> {
    OtpDecision::of(text).ok_or_else(|| {
        let words = OtpDecision::ALL.map(OtpDecision::as_str).join(", ");
        ApiError::field("decision", format_args!("must be one of {words}"))
    })
}
