//! The sweep of recipients that count no more towards budgets of portfolios.

use std::ops::ControlFlow;
use std::time::Duration;

use postrider_store::{StoreError, Table};

use crate::core::portfolio::{behind_portfolio, is_past, of_workspace};
use crate::sweep::{Look, RecordKeys, SLICE_MAX, SweepCursor};

/// The interval of the search for them.
const ROUND: Duration = Duration::from_secs(3600);
/// The maximum of portfolios in one slice whose counting rows are passed over.
const LOOKS_MAX: usize = 500;

/// Reads some of the rows that count no more, of all portfolios, also of unused ones.
///
/// Of each portfolio the oldest come first, so it passes over the rest with one seek.
pub(crate) fn long_counted(
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
    use crate::sweep::Kept;

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
            let kept = Kept { broadcasts: HOUR, messages: MessageOptions::default(), otps: HOUR };
            while self.cursor.is_due(self.now) {
                let (store, workspace, now) = (&self.store, &self.workspace, self.now);
                let look = Look { store, workspace, now, kept, age_rests: false };
                let keys = long_counted(&look, &mut self.cursor).unwrap();
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
