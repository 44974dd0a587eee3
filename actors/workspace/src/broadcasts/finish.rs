//! Settles a broadcast once its recipients are counted beside the actor.
//!
//! A million recipients are thousands of records. They are read on a thread that may block, and the
//! actor recounts only the windows that were reported on meanwhile.

use std::mem::take;
use std::sync::Arc;

use postrider_broadcast::record::{BroadcastStatus, Record, WINDOW};
use postrider_domain::event::broadcast::{BroadcastCompletedData, BroadcastData, CompletedCounts};
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{BroadcastId, EventData};

use crate::broadcasts::committed::WindowCounts;
use crate::broadcasts::control::{BroadcastError, settle};
use crate::broadcasts::{BroadcastCounts, event_data, find};
use crate::core::command::{Command, Context, Footprint};
use crate::handle::Workspace;
use crate::services::ChangedWindows;

/// The maximum of windows that the actor itself counts: two records each.
const COUNTED_IN_ACTOR_MAX: usize = 16;
/// The number of recounts of changed windows before the caller has to try later.
const ROUNDS_MAX: usize = 100;

/// A command whose answer comes when all earlier requests to the actor are durable.
struct AfterAll;

impl Command for AfterAll {
    type Answer = ();
    type Error = BroadcastError;

    const FOOTPRINT: Footprint = Footprint::Ends;

    fn carry_out(self, _: &mut Context<'_>) -> Result<(), BroadcastError> {
        Ok(())
    }
}

struct FinishBroadcast {
    id: BroadcastId,
    counts: WindowCounts,
    changed: Arc<ChangedWindows>,
}

/// The outcome of an attempt to settle.
enum FinishOutcome {
    /// The broadcast is settled.
    Settled(Box<Record>),
    /// These windows have changed and must be counted first.
    Changed(WindowCounts, Vec<u32>),
}

impl Command for FinishBroadcast {
    type Answer = FinishOutcome;
    type Error = BroadcastError;

    const FOOTPRINT: Footprint = Footprint::Ends;

    fn carry_out(self, context: &mut Context<'_>) -> Result<FinishOutcome, BroadcastError> {
        let Self { id, mut counts, changed } = self;
        let record = find(context, id)?.ok_or(BroadcastError::NotFound)?;
        if record.settled {
            return Ok(FinishOutcome::Settled(Box::new(record)));
        }
        let changed = take(&mut *changed.lock());
        if changed.len() > COUNTED_IN_ACTOR_MAX {
            return Ok(FinishOutcome::Changed(counts, changed.into_iter().collect()));
        }
        let was_over = record.status.is_over();
        let finished_at = if was_over { record.finished_at } else { Some(context.now()) };
        let record = Record { finished_at, ..as_settled(record) };
        counts.count_changed(context, &record, changed)?;
        let counts = counts.sum(&record);
        // From here on nothing fails.
        let record = settle(context, record, &counts);
        if !was_over {
            emit_completed(context, &record, &counts);
        }
        Ok(FinishOutcome::Settled(Box::new(record)))
    }
}

/// Returns the record as it is once settled, by which its recipients are counted.
fn as_settled(record: Record) -> Record {
    let status = match record.status.is_over() {
        true => record.status,
        false => BroadcastStatus::Completed,
    };
    Record { status, settled: true, ..record }
}

fn emit_completed(context: &mut Context<'_>, record: &Record, counts: &BroadcastCounts) {
    let BroadcastData { broadcast_id, name, status, total_recipients, reason, reference, metadata } =
        event_data(record);
    let counts = completed_counts(counts);
    let data = BroadcastCompletedData {
        broadcast_id,
        name,
        status,
        total_recipients,
        reason,
        counts,
        reference,
        metadata,
    };
    context.effects.emit(context.core.now(), EventData::BroadcastCompleted(data));
}

/// Returns the counts of a completed broadcast: each recipient is counted once.
const fn completed_counts(counts: &BroadcastCounts) -> CompletedCounts {
    let BroadcastCounts { held, sent, delivered, read, failed, unknown, suppressed, .. } = *counts;
    CompletedCounts { held, sent: sent + delivered + read, failed, unknown, suppressed }
}

impl Workspace {
    /// Settles a broadcast whose outcomes are all known. Returns its record once that is durable.
    ///
    /// # Errors
    /// [`BroadcastError`]: there is none, or not now.
    pub(crate) async fn finish_broadcast(&self, id: BroadcastId) -> Result<Record, BroadcastError> {
        let changed = self.shared.counting.begin(id);
        // Earlier reports are durable, and later ones are noted.
        self.perform(AfterAll).await?;
        let record = self.broadcast_record(id)?.ok_or(BroadcastError::NotFound)?;
        let record = Arc::new(as_settled(record));
        let (mut counts, mut windows) = (WindowCounts::default(), Vec::new());
        windows.extend(0..record.sendable.div_ceil(WINDOW));
        for _ in 0..ROUNDS_MAX {
            counts = self.count_windows(counts, Arc::clone(&record), windows).await?;
            let finish = FinishBroadcast { id, counts, changed: Arc::clone(&changed) };
            match self.perform(finish).await? {
                FinishOutcome::Settled(record) => return Ok(*record),
                FinishOutcome::Changed(counted, changed) => (counts, windows) = (counted, changed),
            }
        }
        Err(Unavailable::because(UnavailableReason::Overloaded).into())
    }

    async fn count_windows(
        &self,
        mut counts: WindowCounts,
        record: Arc<Record>,
        windows: Vec<u32>,
    ) -> Result<WindowCounts, Unavailable> {
        let read = self.read(move |store, workspace| {
            counts.count(store, workspace, &record, windows)?;
            Ok(counts)
        });
        read.await
    }
}
