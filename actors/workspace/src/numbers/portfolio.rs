//! The budget of a portfolio: set and read by administrators, and reported when it is used up.

use std::sync::Arc;

use postrider_channel::number_facts::DailyLimit;
use postrider_domain::event::number::{LimitFreedData, LimitReachedData};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{AuditEntry, EventData, UnavailableReason};
use postrider_store::Table;

use crate::core::command::{Command, Context, Footprint};
use crate::core::portfolio::{
    PortfolioBudget, PortfolioLimit, PortfolioSetting, limit_of, reported_key, setting_key,
    settings,
};
use crate::core::records;
use crate::core::view::unreadable;
use crate::handle::Workspace;
use crate::messages::limit_in;
use crate::services::Services;

/// The maximum number of a workspace's portfolio settings: the maximum number of its numbers.
const SETTINGS_MAX: usize = 64;

/// The reason why the limit of a portfolio was not set.
#[derive(Debug, thiserror::Error)]
pub enum SetPortfolioError {
    /// The maximum number of portfolios is already set.
    #[error("{SETTINGS_MAX} portfolios are set already; set one back by an empty object")]
    TooMany,
    /// The workspace cannot accept the change now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Workspace {
    /// Sets the number of people to whom a portfolio may write first within 24 hours.
    ///
    /// # Errors
    /// [`SetPortfolioError`].
    pub async fn set_portfolio(
        &self,
        id: &str,
        setting: PortfolioSetting,
    ) -> Result<PortfolioBudget, SetPortfolioError> {
        let people = match setting.daily_recipients {
            Some(DailyLimit::People(people)) => Some(people),
            Some(DailyLimit::Unlimited) | None => None,
        };
        let entry = AuditEntry::new("portfolio.set")
            .target(id)
            .change("daily_recipients", people)
            .change("reserve_percent", setting.reserve_percent);
        self.perform_audited(SetPortfolio { id: id.into(), setting }, entry).await?;
        Ok(self.portfolio(id).await?)
    }

    /// Returns the budget of a portfolio; an unused one if the portfolio has no number.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn portfolio(&self, id: &str) -> Result<PortfolioBudget, Unavailable> {
        let (portfolios, id) = (Arc::clone(&self.shared.portfolios), Box::<str>::from(id));
        let now = self.shared.clock.now();
        self.read(move |view, workspace| {
            let records = records::load(view, workspace)?;
            let numbers = records.map(|records| records.numbers).unwrap_or_default();
            let get = |key: &[u8], table: Table| view.get(table, key);
            let limit = limit_of((workspace, &*id), &numbers, get)?;
            let (used, frees_at) = portfolios.use_of(view, (workspace, &*id), now)?;
            Ok(PortfolioBudget { limit, used, frees_at })
        })
        .await
    }
}

/// Sets the limit of a portfolio.
struct SetPortfolio {
    id: Box<str>,
    setting: PortfolioSetting,
}

impl Command for SetPortfolio {
    type Answer = ();
    type Error = SetPortfolioError;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), SetPortfolioError> {
        let key = setting_key(&context.core.id, &self.id);
        // The default setting needs no record.
        let is_default = self.setting == PortfolioSetting::default();
        if !is_default && context.get(Table::Portfolios, &key)?.is_none() {
            let set = settings(context.store(), &context.core.id).map_err(unreadable)?;
            if set >= SETTINGS_MAX {
                return Err(SetPortfolioError::TooMany);
            }
        }
        let PortfolioLimit { daily_recipients, reserve_percent, .. } = limit_in(context, &self.id)?;
        context.effects.replaces("daily_recipients", daily_recipients);
        context.effects.replaces("reserve_percent", reserve_percent);
        match is_default {
            true => context.delete(Table::Portfolios, key),
            false => context.put_json(Table::Portfolios, key, &self.setting),
        }
        context.portfolios.look_again(&context.core.id);
        Ok(())
    }
}

/// Reports once that the limit of a portfolio is reached, or no longer reached.
struct ReportLimit(Box<str>);

impl Command for ReportLimit {
    type Answer = ();
    type Error = Unavailable;

    const FOOTPRINT: Footprint = Footprint::Ends;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        let limit = limit_in(context, &self.0)?;
        let (now, workspace) = (context.now(), context.core.id.clone());
        let place = (&workspace, &*self.0);
        let found = context.portfolios.with(context.store(), place, now, |ledger| {
            let recipients = &ledger.recipients;
            let used = recipients.used();
            let bound = limit.for_broadcasts();
            let over = bound.and_then(|bound| (used + 1).checked_sub(bound));
            let over = over.filter(|over| *over > 0);
            let frees_at = over.map(|over| recipients.frees_at(over));
            ledger.note_seen(bound, over.is_some());
            frees_at
        });
        let reached = found.map_err(unreadable)?;
        let key = reported_key(&workspace, &self.0);
        let was_reported = context.get(Table::Portfolios, &key)?.is_some();
        let (portfolio_id, daily_recipients) = (self.0, limit.daily_recipients);
        match reached {
            Some(frees_at) if !was_reported => {
                context.put(Table::Portfolios, key, vec![1]);
                let data = LimitReachedData { portfolio_id, daily_recipients, frees_at };
                context.effects.emit(now, EventData::NumberLimitReached(data));
            }
            None if was_reported => {
                context.delete(Table::Portfolios, key);
                let data = LimitFreedData { portfolio_id, daily_recipients };
                context.effects.emit(now, EventData::NumberLimitFreed(data));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Makes the workspaces report which limits are reached, after a count or an expiry.
///
/// The engine calls this every second.
pub fn beat(shared: &Arc<Services>) {
    if shared.portfolios.begins() {
        let shared = Arc::clone(shared);
        drop(tokio::task::spawn_blocking(move || read_reported(&shared)));
    }
    for (workspace, portfolio) in shared.portfolios.to_look_at(shared.clock.now()) {
        let Some(slot) = shared.workspaces.slot(&workspace) else { continue };
        let workspace = Workspace::new(Arc::clone(shared), slot);
        drop(tokio::spawn(async move {
            if let Err(why) = workspace.perform(ReportLimit(portfolio)).await
                && why.reason != UnavailableReason::Draining
            {
                workspace.shared.portfolios.look_again(workspace.id());
            }
        }));
    }
}

/// Reads the budgets whose limits were reached before the start: their workspaces may rest.
fn read_reported(shared: &Services) {
    for slot in shared.workspaces.slots() {
        let (store, now) = (shared.store.as_ref(), shared.clock.now());
        if let Err(error) = shared.portfolios.read_reported(store, &slot.id, now) {
            // It is read when the workspace is used.
            tracing::warn!(workspace = %slot.id, %error, "a budget is not read yet");
        }
    }
}
