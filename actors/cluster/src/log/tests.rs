//! Tests that a log over a stream keeps the contract of every log, and settles unknown outcomes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use postrider_log::conformance::{ENTRY_BYTES_MAX, Outcome, Subject};
use postrider_log::testing::*;
use postrider_log::{AppendError, Log, LogError, Position, log_contract};

use super::*;
use crate::clock::StillClock;

/// A stream whose next publishes fail as scripted.
///
/// Until it is mended, reads of the failed sequence and of the end get no answer. Earlier messages
/// can be read.
#[derive(Debug)]
pub(crate) struct FaultyStream {
    stream: Arc<dyn Stream>,
    next: Mutex<Option<Outcome>>,
    /// The sequence from which reads fail; 0 while the stream works.
    broken_from: AtomicU64,
    /// Set if the next publish is refused although it lands.
    refuses: AtomicBool,
}

impl FaultyStream {
    pub(crate) fn new(stream: Arc<dyn Stream>) -> Arc<Self> {
        let (broken_from, refuses) = (AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Self { stream, next: Mutex::new(None), broken_from, refuses })
    }

    pub(crate) fn fail_next(&self, outcome: Outcome) {
        *self.next.lock() = Some(outcome);
    }

    pub(crate) fn mend(&self) {
        *self.next.lock() = None;
        self.broken_from.store(0, Ordering::Relaxed);
    }

    fn answers(&self, of: u64) -> Result<(), StreamError> {
        let broken_from = self.broken_from.load(Ordering::Relaxed);
        if broken_from != 0 && of >= broken_from {
            Err(StreamError("scripted".to_owned()))
        } else {
            Ok(())
        }
    }
}

impl Stream for FaultyStream {
    fn name(&self) -> &str {
        self.stream.name()
    }

    fn publish(&self, expected: u64, bytes: &Bytes) -> Published {
        let silent = || Published::Silent("scripted".to_owned());
        if self.answers(u64::MAX).is_err() {
            return silent();
        }
        if self.refuses.swap(false, Ordering::Relaxed) {
            self.stream.publish(expected, bytes);
            return Published::Refused("scripted".to_owned());
        }
        let mut next = self.next.lock();
        let lands = match &mut *next {
            None => return self.stream.publish(expected, bytes),
            Some(Outcome::Lost) => false,
            Some(Outcome::Kept) => true,
            Some(Outcome::Torn { bytes: left }) if bytes.len() <= *left => {
                *left -= bytes.len();
                return self.stream.publish(expected, bytes);
            }
            Some(Outcome::Torn { .. }) => false,
        };
        *next = None;
        self.broken_from.store(expected + 1, Ordering::Relaxed);
        if lands {
            self.stream.publish(expected, bytes);
        }
        silent()
    }

    fn message(&self, sequence: u64) -> Result<Option<Bytes>, StreamError> {
        self.answers(sequence)?;
        self.stream.message(sequence)
    }

    fn messages(&self, from: u64, count: u64) -> Result<Vec<(u64, Bytes)>, StreamError> {
        self.answers(from.saturating_add(count))?;
        self.stream.messages(from, count)
    }

    fn ends(&self) -> Result<Ends, StreamError> {
        self.answers(u64::MAX)?;
        self.stream.ends()
    }

    fn purge_before(&self, sequence: u64) -> Result<(), StreamError> {
        self.answers(u64::MAX)?;
        self.stream.purge_before(sequence)
    }
}

/// A log under test, over any stream.
pub(crate) struct OverStream(pub(crate) Arc<FaultyStream>);

impl OverStream {
    fn in_memory() -> Self {
        Self(FaultyStream::new(Arc::new(FakeStream::default())))
    }
}

impl Subject for OverStream {
    fn open(&mut self) -> Arc<dyn Log> {
        Arc::new(open(self.0.clone()))
    }

    fn fail_next(&mut self, outcome: Outcome) {
        self.0.fail_next(outcome);
    }

