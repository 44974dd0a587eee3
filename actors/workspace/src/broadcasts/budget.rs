//! The use and the display of portfolios' budgets by broadcasts.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use postrider_broadcast::record::Record;
use postrider_broadcast::{Budget, CountedRecipients, SharedBudget};
use postrider_domain::{BroadcastId, NumberId, PartyId, Phone, Timestamp, WorkspaceId};
use postrider_number::record::NumberInfo;
use postrider_store::{Change, StoreError, Table, View};

use crate::core::portfolio::{Ledger, MessageMark, Portfolios, RowChange, limit_of, portfolio_of};
use crate::core::records;
use crate::messages::window_end;

/// The means to read and change a workspace's budgets.
pub(crate) struct Budgets<'a> {
    pub(crate) portfolios: &'a Portfolios,
    pub(crate) view: &'a dyn View,
    pub(crate) workspace: &'a WorkspaceId,
    pub(crate) now: Timestamp,
}

/// A portfolio that a broadcast sends from.
struct SenderPortfolio {
    id: Box<str>,
    /// The maximum of recipients to send to; `None` for all.
    limit: Option<u32>,
}

/// A portfolio, if the numbers have one, with those numbers.
type PortfolioNumbers = (Option<SenderPortfolio>, Vec<NumberId>);

/// Places of recipients in a list, with their numbers.
type PlacedRecipients<'n> = Vec<(usize, &'n NumberInfo)>;

