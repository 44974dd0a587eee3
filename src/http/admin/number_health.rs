//! Shows how a number does: its state, its queues, its speed, and the last check with its
//! provider.

use std::collections::BTreeMap;

use postrider_actors::domain::template::TemplateQuality;
use postrider_actors::domain::{NumberId, Timestamp};
use postrider_actors::{
    CheckNumberError, LaneFigures, NumberCheck, NumberError, NumberFacts, NumberFigures,
    NumberProblem, NumberState, Permission,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::workspace;
use crate::http::pipeline::{Answer, ApiError, Call, Manages, Reply, Routes, route};

/// The reason for a stop if no other reason is known.
pub(crate) const KEEPS_FAILING: &str = "the channel keeps failing";

pub(crate) fn routes() -> Routes {
    Routes::default().routes(route!(check_number).guarded(Manages::of(Permission::NumbersManage)))
}

/// Something that is wrong with a number.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NumberProblem)]
pub(crate) struct ProblemRow {
    /// `unreachable`, `token_refused`, `refused`, `not_subscribed`, `no_callback_in_a_day`,
    /// `not_connected`, `name_not_approved`, `quality_red`, `template_missing` or
    /// `token_expires_soon`.
    #[schema(example = "not_subscribed")]
    code: &'static str,
    /// What is wrong.
    #[schema(example = "No app is subscribed to the account, so no callback comes.")]
    message: &'static str,
    /// What to do about it.
    #[schema(example = "Subscribe your app: POST /{account_id}/subscribed_apps at the provider.")]
    fix: &'static str,
}

impl From<NumberProblem> for ProblemRow {
    fn from(problem: NumberProblem) -> Self {
        let [code, message, fix] = problem.words();
        Self { code, message, fix }
    }
}

/// What the provider says of a number; null: it did not say.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NumberFacts)]
pub(crate) struct FactsRow {
    /// How recipients rate it: `green`, `yellow`, `red` or `unknown`.
    #[schema(example = "green")]
    quality: Option<&'static str>,
    /// What became of the name that it is to show.
    #[schema(example = "approved")]
    name_status: Option<Box<str>>,
    /// How fast it may send: `standard`, `high` or `coexistence`.
    #[schema(example = "high")]
    throughput: Option<&'static str>,
    /// How many people a day may be written to first: a number, or `unlimited`.
    #[schema(example = "10000")]
    limit: Option<String>,
}

impl From<NumberFacts> for FactsRow {
    fn from(facts: NumberFacts) -> Self {
        Self {
            quality: facts.quality.map(|it| it.as_str()),
            name_status: facts.name_status,
            throughput: facts.throughput.map(|it| it.as_str()),
            limit: facts.limit.map(|limit| limit.to_string()),
        }
    }
}

/// What the last check of a number found.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NumberCheck)]
pub(crate) struct CheckAnswer {
    /// When it was made.
    #[schema(format = DateTime)]
    checked_at: String,
    /// Whether the provider answered.
    reachable: bool,
    /// Whether the provider takes the token; null: it did not say.
    token_accepted: Option<bool>,
    /// The name that recipients see; null: the provider did not say.
    #[schema(example = "Acme")]
    verified_name: Option<Box<str>>,
    /// The provider's word for how the number does; null: it did not say.
    #[schema(example = "CONNECTED")]
    provider_status: Option<Box<str>>,
    /// What else the provider says of it.
    number: FactsRow,
    /// How many apps get the callbacks of the number's account; null: the provider did not say.
    #[schema(example = 1)]
    subscribed_apps: Option<usize>,
    /// When the provider last called back; null: not since the start.
    #[schema(format = DateTime)]
    last_callback_at: Option<String>,
    /// Of which fields of its webhook something has come since the start, and when last.
    #[schema(value_type = Object, example = json!({"messages": "2026-01-31T09:30:00.000Z"}))]
    webhook_fields_seen: BTreeMap<String, String>,
    /// When the token expires; null: it does not, or the provider did not say.
    #[schema(format = DateTime)]
    token_expires_at: Option<String>,
    /// What is wrong; empty where nothing is.
    problems: Vec<ProblemRow>,
}

impl From<NumberCheck> for CheckAnswer {
    fn from(check: NumberCheck) -> Self {
        Self {
            checked_at: check.at.to_string(),
            reachable: check.reachable,
            token_accepted: check.token_accepted,
            verified_name: check.verified_name,
            provider_status: check.status,
            number: check.facts.into(),
            subscribed_apps: check.subscribed_apps,
            last_callback_at: check.last_callback_at.map(|at| at.to_string()),
            webhook_fields_seen: check
                .webhook_fields_seen
                .into_iter()
                .map(|(field, at)| (field.into(), at.to_string()))
                .collect(),
            token_expires_at: check.token_expires_at.map(|at| at.to_string()),
            problems: check.problems.into_iter().map(ProblemRow::from).collect(),
        }
    }
}

#[utoipa::path(
    post,
    path = "/admin/v1/workspaces/{workspace}/numbers/{number_id}/check",
    operation_id = "checkNumber",
    tag = "Administration",
    summary = "Check a number with its provider",
    description = "Asks the provider how a `cloud_api` number does and who gets its callbacks. Pace, \
        quality, name status and limit follow what it says, as `number.changed` says. Within 30 \
        seconds the provider is not asked again: its last answer counts. The same is done when a \
        number is connected or updated, and once a day.",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("number_id" = String, Path, description = "The number's id"),
    ),
    responses((status = 200, description = "What the check found", body = CheckAnswer))
)]
async fn check_number(mut call: Call<()>) -> Answer {
    let workspace = workspace(&mut call).await?;
    let number: NumberId = call.path("number_id", "no such `cloud_api` number").await?;
    Ok(Reply::ok(&CheckAnswer::from(workspace.check_number(number).await?)))
}

