//! Lists that have several sources, newest first, of which a page looks at a bounded part.
//!
//! Rows are in the order of their ids, which begin with the moment; an id is where a list goes on.
//! A source that stops before its end says where, and the page ends there for all of them.

use std::ops::ControlFlow;
use std::time::Duration;

use postrider_domain::Timestamp;
use postrider_store::{Direction, StoreError, Table, View};

/// Most rows that one page looks at, of each source: some 50 ms of them.
pub(crate) const LOOKED_AT_MAX: usize = 10_000;

/// What a page takes from one source, whose rows are looked at newest first.
pub(crate) struct Walk<I, R> {
    limit: usize,
    left: usize,
    rows: Vec<(I, R)>,
    /// Everything from here on was looked at.
    pub(crate) last: Option<I>,
    /// The same, where it was not looked further; `None`: there is nothing further.
    stopped: Option<I>,
}

impl<I: Copy + Ord, R> Walk<I, R> {
    /// A walk for so many rows that looks at so many, from before an id on.
    pub(crate) const fn new(limit: usize, left: usize, before: Option<I>) -> Self {
        Self { limit, left, rows: Vec::new(), last: before, stopped: None }
    }

    /// Whether one more may be looked at, which costs so much. If not, the walk stops here.
    pub(crate) fn goes_on(&mut self, cost: usize) -> bool {
        if self.rows.len() == self.limit || self.left == 0 {
            self.stopped = self.last;
            return false;
        }
        self.left = self.left.saturating_sub(cost);
        true
    }

    /// Takes up one that was looked at, with its row if it is wanted.
    pub(crate) fn take(&mut self, id: I, row: Option<R>) {
        self.last = Some(id);
        self.rows.extend(row.map(|row| (id, row)));
    }

    /// Whether it stopped before the end.
    pub(crate) const fn has_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// How many more rows it takes.
    pub(crate) const fn room(&self) -> usize {
        self.limit - self.rows.len()
    }

    /// How many more it may look at.
    pub(crate) const fn left(&self) -> usize {
        self.left
    }

    /// Takes up some that were looked at together. Gives the id from before which on it goes on;
    /// `None`: it is over, or stops.
    pub(crate) fn take_batch(&mut self, batch: Batch<I, R>) -> Option<I> {
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
pub(crate) struct Batch<I, R> {
    /// Those that are wanted, newest first.
    pub(crate) rows: Vec<(I, R)>,
    pub(crate) looked_at: usize,
    /// All from this id on were looked at; `None`: there are no others.
    pub(crate) down_to: Option<I>,
}

/// The ids that the keys of an index end with, before one, newest first: at most `limit`.
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

/// The rows of several sources in one order, at most `limit`, and where the list goes on. Where one
/// has stopped, the others end too. Of a row that several have, the first's counts.
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

/// From which moment on the rows of a table are in its index, where earlier versions have written
/// some without. Those are older than all others, so where they end is found by halving the time.
/// `nearest` gives the first row from a moment on, or the last before it: its moment, and whether
/// it is in the index.
///
/// # Errors
/// [`StoreError`]: the store cannot be read.
pub(crate) fn indexed_from(
    nearest: impl Fn(Timestamp, Direction) -> Result<Option<(Timestamp, bool)>, StoreError>,
) -> Result<Timestamp, StoreError> {
    let start = Timestamp::from_millis(0);
    let Some((oldest, is_indexed)) = nearest(start, Direction::Forward)? else {
        return Ok(start);
    };
    if is_indexed {
        return Ok(start);
    }
    let end = Timestamp::from_millis(u64::MAX >> 16);
    let newest = nearest(end, Direction::Backward)?.map_or(oldest, |(newest, _)| newest);
    // The first row from `old` on is not in the index; that from `new` on is, or is not there.
    let mut old = oldest.as_millis();
    let mut new = newest.plus(Duration::from_millis(1)).as_millis();
    while new - old > 1 {
        let middle = old + (new - old) / 2;
        match nearest(Timestamp::from_millis(middle), Direction::Forward)? {
            Some((at, false)) => old = at.as_millis().clamp(middle, new - 1),
            _ => new = middle,
        }
    }
    Ok(Timestamp::from_millis(new))
}
