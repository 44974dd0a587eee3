//! Sets and reads how many people a day the numbers of a portfolio may write to first.

use postrider_actors::{
    DailyLimit, Permission, PortfolioBudget, PortfolioSetting, ProviderId, SetPortfolioError,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::workspace;
use crate::http::pipeline::{Answer, ApiError, Call, Code, Integer, Manages, Reply, Routes, route};

/// The maximum value of a limit.
const RECIPIENTS_MAX: u32 = 1_000_000_000;
/// The maximum share of a limit that broadcasts leave to others, in percent.
const RESERVE_MAX: u8 = 99;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(set).guarded(Manages::of(Permission::NumbersManage)))
        .routes(route!(read).guarded(Manages::of(Permission::NumbersManage)))
}

/// The budget that a portfolio is to have.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = PortfolioInput)]
pub(crate) struct PortfolioBody {
    /// How many people may be written to first within 24 hours; null or -1 for as many as one
    /// likes; left out: what the channel says.
    #[serde(default, deserialize_with = "crate::http::pipeline::object::nullable")]
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 1000000000, example = 1000)]
    daily_recipients: Option<Option<Integer>>,
    /// How much of that broadcasts leave to others, in percent; left out: 10.
    #[schema(value_type = Option<i64>, minimum = 0, maximum = 99, example = 10)]
    reserve_percent: Option<Integer>,
}

/// The budget of a portfolio.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Portfolio)]
pub(crate) struct PortfolioAnswer {
    /// The portfolio.
    #[schema(example = "102290129340398")]
    portfolio_id: String,
    /// How many people may be written to first within 24 hours; null for as many as one likes.
    #[schema(example = 1000)]
    daily_recipients: Option<u32>,
    /// Who says so: `setting`, `channel`, or `none` where nobody does.
    #[schema(example = "setting")]
    source: &'static str,
    /// How much of that broadcasts leave to others, in percent.
    reserve_percent: u8,
    /// How many people count now: they were written to within the last 24 hours, outside of an open
    /// window.
    used: u32,
    /// When the next one of them counts no more; null while nobody counts.
    #[schema(format = DateTime)]
    frees_at: Option<String>,
}

impl PortfolioBody {
    fn check(&self) -> Result<PortfolioSetting, ApiError> {
        let daily_recipients = match self.daily_recipients {
            None => None,
            Some(None | Some(Integer(-1))) => Some(DailyLimit::Unlimited),
            Some(Some(people)) => {
                let people = people.within("daily_recipients", 1, RECIPIENTS_MAX)?;
                Some(DailyLimit::People(people))
            }
        };
        let setting = PortfolioSetting { daily_recipients, ..PortfolioSetting::default() };
        let Some(percent) = self.reserve_percent else { return Ok(setting) };
        let reserve_percent = percent.within("reserve_percent", 0, RESERVE_MAX)?;
        Ok(PortfolioSetting { reserve_percent, ..setting })
    }
}

impl From<SetPortfolioError> for ApiError {
    fn from(error: SetPortfolioError) -> Self {
        match error {
            SetPortfolioError::TooMany => {
                Self::new(Code::Unprocessable, error.to_string()).because("portfolio_setting_limit")
            }
            SetPortfolioError::Unavailable(error) => error.into(),
        }
    }
}

fn reply(id: &ProviderId, budget: &PortfolioBudget) -> Reply {
    Reply::ok(&PortfolioAnswer {
        portfolio_id: id.as_str().to_owned(),
        daily_recipients: budget.limit.daily_recipients,
        source: budget.limit.source.as_str(),
        reserve_percent: budget.limit.reserve_percent,
        used: budget.used,
        frees_at: budget.frees_at.map(|at| at.to_string()),
    })
}

#[utoipa::path(
    put,
    path = "/admin/v1/workspaces/{workspace}/portfolios/{portfolio_id}",
    operation_id = "setPortfolio",
    tag = "Administration",
    summary = "Set the daily budget of a portfolio of numbers",
    description = "Counted is who gets a template or a one-time password outside of an open window, \
        once in 24 hours. Broadcasts wait at the limit less the reserve, with the reason \
        `portfolio_limit`, and go on by themselves; single templates wait at the limit. Codes never \
        wait. An empty object sets it back. A workspace has at most 64 portfolios set (422, \
        `reason: \"portfolio_setting_limit\"`).",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("portfolio_id" = String, Path, description = "The portfolio's id"),
    ),
    request_body = PortfolioBody,
    responses((status = 200, description = "The budget in force", body = PortfolioAnswer))
)]
async fn set(mut call: Call<()>) -> Answer {
    let setting = call.json::<PortfolioBody>()?.check()?;
    let workspace = workspace(&mut call).await?;
    let id: ProviderId = call.path("portfolio_id", "no such portfolio").await?;
    Ok(reply(&id, &workspace.set_portfolio(id.as_str(), setting).await?))
}

#[utoipa::path(
    get,
    path = "/admin/v1/workspaces/{workspace}/portfolios/{portfolio_id}",
    operation_id = "readPortfolio",
    tag = "Administration",
    summary = "Read the daily budget of a portfolio of numbers, and its use",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("portfolio_id" = String, Path, description = "The portfolio's id"),
    ),
    responses((status = 200, description = "The budget", body = PortfolioAnswer))
)]
async fn read(mut call: Call<()>) -> Answer {
    let workspace = workspace(&mut call).await?;
    let id: ProviderId = call.path("portfolio_id", "no such portfolio").await?;
    Ok(reply(&id, &workspace.portfolio(id.as_str()).await?))
}
