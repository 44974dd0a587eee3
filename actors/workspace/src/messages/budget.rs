//! Single messages and the budgets of their numbers' portfolios.
//!
//! A template message outside of an open window counts. It is claimed only while there is room;
//! until then it waits, and its life goes on. A sweep deletes the recipients that count no more.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use postrider_domain::unavailable::Unavailable;
use postrider_domain::{MessageId, NumberId, PartyId, Phone, Timestamp, WorkspaceId};
use postrider_number::record::NumberInfo;
use postrider_store::{StoreError, Table, View};

use crate::core::command::Context;
use crate::core::portfolio::{
    FullNumbers, MessageMark, PortfolioLimit, Portfolios, RowChange, behind_portfolio, is_past,
    limit_of, of_workspace, portfolio_of,
};
use crate::core::view::unreadable;
use crate::messages::record::MessageState;
use crate::messages::service_window::{self, window_end};
use crate::sweep::{Look, RecordKeys, SLICE_MAX, SweepCursor};

/// Returns the limit of a portfolio, with the changes by earlier commands.
pub(crate) fn limit_in(context: &Context<'_>, id: &str) -> Result<PortfolioLimit, Unavailable> {
    let place = (&context.core.id, id);
    if let Some(known) = context.portfolios.limit(place) {
        return Ok(known);
    }
    let get = |key: &[u8], table: Table| {
        context.get(table, key).map_err(|error| StoreError::Failed(error.to_string()))
    };
    let limit = limit_of(place, context.connected, get).map_err(unreadable)?;
    context.portfolios.note_limit(place, limit);
    Ok(limit)
}

/// Returns the portfolio of a connected number, if it has one.
fn portfolio(context: &Context<'_>, number: NumberId) -> Option<Box<str>> {
    let info: &NumberInfo = context.connected.iter().find(|info| info.id == number)?;
    portfolio_of(info).map(Box::from)
}

fn put(context: &mut Context<'_>, rows: Vec<RowChange>) {
    for (key, value) in rows {
        match value {
            Some(value) => context.put(Table::Portfolios, key, value),
            None => context.delete(Table::Portfolios, key),
        }
    }
}

/// Counts the recipient of a template that is about to be handed over.
///
/// Returns whether it may be: the recipient counts already or has an open window, or there is room.
pub(super) fn count(context: &mut Context<'_>, state: &MessageState) -> Result<bool, Unavailable> {
    count_if(context, of_message(state), false)
}

/// Counts the recipient of a code, which waits for no budget.
pub(crate) fn count_code(
    context: &mut Context<'_>,
    of: (&PartyId, NumberId, MessageMark),
) -> Result<(), Unavailable> {
    count_if(context, of, true).map(drop)
}

/// Returns the recipient, the number and the mark by which a message is counted.
const fn of_message(state: &MessageState) -> (&PartyId, NumberId, MessageMark) {
    (&state.to, state.number, MessageMark::of(state.message_id.as_bytes()))
}

fn count_if(
    context: &mut Context<'_>,
    (to, number, mark): (&PartyId, NumberId, MessageMark),
    always: bool,
) -> Result<bool, Unavailable> {
    let Some(id) = portfolio(context, number) else { return Ok(true) };
    let is_open = service_window::is_open(context, number, to)?;
    let limit = limit_in(context, &id)?.daily_recipients;
    let (now, workspace) = (context.now(), context.core.id.clone());
    let hash = context.portfolios.hash(&workspace, to);
    let counted = context.portfolios.with(context.store(), (&workspace, &id), now, |ledger| {
        let recipients = &mut ledger.recipients;
        if is_open {
            recipients.keep(hash);
            return Some(Vec::new());
        }
        let has_room = always || limit.is_none_or(|limit| recipients.used() < limit);
        (has_room || recipients.is_counted(hash)).then(|| ledger.count(&[(hash, mark)], now))
    });
    let Some(rows) = counted.map_err(unreadable)? else { return Ok(false) };
    put(context, rows);
    Ok(true)
}

/// Returns whether a number may claim a message that waits.
pub(crate) fn may_claim(
    context: &mut Context<'_>,
    id: MessageId,
    number: NumberId,
) -> Result<bool, Unavailable> {
    let unsent = &context.core.hot.messages;
    let is_elsewhere = unsent.number(id).is_some_and(|own| own != number);
    // A message that is over or with another number is not claimed at all.
    let is_counted = unsent.is_claimed(id) || is_elsewhere || !unsent.contains(id);
    if is_counted || portfolio(context, number).is_none() {
        return Ok(true);
    }
    match MessageState::get(context, id)?.filter(|state| state.template.is_some()) {
        Some(state) => count(context, &state),
        None => Ok(true),
    }
}