impl Budgets<'_> {
    fn numbers(&self) -> Result<Vec<NumberInfo>, StoreError> {
        let records = records::load(self.view, self.workspace)?;
        Ok(records.map(|records| records.numbers).unwrap_or_default())
    }

    fn ledger<T>(&self, id: &str, act: impl FnOnce(&mut Ledger) -> T) -> Result<T, StoreError> {
        self.portfolios.with(self.view, (self.workspace, id), self.now, act)
    }

    fn sender_portfolio(
        &self,
        id: &str,
        numbers: &[NumberInfo],
    ) -> Result<SenderPortfolio, StoreError> {
        let place = (self.workspace, id);
        let get = |key: &[u8], table: Table| self.view.get(table, key);
        let known = self.portfolios.limit(place).map(Ok);
        let limit = known.unwrap_or_else(|| limit_of(place, numbers, get))?.for_broadcasts();
        Ok(SenderPortfolio { id: id.into(), limit })
    }

    /// Returns the portfolios of these numbers, with the connected ones of each.
    ///
    /// The portfolio is `None` for numbers without one.
    fn portfolios_of(
        &self,
        of: &[NumberId],
        numbers: &[NumberInfo],
    ) -> Result<Vec<PortfolioNumbers>, StoreError> {
        let mut all: BTreeMap<Option<&str>, Vec<NumberId>> = BTreeMap::new();
        for info in numbers.iter().filter(|info| of.contains(&info.id)) {
            all.entry(portfolio_of(info)).or_default().push(info.id);
        }
        let used = |(id, of): (Option<&str>, _)| {
            Ok((id.map(|id| self.sender_portfolio(id, numbers)).transpose()?, of))
        };
        all.into_iter().map(used).collect()
    }

    /// Returns how many recipients may be written to through these numbers.
    pub(crate) fn room(&self, of: &[NumberId]) -> Result<Budget, StoreError> {
        let mut budget = Budget::default();
        for (used, numbers) in self.portfolios_of(of, &self.numbers()?)? {
            budget.is_counted |= used.is_some();
            let limited = used.and_then(|used| Some((used.id, used.limit?)));
            let left = limited.map(|(id, limit)| {
                let used = self.ledger(&id, |ledger| ledger.recipients.used())?;
                Ok::<_, StoreError>(limit.saturating_sub(used))
            });
            budget.shared.push(SharedBudget { numbers, left: left.transpose()? });
        }
        Ok(budget)
    }

    /// Counts recipients of a broadcast as far as there is room.
    pub(crate) fn count(
        &self,
        broadcast: BroadcastId,
        placed: &[(Phone, NumberId)],
    ) -> Result<CountedRecipients, StoreError> {
        let (numbers, mark) = (self.numbers()?, MessageMark::of(broadcast.as_bytes()));
        let mut counted = CountedRecipients::default();
        counted.may_go.resize(placed.len(), true);
        for (id, of) in by_portfolio(placed, &numbers) {
            let used = self.sender_portfolio(id, &numbers)?;
            let mut asked = Vec::with_capacity(of.len());
            for (at, info) in of {
                let party = PartyId::from(placed[at].0);
                let end = window_end(self.view, self.workspace, info, &party)?;
                let is_open = end.is_some_and(|end| self.now < end);
                asked.push((at, self.portfolios.hash(self.workspace, &party), is_open));
            }
            let rows = self.ledger(&used.id, |ledger| {
                let mut all = Vec::with_capacity(asked.len());
                let mut room = used.limit.map(|it| it.saturating_sub(ledger.recipients.used()));
                for (at, hash, is_open) in asked {
                    if is_open {
                        ledger.recipients.keep(hash);
                    } else if ledger.recipients.is_counted(hash) {
                        all.push((hash, mark));
                    } else if room == Some(0) {
                        counted.may_go[at] = false;
                    } else {
                        room = room.map(|room| room - 1);
                        all.push((hash, mark));
                    }
                }
                ledger.count(&all, self.now)
            })?;
            counted.changes.extend(rows.into_iter().map(change));
        }
        Ok(counted)
    }

    /// Gives back the counts of recipients for a broadcast.
    pub(crate) fn give_back(
        &self,
        broadcast: BroadcastId,
        placed: &[(Phone, NumberId)],
    ) -> Result<Vec<Change>, StoreError> {
        let (numbers, mark) = (self.numbers()?, MessageMark::of(broadcast.as_bytes()));
        let mut changes = Vec::new();
        for (id, of) in by_portfolio(placed, &numbers) {
            let hash = |at: usize| self.portfolios.hash(self.workspace, &placed[at].0.into());
            let all: Vec<_> = of.into_iter().map(|(at, _)| (hash(at), mark)).collect();
            let rows = self.ledger(id, |ledger| ledger.give_back(&all, self.now))?;
            changes.extend(rows.into_iter().map(change));
        }
        Ok(changes)
    }

    /// Returns when a broadcast that waits for room goes on, if that is known.
    pub(crate) fn resumes_at(&self, record: &Record) -> Result<Option<Timestamp>, StoreError> {
        let of: Vec<_> = record.numbers().collect();
        let mut first: Option<Timestamp> = None;
        for (used, _) in self.portfolios_of(&of, &self.numbers()?)? {
            let Some((id, limit)) = used.and_then(|used| Some((used.id, used.limit?))) else {
                continue;
            };
            let free = self.ledger(&id, |ledger| {
                let recipients = &ledger.recipients;
                let over = (recipients.used() + 1).checked_sub(limit).filter(|over| *over > 0)?;
                recipients.frees_at(over)
            })?;
            first = [first, free].into_iter().flatten().min();
        }
        Ok(first)
    }
}

/// Returns the places of recipients, and their numbers, by portfolio.
fn by_portfolio<'n>(
    placed: &[(Phone, NumberId)],
    numbers: &'n [NumberInfo],
) -> HashMap<&'n str, PlacedRecipients<'n>> {
    let mut all: HashMap<&str, PlacedRecipients<'_>> = HashMap::new();
    for (at, (_, number)) in placed.iter().enumerate() {
        let info = numbers.iter().find(|info| info.id == *number);
        if let Some((id, info)) = info.and_then(|info| Some((portfolio_of(info)?, info))) {
            all.entry(id).or_default().push((at, info));
        }
    }
    all
}

fn change((key, value): RowChange) -> Change {
    match value {
        Some(value) => Change::put(Table::Portfolios, key, value),
        None => Change::delete(Table::Portfolios, key),
    }
}