/// Whether calls are held back.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NumberBreaker {
    /// Whether they are, because they kept failing or the account cannot send.
    open: bool,
    /// Failures in a row.
    #[schema(example = 0)]
    failures: u32,
    /// When the next call is tried; null while none is held back.
    #[schema(format = DateTime)]
    next_try_at: Option<String>,
}

/// Messages in a second.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NumberPace {
    /// The most; null: no limit.
    #[schema(example = 80)]
    set: Option<u32>,
    /// How many were accepted, over the last ten seconds; null while none was.
    #[schema(example = 12)]
    now: Option<u32>,
}

/// The messages of one kind.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NumberLane {
    /// Messages without an outcome.
    #[schema(example = 3)]
    waiting: usize,
    /// How long ago the oldest of them was accepted.
    #[schema(example = 2)]
    oldest_seconds: u64,
}

/// What waits, by kind.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NumberLanes {
    /// Codes.
    otp: NumberLane,
    /// Single messages.
    single: NumberLane,
    /// Messages of broadcasts that were handed to the number.
    broadcast: NumberLane,
}

/// An error that a number met.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NumberLastError {
    /// The provider's code; null: it gave none.
    #[schema(example = 131_026)]
    code: Option<u32>,
    /// What the provider said, without what looks like a phone or a token.
    message: String,
    /// When.
    #[schema(format = DateTime)]
    at: String,
}

/// How a number does.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NumberFigures)]
pub(crate) struct FiguresAnswer {
    /// `open`; `slow`: the provider asked for a pause; `stopped`: its account cannot send, or its
    /// channel keeps failing.
    #[schema(example = "open")]
    state: &'static str,
    /// `active`; `stopped`: its account cannot send; `open`: its channel keeps failing, and calls
    /// are held back.
    #[schema(example = "active")]
    status: &'static str,
    /// How recipients rate it, as the channel says: `green`, `yellow`, `red` or `unknown`.
    #[schema(example = "green")]
    quality: &'static str,
    /// What became of the name that it is to show, as the channel says; null: nothing was said.
    #[schema(example = "approved")]
    name_status: Option<Box<str>>,
    /// How fast the channel lets it send: `standard`; `high`: 1,000 messages in a second;
    /// `coexistence`: 20, because it is in the channel's app as well. Null: nothing was said.
    #[schema(example = "high")]
    throughput: Option<&'static str>,
    /// Why, as the provider explains it; null while it is open.
    reason: Option<String>,
    /// Since when; of an open one that was never otherwise since the start, when it was connected.
    #[schema(format = DateTime)]
    since: String,
    /// Whether calls are held back.
    breaker: NumberBreaker,
    /// How fast it goes.
    pace: NumberPace,
    /// What waits.
    lanes: NumberLanes,
    /// Messages that are with the channel, or about to be.
    #[schema(example = 1)]
    in_flight: usize,
    /// Messages that were accepted in the last minute.
    #[schema(example = 40)]
    sent_last_minute: u32,
    /// The last error since the start.
    last_error: Option<NumberLastError>,
    /// When the provider last called back, since the start.
    #[schema(format = DateTime)]
    last_callback_at: Option<String>,
}

impl FiguresAnswer {
    /// Returns the answer for a number that was connected at `connected`, with its figures at
    /// `now`.
    pub(super) fn of(figures: NumberFigures, connected: Timestamp, now: Timestamp) -> Self {
        let lane = |lane: LaneFigures| NumberLane {
            waiting: lane.waiting,
            oldest_seconds: lane.oldest.map_or(0, |at| now.since(at).as_secs()),
        };
        let error = |error: NumberError| NumberLastError {
            code: error.code,
            message: error.message,
            at: error.at.to_string(),
        };
        let some = |rate: u32| (rate > 0).then_some(rate);
        let [otp, single, broadcast] = figures.lanes.map(lane);
        let state = match figures.state {
            NumberState::Open => "open",
            NumberState::Slow => "slow",
            NumberState::Stopped => "stopped",
        };
        let why = match figures.state {
            NumberState::Open => None,
            NumberState::Slow => Some("the provider asked for a pause"),
            NumberState::Stopped => Some(KEEPS_FAILING),
        };
        let status = match (figures.breaker_open, figures.is_account_stopped) {
            (false, _) => "active",
            (true, true) => "stopped",
            (true, false) => "open",
        };
        let facts = figures.facts;
        Self {
            state,
            status,
            quality: facts.quality.unwrap_or(TemplateQuality::Unknown).as_str(),
            name_status: facts.name_status,
            throughput: facts.throughput.map(|it| it.as_str()),
            reason: why.map(|why| figures.reason.unwrap_or_else(|| why.to_owned())),
            since: figures.since.unwrap_or(connected).to_string(),
            breaker: NumberBreaker {
                open: figures.breaker_open,
                failures: figures.failures,
                next_try_at: figures.next_try_at.map(|at| at.to_string()),
            },
            pace: NumberPace { set: some(figures.rate_set), now: some(figures.rate_now) },
            lanes: NumberLanes { otp, single, broadcast },
            in_flight: figures.in_flight,
            sent_last_minute: figures.sent_last_minute,
            last_error: figures.last_error.map(error),
            last_callback_at: figures.last_callback_at.map(|at| at.to_string()),
        }
    }
}

impl From<CheckNumberError> for ApiError {
    fn from(error: CheckNumberError) -> Self {
        match error {
            CheckNumberError::NoProvider => Self::not_found("no such `cloud_api` number"),
            CheckNumberError::Unavailable(why) => why.into(),
        }
    }
}
