//! The readable part of a damaged directory, as a store without a writer.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::Path;

use postrider_log::{Commit, Entry, Joiner, Mark, StoppedLog};

use crate::directory::LOG;
use crate::fjall::FjallView;
use crate::log_store::decode;
use crate::{
    Direction, Frame, Group, Log, MarkedView, Position, Store, StoreError, Table, View, Visit,
};

/// The view, and the log up to the last position that is kept.
pub(super) struct Salvaged {
    pub(super) dir: std::path::PathBuf,
    pub(super) view: FjallView,
    pub(super) last: Position,
    /// The position before the first existing frame.
    pub(super) begins_after: Position,
}

/// Visits the whole commits behind `after`, up to `last`.
fn commits(
    dir: &Path,
    (after, last): (Position, Position),
    visit: &mut dyn FnMut(&Commit) -> Result<ControlFlow<()>, StoreError>,
) -> Result<(), StoreError> {
    let log = StoppedLog::open(&dir.join(LOG))?;
    let (mut joiner, mut outcome) = (Joiner::default(), Ok(()));
    let is_done = Cell::new(false);
    let mut one = |entry: &Entry, _: &str, _| {
        if is_done.get() {
            return;
        }
        is_done.set(entry.header.position >= last);
        // A part without its start is of a commit that is given up.
        let joined = joiner.push(entry).ok().flatten();
        let wanted = joined.filter(|it| it.position > after && it.position <= last);
        let Some(commit) = wanted else { return };
        match visit(&commit) {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => is_done.set(true),
            Err(error) => {
                is_done.set(true);
                outcome = Err(error);
            }
        }
    };
    log.inspect_while(&mut one, &|| !is_done.get())?;
    outcome
}

/// Applies the commits behind `after`, up to `last`, to a view.
pub(super) fn apply_between(
    dir: &Path,
    view: &FjallView,
    after: Position,
    last: Position,
) -> Result<(), StoreError> {
    commits(dir, (after, last), &mut |commit| {
        let at = Mark { position: commit.position, epoch: commit.epoch, hash: commit.hash };
        view.apply(&at, &decode::changes_of(commit)?)?;
        Ok(ControlFlow::Continue(()))
    })
}

fn read_only() -> StoreError {
    StoreError::Failed("it is being repaired".into())
}

impl View for Salvaged {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.view.get(table, key)
    }

    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        from: Option<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.view.scan(table, prefix, from, direction, visit)
    }
}

impl Log for Salvaged {
    fn read(
        &self,
        after: Position,
        visit: &mut dyn FnMut(Frame) -> ControlFlow<()>,
    ) -> Result<Position, StoreError> {
        let mut reached = after;
        let mut flow = ControlFlow::Continue(());
        commits(&self.dir, (after, self.last), &mut |commit| {
            reached = commit.position;
            if let Some(frame) = decode::frame_of(commit)? {
                flow = visit(frame);
            }
            Ok(flow)
        })?;
        Ok(if flow.is_break() { reached } else { self.last.max(after) })
    }

    fn begins_after(&self) -> Result<Position, StoreError> {
        Ok(self.begins_after)
    }

    fn last_position(&self) -> Result<Position, StoreError> {
        Ok(self.last)
    }

    fn bytes_after(&self, _: Position) -> Result<u64, StoreError> {
        Ok(0)
    }

    fn trim(&self, _: Position) -> Result<(), StoreError> {
        Err(read_only())
    }

    fn reopen(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Store for Salvaged {
    fn commit(&self, _: Group<'_>) -> Result<Position, StoreError> {
        Err(read_only())
    }
}
