//! Checks a number with its provider, and reports the problems that it finds.

use std::collections::BTreeMap;

use postrider_actors::domain::NumberId;
use postrider_actors::{CheckNumberError, NumberCheck, NumberFacts, NumberProblem, Permission};
use serde::Serialize;
use utoipa::ToSchema;

use super::params::workspace;
use crate::http::pipeline::{Answer, ApiError, Call, Manages, Reply, Routes, route};

pub(crate) fn routes() -> Routes {
    Routes::default().routes(route!(check).guarded(Manages::of(Permission::NumbersManage)))
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

impl From<CheckNumberError> for ApiError {
    fn from(error: CheckNumberError) -> Self {
        match error {
            CheckNumberError::NoProvider => Self::not_found("no such `cloud_api` number"),
            CheckNumberError::Unavailable(why) => why.into(),
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
async fn check(mut call: Call<()>) -> Answer {
    let workspace = workspace(&mut call).await?;
    let number: NumberId = call.path("number_id", "no such `cloud_api` number").await?;
    Ok(Reply::ok(&CheckAnswer::from(workspace.check_number(number).await?)))
}
