//! The append of one entry to a stream, until its outcome is sure, and what is counted of that.

use std::sync::atomic::{AtomicU64, Ordering};

use postrider_log::{AppendError, Position};

use super::stream::{Ends, Published, Stream};
use crate::clock::SteadyClock;
use crate::settle::{Act, Heard, Settled, Settlement};

/// What becomes of appends that are not acknowledged at once.
pub const SETTLED: [&str; 5] = ["durable", "taken", "damaged", "lost", "unknown"];

/// What the appends of a node have come to.
#[derive(Debug, Default)]
pub(crate) struct Appends {
    entries: AtomicU64,
    bytes: AtomicU64,
    retries: AtomicU64,
    settled: [AtomicU64; SETTLED.len()],
}

/// The same, as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AppendCounts {
    /// Entries that were appended.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Publishes of an entry behind its first.
    pub retries: u64,
    /// Appends that were not acknowledged at once, by what became of them.
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

    /// Notes how an append ended, of which more than a first publish was heard or not.
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

/// Appends one entry, and returns how that ended; `None` when it could not be settled in time, and
/// may be continued.
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
                    // An earlier one may still land.
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
            // A connection that is refused at once shall not be tried in a loop.
            clock.wait_ms(100);
        }
    }
}

/// Looks at a position, in a stream that must have this one.
fn look_up(stream: &dyn Stream, at: Position, before: Position) -> Heard {
    match stream.message(at.0) {
        Ok(Some(bytes)) => return Heard::Found(bytes),
        Ok(None) => {}
        Err(_) => return Heard::Nothing,
    }
    let Ok(Ends { last, .. }) = stream.ends() else { return Heard::Nothing };
    if last < before.0 {
        // A server that no longer leads may say so: the next one is asked then.
        stream.switch_server();
    }
    Heard::Absent { last: Position(last) }
}
