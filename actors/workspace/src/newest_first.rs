//! Lists from several sources, newest first, whose pages look at a bounded part of them.
//!
//! Rows are in the order of their ids, which start with the moment; a list continues at an id. A
//! source that stops before its end reports its position, and the page ends there for all sources.

use std::ops::ControlFlow;

use postrider_store::{Direction, StoreError, Table, View};

/// The maximum number of rows of each source that one page looks at: they take some 50 ms.
pub(crate) const LOOKED_AT_MAX: usize = 10_000;

/// The part of one source that a page takes; its rows are looked at newest first.
pub(crate) struct Walk<I, R> {
    limit: usize,
    left: usize,
    rows: Vec<(I, R)>,
    /// Everything from here on was looked at.
    last: Option<I>,
    /// The same, where it was not looked further; `None`: there is nothing further.
    stopped: Option<I>,
}

impl<I: Copy + Ord, R> Walk<I, R> {
    /// Returns a walk for `limit` rows that looks at most at `left`, before an id.
    pub(crate) const fn new(limit: usize, left: usize, before: Option<I>) -> Self {
        Self { limit, left, rows: Vec::new(), last: before, stopped: None }
    }

    /// Returns whether another row may be looked at, at this cost. If not, the walk stops here.
    pub(crate) fn goes_on(&mut self, cost: usize) -> bool {
        if self.rows.len() == self.limit || self.left == 0 {
            self.stopped = self.last;
            return false;
        }
        self.left = self.left.saturating_sub(cost);
        true
    }

    /// Adds an id that was looked at, with its row if it matches.
    pub(crate) fn take(&mut self, id: I, row: Option<R>) {
        self.last = Some(id);
        self.rows.extend(row.map(|row| (id, row)));
    }

    /// How many more rows it takes.
    pub(crate) const fn room(&self) -> usize {
        self.limit - self.rows.len()
    }

    /// Returns the number of rows that it may still look at.
    pub(crate) const fn left(&self) -> usize {
        self.left
    }

    /// Adds rows that were looked at together. Returns the id before which the walk continues.
    ///
    /// `None`: it has ended or stops.
    pub(crate) fn take_batch(&mut self, batch: WalkBatch<I, R>) -> Option<I> {
        for (id, row) in batch.rows {
            if !self.goes_on(0) {
                return None;
            }
            self.take(id, Some(row));
        }
        let down_to = batch.down_to?;
        self.left = self.left.saturating_sub(batch.looked_at);
        self.last = Some(down_to);
        self.goes_on(0).then_some(down_to)
    }
}

/// Rows of a source that were looked at together.
pub(crate) struct WalkBatch<I, R> {
    /// The matching rows, newest first.
    pub(crate) rows: Vec<(I, R)>,
    pub(crate) looked_at: usize,
    /// The id from which on all were looked at; `None`: there are no others.
    pub(crate) down_to: Option<I>,
}

/// Returns at most `limit` ids from the ends of an index's keys, before one, newest first.
///
/// # Errors
/// [`StoreError`]: the store cannot be read.
pub(crate) fn ids_before(
    store: &dyn View,
    (table, prefix): (Table, &[u8]),
    before: Option<&[u8; 16]>,
    limit: usize,
) -> Result<Vec<[u8; 16]>, StoreError> {
    let from = before.map(|id| [prefix, id].concat());
    let mut ids = Vec::new();
    store.scan(table, prefix, from.as_deref(), Direction::Backward, &mut |key, _| {
        let id: Option<[u8; 16]> = key[prefix.len()..].try_into().ok();
        ids.extend(id.filter(|id| before.is_none_or(|before| *id < *before)));
        if ids.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(ids)
}

/// Merges the rows of several sources, at most `limit`, and returns the list's next position.
///
/// If one source has stopped, the others end too. Of a row in several sources, the first one's
/// counts.
pub(crate) fn merged<I: Copy + Ord, R>(
    sources: Vec<Walk<I, R>>,
    limit: usize,
) -> (Vec<R>, Option<I>) {
    let stopped = sources.iter().filter_map(|source| source.stopped).max();
    let all = sources.into_iter().flat_map(|source| source.rows);
    let mut rows: Vec<_> =
        all.filter(|(id, _)| stopped.is_none_or(|stopped| stopped <= *id)).collect();
    rows.sort_by_key(|(id, _)| std::cmp::Reverse(*id));
    rows.dedup_by_key(|(id, _)| *id);
    let is_cut = rows.len() > limit;
    rows.truncate(limit);
    let last = rows.last().map(|(id, _)| *id).filter(|_| is_cut);
    (rows.into_iter().map(|(_, row)| row).collect(), last.or(stopped))
}
