//! Pure: the budget of first messages of a portfolio of numbers within 24 hours.
//!
//! It owns the limit, and the recipients that count towards it. It promises that a recipient
//! counted in a commit counts for 24 hours, through crashes too. Only a sure failure of the only
//! message to a recipient gives the place back. A message with an unknown outcome after a crash
//! keeps its place.

mod ledger;
mod limit;
mod recipients;
mod rows;
#[cfg(test)]
mod tests;

pub use ledger::Portfolios;
pub use limit::{LimitSource, PortfolioBudget, PortfolioLimit, PortfolioSetting, portfolio_of};
pub use recipients::{MessageMark, UniqueRecipients};

pub(crate) use ledger::Ledger;
pub(crate) use limit::{FullNumbers, limit_of};
pub(crate) use rows::{
    RowChange, behind_portfolio, is_past, of_workspace, rebased, reported_key, setting_key,
    settings,
};
