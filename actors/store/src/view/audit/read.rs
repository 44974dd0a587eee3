//! Pure: reads the audit log in parts, by workspace, actor, action and time.

use std::ops::ControlFlow;

use super::{AuditRow, decode, head, sequence_of, trimmed};
use crate::{Direction, StoreError, Table, View};
use postrider_domain::{AuditRecord, Timestamp, WorkspaceId};

/// Most records that one part looks at: a filter that matches nothing would read the whole log.
const LOOKED_AT_MAX: usize = 10_000;

/// Which records are wanted. What is `None` matches every record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Those of this workspace.
    pub workspace: Option<WorkspaceId>,
    /// Those whose actor has this kind, identifier or name.
    pub actor: Option<String>,
    /// Those of this action, such as `key.create`, or of all that begin so, such as `key`.
    pub action: Option<String>,
    /// Those of this moment or later.
    pub since: Option<Timestamp>,
    /// Those before this moment.
    pub until: Option<Timestamp>,
}

impl AuditFilter {
    fn matches(&self, record: &AuditRecord) -> bool {
        let actor = &record.actor;
        let is_actor = |wanted: &String| {
            let names = [actor.id.as_deref(), actor.name.as_deref(), Some(actor.kind.as_str())];
            names.contains(&Some(wanted.as_str()))
        };
        let is_action = |wanted: &String| {
            let rest = record.action.strip_prefix(wanted.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.workspace.as_ref().is_none_or(|wanted| record.workspace.as_ref() == Some(wanted))
            && self.actor.as_ref().is_none_or(is_actor)
            && self.action.as_ref().is_none_or(is_action)
    }
}

/// A part of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPage {
    /// The records that match, in the order of the direction.
    pub rows: Vec<AuditRow>,
    /// The sequence to go on after. It is `None` where no older records are left; for newer ones
    /// it is always given, because more may come.
    pub next: Option<u64>,
}

/// Reads at most `limit` records beyond the sequence `cursor`, or from the end of the log where
/// `direction` begins. A part may be empty before the end; `next` then goes on.
///
/// # Errors
/// [`StoreError`]: the store cannot be read, or a record is damaged.
pub fn page(
    store: &dyn View,
    filter: &AuditFilter,
    direction: Direction,
    cursor: Option<u64>,
    limit: usize,
) -> Result<AuditPage, StoreError> {
    let (oldest, newest) = (trimmed(store)?.sequence + 1, head(store)?.sequence);
    let place = |moment: Timestamp| first_since(store, moment, (oldest, newest));
    let first = filter.since.map_or(Ok(oldest), place)?;
    let last = filter.until.map_or(Ok(newest), |until| Ok(place(until)?.saturating_sub(1)))?;
    let (first, last, start) = match direction {
        Direction::Forward => {
            let first = cursor.map_or(first, |cursor| first.max(cursor.saturating_add(1)));
            (first, last, first)
        }
        Direction::Backward => {
            let last = cursor.map_or(last, |cursor| last.min(cursor.saturating_sub(1)));
            (first, last, last)
        }
    };
    let mut rows = Vec::new();
    let (mut looked_at, mut reached, mut damage) = (0, None, None);
    if first <= last {
        let from = start.to_be_bytes();
        store.scan(Table::Audit, &[], Some(&from), direction, &mut |key, value| {
            let Some(sequence) = sequence_of(key) else { return ControlFlow::Continue(()) };
            let is_full = rows.len() == limit || looked_at == LOOKED_AT_MAX;
            if !(first..=last).contains(&sequence) || is_full {
                return ControlFlow::Break(());
            }
            match decode(sequence, value) {
                Ok(row) if filter.matches(&row.record) => rows.push(row),
                Ok(_) => {}
                Err(error) => {
                    damage = Some(error);
                    return ControlFlow::Break(());
                }
            }
            looked_at += 1;
            reached = Some(sequence);
            ControlFlow::Continue(())
        })?;
    }
    let next = match direction {
        Direction::Forward => Some(reached.or(cursor).unwrap_or_default()),
        Direction::Backward => reached.filter(|reached| *reached > first),
    };
    damage.map_or(Ok(AuditPage { rows, next }), Err)
}

/// The first sequence of `from..=to` that is of `moment` or later, or the one after `to`. It is a
/// binary search, because the moments never go back along the chain.
fn first_since(
    store: &dyn View,
    moment: Timestamp,
    (from, to): (u64, u64),
) -> Result<u64, StoreError> {
    // Records below `low` are earlier. Those at `high` and above are not.
    let (mut low, mut high) = (from, to.saturating_add(1));
    while low < high {
        let middle = low + (high - low) / 2;
        let at = match store.get(Table::Audit, &middle.to_be_bytes())? {
            Some(value) => decode(middle, &value)?.mark.at,
            // Retention has removed it meanwhile, so it is early.
            None => Timestamp::default(),
        };
        if at < moment { low = middle + 1 } else { high = middle }
    }
    Ok(low)
}