    fn settle(&mut self, log: Arc<dyn Log>, _outcome: Outcome) -> Arc<dyn Log> {
        self.0.mend();
        log.reopen().unwrap();
        log
    }
}

pub(crate) fn open(stream: Arc<dyn Stream>) -> ReplicatedLog {
    let options = ReplicatedOptions { entry_bytes_max: ENTRY_BYTES_MAX, stall_ms: 300 };
    let clock = Arc::new(StillClock::default());
    ReplicatedLog::open(ID, 0, stream, clock, options).unwrap()
}

log_contract!(over_a_stream_in_memory, OverStream::in_memory());

#[test]
fn a_refusal_of_what_landed_is_durable() {
    let stream = FaultyStream::new(Arc::new(FakeStream::default()));
    let log = open(stream.clone());
    claimed(&log);
    stream.refuses.store(true, Ordering::Relaxed);
    append(&log, b"refused, but there");
    append(&log, b"behind");
    assert_eq!(bodies(&log), ["refused, but there", "behind"]);
}

#[test]
fn what_becomes_of_appends_is_counted() {
    let stream = FaultyStream::new(Arc::new(FakeStream::default()));
    let appends = Arc::<Appends>::default();
    let log = open(stream.clone()).counted_by(appends.clone());
    claimed(&log);
    append(&log, b"at once");
    let at_once = appends.read();
    assert_eq!((at_once.entries, at_once.retries, at_once.settled), (2, 0, [0; SETTLED.len()]));
    stream.refuses.store(true, Ordering::Relaxed);
    append(&log, b"refused, but there");
    let refused = appends.read();
    assert_eq!((refused.entries, refused.settled), (3, [1, 0, 0, 0, 0]));
    assert!(refused.bytes > at_once.bytes);
    let memory = FakeStream::default();
    let log = open(Arc::new(memory.clone())).counted_by(appends.clone());
    claimed(&log);
    let next = log.tail().unwrap().next(1);
    claimed(&open(Arc::new(memory.clone())));
    let kind = postrider_log::Kind::Group;
    let entries = postrider_log::encode_commit(&next, kind, 0, b"taken", 1_000).unwrap();
    let taken = log.append(next.position, &entries);
    assert!(matches!(taken, Err(AppendError::Taken(_))), "{taken:?}");
    assert_eq!(appends.read().settled, [1, 1, 0, 0, 0]);
}

#[test]
fn a_loss_is_reported_and_nothing_is_appended() {
    let memory = FakeStream::default();
    let log = open(Arc::new(memory.clone()));
    claimed(&log);
    append(&log, b"one");
    append(&log, b"two");
    let tail = log.tail().unwrap();
    memory.lose(2);
    let next = tail.next(tail.epoch);
    let kind = postrider_log::Kind::Group;
    let entries = postrider_log::encode_commit(&next, kind, 0, b"three", 1_000).unwrap();
    let appended = log.append(next.position, &entries);
    assert!(matches!(appended, Err(AppendError::Unknown(_))), "{appended:?}");
    let lost = Err(LogError::Lost { last: Position(1), applied: Position(3) });
    assert_eq!(log.reopen(), lost);
    assert!(matches!(log.tail(), Err(LogError::Failed(_))));
    assert!(matches!(log.append(next.position, &entries), Err(AppendError::Refused(_))));
}

#[test]
fn a_flipped_bit_is_damage_wherever_it_is() {
    let memory = FakeStream::default();
    let log = open(Arc::new(memory.clone()));
    claimed(&log);
    append(&log, b"one");
    let size = log.entry(Position(2)).unwrap().unwrap().len();
    for byte in 0..size {
        memory.flip(byte);
        for error in [log.tail().unwrap_err(), log.entry(Position(2)).unwrap_err()] {
            let damaged = matches!(error, LogError::Damaged { position: Some(Position(2)), .. });
            assert!(damaged || matches!(error, LogError::Newer { .. }), "{byte}: {error}");
        }
        memory.flip(byte);
    }
    assert_eq!(bodies(&log), ["one"]);
}
