//! Pure: the limit of first messages of a portfolio, its source, and the numbers that reached it.

use std::sync::Arc;

use postrider_channel::number_facts::{DailyLimit, NumberFacts};
use postrider_domain::{NumberId, Phone, Timestamp, WorkspaceId};
use postrider_number::record::NumberInfo;
use postrider_store::view::codec;
use postrider_store::{StoreError, Table};
use serde::{Deserialize, Serialize};

use super::rows::setting_key;
use crate::core::records::facts_key;

/// The default share of a limit that broadcasts leave to others, in percent.
const RESERVE_PERCENT: u8 = 10;

/// An administrator's settings of a portfolio. They are stored as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortfolioSetting {
    /// The number of people who may be written to first a day; `None`: the channel's limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daily_recipients: Option<DailyLimit>,
    /// The share of the limit that broadcasts leave to others, in percent.
    pub reserve_percent: u8,
}

impl Default for PortfolioSetting {
    fn default() -> Self {
        Self { daily_recipients: None, reserve_percent: RESERVE_PERCENT }
    }
}

/// The source of the limit of a portfolio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitSource {
    /// An administrator.
    Setting,
    /// The channel.
    Channel,
    /// No source.
    Nobody,
}

impl LimitSource {
    /// Returns the word for the source.
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
    /// The number of people who may be written to first within 24 hours; `None`: unlimited.
    pub daily_recipients: Option<u32>,
    /// The source of the limit.
    pub source: LimitSource,
    /// The share of the limit that broadcasts leave to others, in percent.
    pub reserve_percent: u8,
}

/// The budget of a portfolio at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortfolioBudget {
    /// The limit.
    pub limit: PortfolioLimit,
    /// The number of people who count towards it.
    pub used: u32,
    /// The time at which the next one of them counts no more.
    pub frees_at: Option<Timestamp>,
}

impl PortfolioLimit {
    /// Returns the limit of recipients for broadcasts, at least one; `None`: unlimited.
    pub(crate) fn for_broadcasts(&self) -> Option<u32> {
        let reserve = |limit: u32| u64::from(limit) * u64::from(self.reserve_percent.min(99)) / 100;
        // The reserve is less than the whole.
        self.daily_recipients.map(|limit| limit.saturating_sub(reserve(limit) as u32))
    }
}

/// Returns the portfolio of a number; `None` if it has no account and was given no portfolio.
#[must_use]
pub fn portfolio_of(number: &NumberInfo) -> Option<&str> {
    let account = || number.account.as_ref().map(|account| account.account_id.as_str());
    number.portfolio_id.as_deref().or_else(account)
}

/// Returns the limit of a portfolio: an administrator's, or the channel's for its numbers.
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
                // Facts that cannot be read are reported again some day.
                let facts = facts.and_then(|json| codec::decode::<NumberFacts>(&json).ok());
                said = said.or(facts.and_then(|facts| facts.limit));
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

/// Returns whether a recipient may be written to through a number without a place.
///
/// It may if it counts already, or has an open window.
type NeedsNone = Arc<dyn Fn(NumberId, Phone, Timestamp) -> bool + Send + Sync>;

/// Numbers that have no place for new recipients.
#[derive(Default)]
pub(crate) struct FullNumbers {
    numbers: Vec<NumberId>,
    needs_none: Option<NeedsNone>,
}

impl FullNumbers {
    pub(crate) fn new(numbers: Vec<NumberId>, needs_none: NeedsNone) -> Self {
        Self { numbers, needs_none: Some(needs_none) }
    }

    /// Returns whether there is no place for this recipient, who needs one.
    pub(crate) fn has_no_place(&self, number: NumberId, to: Phone, now: Timestamp) -> bool {
        let needs_none = || self.needs_none.as_ref().is_some_and(|it| it(number, to, now));
        self.numbers.contains(&number) && !needs_none()
    }
}

impl std::fmt::Debug for FullNumbers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FullNumbers").field(&self.numbers).finish()
    }
}
