//! Pure: how many people a portfolio may write to first, and who says so.

use postrider_channel::number_facts::{DailyLimit, NumberFacts};
use postrider_domain::{Timestamp, WorkspaceId};
use postrider_number::record::NumberInfo;
use postrider_store::{StoreError, Table, view::codec};
use serde::{Deserialize, Serialize};

use super::rows::setting_key;
use crate::core::records::facts_key;

/// How much of a limit broadcasts leave to others, unless that is set, in percent.
const RESERVE_PERCENT: u8 = 10;

/// What an administrator has set of a portfolio. It is stored as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortfolioSetting {
    /// How many people a day may be written to first; `None`: what the channel says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daily_recipients: Option<DailyLimit>,
    /// How much of the limit broadcasts leave to others, in percent.
    #[serde(default = "reserve")]
    pub reserve_percent: u8,
}

const fn reserve() -> u8 {
    RESERVE_PERCENT
}

impl Default for PortfolioSetting {
    fn default() -> Self {
        Self { daily_recipients: None, reserve_percent: RESERVE_PERCENT }
    }
}

/// Who says what the limit of a portfolio is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitSource {
    /// An administrator.
    Setting,
    /// The channel.
    Channel,
    /// Nobody.
    Nobody,
}

impl LimitSource {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Setting => "setting",
            Self::Channel => "channel",
            Self::Nobody => "none",
        }
    }
}

/// The limit of a portfolio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortfolioLimit {
    /// How many people may be written to first within 24 hours; `None`: as many as one likes.
    pub daily_recipients: Option<u32>,
    /// Who says so.
    pub source: LimitSource,
    /// How much of it broadcasts leave to others, in percent.
    pub reserve_percent: u8,
}

/// The budget of a portfolio at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortfolioBudget {
    /// The limit.
    pub limit: PortfolioLimit,
    /// How many people count towards it.
    pub used: u32,
    /// When the next one of them counts no more.
    pub frees_at: Option<Timestamp>,
}

impl PortfolioLimit {
    /// Up to how many recipients broadcasts go: at least to one.
    pub(crate) fn for_broadcasts(&self) -> Option<u32> {
        let reserve = |limit: u32| u64::from(limit) * u64::from(self.reserve_percent.min(99)) / 100;
        // What is taken off is less than the whole.
        self.daily_recipients.map(|limit| limit.saturating_sub(reserve(limit) as u32))
    }
}

/// The portfolio of a number; nothing of one that has no account and was given none.
#[must_use]
pub fn portfolio_of(number: &NumberInfo) -> Option<&str> {
    let account = || number.account.as_ref().map(|account| account.account_id.as_str());
    number.portfolio_id.as_deref().or_else(account)
}

/// The limit of a portfolio: what an administrator has set, or what the channel says of its
/// numbers.
pub(crate) fn limit_of(
    (workspace, portfolio): (&WorkspaceId, &str),
    numbers: &[NumberInfo],
    get: impl Fn(&[u8], Table) -> Result<Option<Vec<u8>>, StoreError>,
) -> Result<PortfolioLimit, StoreError> {
    let setting = get(&setting_key(workspace, portfolio), Table::Portfolios)?;
    let setting: Option<PortfolioSetting> = setting.map(|json| codec::decode(&json)).transpose()?;
    let PortfolioSetting { daily_recipients, reserve_percent } = setting.unwrap_or_default();
    let (said, source) = match daily_recipients {
        Some(set) => (Some(set), LimitSource::Setting),
        None => {
            let mut said = None;
            for number in numbers.iter().filter(|it| portfolio_of(it) == Some(portfolio)) {
                let facts = get(&facts_key(workspace, number.id), Table::Workspaces)?;
                // What cannot be read is said again some day.
                let facts = facts.and_then(|json| codec::decode::<NumberFacts>(&json).ok());
                // Earlier versions took 0, too: nobody would ever be written to.
                let limit = facts.and_then(|facts| facts.limit);
                said = said.or(limit.filter(|it| *it != DailyLimit::People(0)));
            }
            (said, if said.is_some() { LimitSource::Channel } else { LimitSource::Nobody })
        }
    };
    let daily_recipients = match said {
        Some(DailyLimit::People(people)) => Some(people),
        Some(DailyLimit::Unlimited) | None => None,
    };
    Ok(PortfolioLimit { daily_recipients, source, reserve_percent })
}
