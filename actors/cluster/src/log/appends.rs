//! The append of one entry to a stream, until its outcome is certain, and the counts of outcomes.

use std::sync::atomic::{AtomicU64, Ordering};

use postrider_log::{AppendError, Position};

use super::stream::{Ends, Published, Stream};
use crate::clock::SteadyClock;
use crate::settle::{Act, Heard, Settled, Settlement};

/// The names of the outcomes of appends that are not acknowledged at once.
pub const SETTLED: [&str; 5] = ["durable", "taken", "damaged", "lost", "unknown"];

/// The counters of the appends of a node.
#[derive(Debug, Default)]
pub(crate) struct Appends {
    entries: AtomicU64,
    bytes: AtomicU64,
    retries: AtomicU64,
    settled: [AtomicU64; SETTLED.len()],
}

/// The values of the counters when they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AppendCounts {
    /// The number of appended entries.
    pub entries: u64,
    /// The number of their bytes.
    pub bytes: u64,
    /// The number of publishes of an entry after its first.
    pub retries: u64,
    /// The number of appends that were not acknowledged at once, by outcome.
    pub settled: [u64; SETTLED.len()],
}

impl Appends {
    pub(crate) fn read(&self) -> AppendCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        AppendCounts {
            entries: read(&self.entries),
            bytes: read(&self.bytes),
            retries: read(&self.retries),
            settled: self.settled.each_ref().map(read),
        }
    }

    /// Counts the outcome of an append. `was_at_once` is set if its first publish was enough.
    fn ended(&self, outcome: Option<&Settled>, bytes: usize, was_at_once: bool) {
        let add = |count: &AtomicU64, by: u64| count.fetch_add(by, Ordering::Relaxed);
        let [durable, taken, damaged, lost, unknown] = &self.settled;
        let count = match outcome {
            Some(Settled::Durable) => {
                add(&self.entries, 1);
                add(&self.bytes, bytes as u64);
                durable
            }
            Some(Settled::Taken(_)) => taken,
            Some(Settled::Damaged(_)) => damaged,
            Some(Settled::Lost { .. }) => lost,
            None => unknown,
        };
        if !was_at_once {
            add(count, 1);
        }
    }
}

/// Appends one entry, and returns the outcome.
///
/// Returns `None` if it could not be settled in time; then it may be continued.
pub(crate) fn settle(
    stream: &dyn Stream,
    clock: &dyn SteadyClock,
    settlement: &mut Settlement,
    until: u64,
    appends: &Appends,
) -> Result<Option<Settled>, AppendError> {
    let mut act = settlement.begin(clock.now_ms());
    let mut publishes = u32::from(act != Act::Publish);
    let (mut was_at_once, bytes) = (true, settlement.bytes().len());
    let ended = |settled: Option<Settled>, was_at_once| {
        appends.ended(settled.as_ref(), bytes, was_at_once);
        Ok(settled)
    };
    loop {
        let began = clock.now_ms();
        let heard = match act {
            Act::Done(settled) => return ended(Some(settled), was_at_once),
            Act::Publish => {
                if publishes > 0 {
                    appends.retries.fetch_add(1, Ordering::Relaxed);
                }
                publishes += 1;
                match stream.publish(settlement.at().previous().0, settlement.bytes()) {
                    Published::Acknowledged => Heard::Acknowledged,
                    Published::Refused(_) => Heard::Refused,
                    Published::Declined(why) if publishes == 1 => {
                        return Err(AppendError::Refused(why));
                    }
                    // An earlier publish may still land.
                    Published::Declined(_) => Heard::Refused,
                    Published::Silent(why) => {
                        tracing::warn!(stream = stream.name(), why, "no answer");
                        stream.switch_server();
                        Heard::Nothing
                    }
                }
            }
            Act::LookUp(at) => look_up(stream, at, settlement.at().previous()),
            Act::WaitUntil(until) => {
                clock.wait_ms(until.saturating_sub(began));
                Heard::Woken
            }
        };
        was_at_once &= heard == Heard::Acknowledged;
        let now = clock.now_ms();
        act = settlement.step(now, heard.clone());
        if now >= until && !matches!(act, Act::Done(_)) {
            return ended(None, was_at_once);
        }
        if heard == Heard::Nothing && now < began + 100 {
            // A connection that is refused at once must not be tried in a busy loop.
            clock.wait_ms(100);
        }
    }
}

/// Looks up a position in a stream that must have the position `before`.
fn look_up(stream: &dyn Stream, at: Position, before: Position) -> Heard {
    match stream.message(at.0) {
        Ok(Some(bytes)) => return Heard::Found(bytes),
        Ok(None) => {}
        Err(_) => return Heard::Nothing,
    }
    let Ok(Ends { last, .. }) = stream.ends() else { return Heard::Nothing };
    if last < before.0 {
        // A server that no longer leads may answer this: the next one is asked then.
        stream.switch_server();
    }
    Heard::Absent { last: Position(last) }
}