/// Gives back the count of a message that was surely not sent.
pub(super) fn give_back(
    context: &mut Context<'_>,
    state: &MessageState,
) -> Result<(), Unavailable> {
    let is_counted =
        state.template.is_some() && context.core.hot.messages.is_claimed(state.message_id);
    match is_counted {
        true => give_back_of(context, of_message(state)),
        false => Ok(()),
    }
}

fn give_back_of(
    context: &mut Context<'_>,
    (to, number, mark): (&PartyId, NumberId, MessageMark),
) -> Result<(), Unavailable> {
    let Some(id) = portfolio(context, number) else { return Ok(()) };
    let (now, workspace) = (context.now(), context.core.id.clone());
    let of = [(context.portfolios.hash(&workspace, to), mark)];
    let given = context
        .portfolios
        .with(context.store(), (&workspace, &id), now, |ledger| ledger.give_back(&of, now));
    put(context, given.map_err(unreadable)?);
    Ok(())
}

/// Gives back the count of a message whose number releases its claim.
pub(crate) fn release(context: &mut Context<'_>, id: MessageId) -> Result<(), Unavailable> {
    match MessageState::get(context, id)? {
        Some(state) => give_back(context, &state),
        None => Ok(()),
    }
}

/// Gives back the count of a code that was surely not sent.
pub(crate) fn give_back_code(
    context: &mut Context<'_>,
    of: (&PartyId, NumberId, MessageMark),
) -> Result<(), Unavailable> {
    give_back_of(context, of)
}

/// Connected numbers of one portfolio, and the rest of its budget.
pub(crate) struct BudgetRoom {
    pub(crate) numbers: Vec<NumberId>,
    /// The number of new people that there is room for; `None` if it is unlimited.
    pub(crate) left: Option<u32>,
}

/// Returns the rest of the budgets of the connected numbers' portfolios.
pub(crate) fn rooms(context: &Context<'_>) -> Result<Vec<BudgetRoom>, Unavailable> {
    let mut all: BTreeMap<&str, Vec<NumberId>> = BTreeMap::new();
    for info in context.connected {
        if let Some(id) = portfolio_of(info) {
            all.entry(id).or_default().push(info.id);
        }
    }
    let room = |(id, numbers)| Ok(BudgetRoom { numbers, left: left_of(context, id)? });
    all.into_iter().map(room).collect()
}

fn left_of(context: &Context<'_>, id: &str) -> Result<Option<u32>, Unavailable> {
    let Some(limit) = limit_in(context, id)?.daily_recipients else { return Ok(None) };
    let (now, place) = (context.now(), (&context.core.id, id));
    let used = context
        .portfolios
        .with(context.store(), place, now, |ledger| ledger.recipients.used())
        .map_err(unreadable)?;
    Ok(Some(limit.saturating_sub(used)))
}

/// Returns the numbers without room, and a check of who may be written to through them anyway.
///
/// A window counts once it is committed.
pub(crate) fn full_numbers(
    (portfolios, store): (&Arc<Portfolios>, &Arc<dyn View>),
    workspace: &WorkspaceId,
    full: Vec<NumberInfo>,
) -> FullNumbers {
    let ids = full.iter().map(|number| number.id).collect();
    let (portfolios, store) = (Arc::clone(portfolios), Arc::clone(store));
    let workspace = workspace.clone();
    let needs_none = move |number: NumberId, to: Phone, now: Timestamp| {
        let info = full.iter().find(|info| info.id == number);
        let Some((info, id)) = info.and_then(|info| Some((info, portfolio_of(info)?))) else {
            return true;
        };
        let to = PartyId::from(to);
        let (hash, place) = (portfolios.hash(&workspace, &to), (&workspace, id));
        let is_counted = portfolios
            .with(store.as_ref(), place, now, |ledger| ledger.recipients.is_counted(hash));
        let is_open = || {
            let end = window_end(store.as_ref(), &workspace, info, &to);
            end.map(|end| end.is_some_and(|end| now < end))
        };
        // An error of a read leaves nobody out.
        is_counted.unwrap_or(true) || is_open().unwrap_or(true)
    };
    FullNumbers::new(ids, Arc::new(needs_none))
}

/// The interval of the search for them.
const ROUND: Duration = Duration::from_secs(3600);
/// The maximum of portfolios in one slice whose counting rows are passed over.
const LOOKS_MAX: usize = 500;

