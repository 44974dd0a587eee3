//! Pure: reads the audit log in parts, by workspace, actor, action and time.

use std::ops::ControlFlow;

use super::{AuditRow, DamagedRow, decode, head, sequence_of, trimmed};
use crate::{Direction, StoreError, Table, View, rebase};
use postrider_domain::{AuditRecord, Timestamp, WorkspaceId};

/// The maximum number of records that one part looks at.
///
/// A filter that matches nothing would otherwise read the whole log.
const LOOKED_AT_MAX: usize = 10_000;

/// The conditions for records. `None` matches every record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Records of this workspace.
    pub workspace: Option<WorkspaceId>,
    /// Records whose actor has this kind, identifier or name.
    pub actor: Option<String>,
    /// Records of this action, such as `key.create`, or of all that start with it, such as `key`.
    pub action: Option<String>,
    /// Records of this moment or later.
    pub since: Option<Timestamp>,
    /// Records before this moment.
    pub until: Option<Timestamp>,
}

impl AuditFilter {
    fn is_within(&self, at: Timestamp) -> bool {
        self.since.is_none_or(|since| since <= at) && self.until.is_none_or(|until| at < until)
    }

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
    /// The matching records, in the order of the direction.
    pub rows: Vec<AuditRow>,
    /// The unreadable records, in the same order: any of them may match.
    pub damaged: Vec<DamagedRow>,
    /// The sequence after which the next part starts.
    ///
    /// It is `None` if no older records are left; for newer ones it is always given, because more
    /// may come.
    pub next: Option<u64>,
}

/// Reads at most `limit` records beyond the sequence `cursor`, or from the start of `direction`.
///
/// A part may be empty before the end; `next` then continues.
///
/// # Errors
/// [`StoreError`]: the store cannot be read.
pub fn page(
    store: &dyn View,
    filter: &AuditFilter,
    direction: Direction,
    cursor: Option<u64>,
    limit: usize,
) -> Result<AuditPage, StoreError> {
    let (oldest, newest) = (trimmed(store)?.sequence + 1, head(store)?.sequence);
    let (first, last) = range(store, filter, (oldest, newest))?;
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
    let (mut rows, mut damaged) = (Vec::new(), Vec::new());
    let (mut looked_at, mut reached) = (0, None);
    if first <= last {
        let from = start.to_be_bytes();
        store.scan(Table::Audit, &[], Some(&from), direction, &mut |key, value| {
            let Some(sequence) = sequence_of(key) else { return ControlFlow::Continue(()) };
            let is_full = rows.len() + damaged.len() == limit || looked_at == LOOKED_AT_MAX;
            if !(first..=last).contains(&sequence) || is_full {
                return ControlFlow::Break(());
            }
            match decode(sequence, value) {
                Ok(row) if filter.is_within(row.mark.at) && filter.matches(&row.record) => {
                    rows.push(row);
                }
                Ok(_) => {}
                Err(row) => damaged.push(row),
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
    Ok(AuditPage { rows, damaged, next })
}

/// Returns the first and the last sequence of `oldest..=newest` that the filter's moments need.
///
/// All records with such moments are between them.
fn range(
    store: &dyn View,
    filter: &AuditFilter,
    (oldest, newest): (u64, u64),
) -> Result<(u64, u64), StoreError> {
    // The moments decrease only where the clock was rebased.
    let mut pieces = vec![(oldest, newest)];
    for rebase in rebase::all(store)? {
        if let Some(last) = pieces.last_mut()
            && rebase.audit_from > last.0
            && rebase.audit_from <= newest
        {
            last.1 = rebase.audit_from - 1;
            pieces.push((rebase.audit_from, newest));
        }
    }
    let (mut first, mut last) = (oldest, newest);
    if let Some(since) = filter.since {
        first = newest.saturating_add(1);
        for piece in pieces.iter().rev() {
            let place = first_since(store, since, *piece)?;
            first = if place <= piece.1 { place } else { first };
        }
    }
    if let Some(until) = filter.until {
        last = oldest.saturating_sub(1);
        for piece in &pieces {
            let place = first_since(store, until, *piece)?;
            last = if place > piece.0 { place - 1 } else { last };
        }
    }
    Ok((first, last))
}

/// Returns the first sequence of `from..=to` at or after `moment`, or the one after `to`.
///
/// It is a binary search, because the moments do not decrease between them.
fn first_since(
    store: &dyn View,
    moment: Timestamp,
    (from, to): (u64, u64),
) -> Result<u64, StoreError> {
    // Records below `low` are earlier. Those at `high` and above are not.
    let (mut low, mut high) = (from, to.saturating_add(1));
    while low < high {
        let middle = low + (high - low) / 2;
        // If a moment cannot be read, that of the next readable record serves as well.
        let (mut at, mut next) = (None, middle);
        while at.is_none() && next < high {
            at = moment_at(store, next)?;
            next += 1;
        }
        if at.is_some_and(|at| at < moment) { low = next } else { high = middle }
    }
    Ok(low)
}

/// Returns the moment of a record, if it can be read.
fn moment_at(store: &dyn View, sequence: u64) -> Result<Option<Timestamp>, StoreError> {
    let Some(value) = store.get(Table::Audit, &sequence.to_be_bytes())? else {
        // Retention has removed it meanwhile, so it is early.
        return Ok(Some(Timestamp::default()));
    };
    Ok(decode(sequence, &value).map_or_else(|damaged| damaged.at, |row| Some(row.mark.at)))
}