/// Reads some of the rows that count no more, of all portfolios, also of unused ones.
///
/// Of each portfolio the oldest come first, so it passes over the rest with one seek.
pub(crate) fn expired_recipients(
    look: &Look<'_>,
    cursor: &mut SweepCursor,
) -> Result<RecordKeys, StoreError> {
    let (prefix, mut keys) = (of_workspace(look.workspace), Vec::new());
    for _ in 0..LOOKS_MAX {
        let from = cursor.from.clone();
        let mut is_end = true;
        look.scan(Table::Portfolios, &prefix, &from, &mut |key, _| {
            let own = &key[prefix.len()..];
            is_end = false;
            match is_past(own, look.now) {
                Some(true) if keys.len() == SLICE_MAX => return ControlFlow::Break(()),
                Some(true) => keys.push((Table::Portfolios, key.to_vec())),
                Some(false) => {
                    cursor.from = [&*prefix, &behind_portfolio(own)].concat();
                    return ControlFlow::Break(());
                }
                // A setting, or an unreadable row.
                None => {}
            }
            cursor.pass(key);
            is_end = true;
            ControlFlow::Continue(())
        })?;
        if keys.len() == SLICE_MAX {
            break;
        }
        if is_end {
            // The next round starts with the first portfolio.
            cursor.from.clear();
            cursor.rest_until(look.now.plus(ROUND));
            break;
        }
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use postrider_domain::{MasterKeys, Timestamp, WorkspaceId};
    use postrider_store::{Change, Direction, Group, MemoryStore, Store as _, View as _};

    use super::*;
    use crate::core::portfolio::{MessageMark, Portfolios, RowChange, setting_key};
    use crate::core::settings::MessageOptions;
    use crate::sweep::RetentionTimes;

    const HOUR: Duration = ROUND;
    /// The recipients of an hour.
    const EACH: u64 = 30;

    struct Rig {
        store: MemoryStore,
        workspace: WorkspaceId,
        cursor: SweepCursor,
        now: Timestamp,
    }

    impl Rig {
        fn commit(&self, changes: impl IntoIterator<Item = (Vec<u8>, Option<Vec<u8>>)>) {
            let change = |(key, value)| match value {
                Some(value) => Change::put(Table::Portfolios, key, value),
                None => Change::delete(Table::Portfolios, key),
            };
            let changes: Vec<_> = changes.into_iter().map(change).collect();
            self.store.commit(Group::new(None, &changes)).unwrap();
        }

        /// Deletes all rows that count no more, in slices.
        fn sweep(&mut self) {
            let kept = RetentionTimes {
                broadcasts: HOUR,
                messages: MessageOptions::default(),
                otps: HOUR,
            };
            while self.cursor.is_due(self.now) {
                let (store, workspace, now) = (&self.store, &self.workspace, self.now);
                let look = Look { store, workspace, now, kept, age_rests: false };
                let keys = expired_recipients(&look, &mut self.cursor).unwrap();
                assert!(keys.len() <= SLICE_MAX);
                self.commit(keys.into_iter().map(|(_, key)| (key, None)));
            }
        }

        fn rows(&self) -> usize {
            let mut rows = 0;
            let mut visit = |_: &[u8], _: &[u8]| {
                rows += 1;
                ControlFlow::Continue(())
            };
            let (table, forward) = (Table::Portfolios, Direction::Forward);
            self.store.scan(table, b"", None, forward, &mut visit).unwrap();
            rows
        }
    }

    #[test]
    fn whatever_is_written_of_a_day_with_failures_is_deleted_after_it() {
        let (workspace, other): (WorkspaceId, WorkspaceId) =
            ("acme".parse().unwrap(), "acme2".parse().unwrap());
        let (cursor, now) = (SweepCursor::default(), Timestamp::from_millis(1_700_000_000_000));
        let mut rig = Rig { store: MemoryStore::new(), workspace, cursor, now };
        let setting = setting_key(&rig.workspace, "107");
        rig.commit([(setting, Some(b"{}".to_vec()))]);
        let portfolios = Portfolios::new(&MasterKeys::single([7; 32]));
        // No row of another workspace is deleted.
        let of = |rig: &Rig, workspace: &WorkspaceId, portfolio: &str| -> Vec<RowChange> {
            let place = (workspace, portfolio);
            let count = |ledger: &mut crate::core::portfolio::Ledger| {
                (0..EACH)
                    .flat_map(|who| {
                        let all = [(who, MessageMark::default())];
                        let counted = ledger.count(&all, rig.now);
                        counted.into_iter().chain(ledger.give_back(&all, rig.now))
                    })
                    .collect()
            };
            portfolios.with(&rig.store, place, rig.now, count).unwrap()
        };
        rig.commit(of(&rig, &other, "107"));
        let kept = rig.rows();
        // One is used for the first hour only, and sorts before the other, of which it is a prefix.
        rig.commit(of(&rig, &rig.workspace, "10"));
        for hour in 0..24 * 4 {
            rig.now = rig.now.plus(HOUR);
            rig.sweep();
            rig.commit(of(&rig, &rig.workspace, "107"));
            let most = kept + 25 * 2 * EACH as usize + usize::from(hour < 24) * 60;
            assert!(rig.rows() <= most, "{} rows after {hour} hours", rig.rows());
        }
        assert!(rig.rows() > 24 * 2 * EACH as usize);
        rig.now = rig.now.plus(25 * HOUR);
        rig.sweep();
        assert_eq!(rig.rows(), kept);
    }
}
