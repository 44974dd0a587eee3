//! `store_commit`: the cost of the group commit beside bare writes to a zero-filled file.
//!
//! `event_without_endpoints`: the cost of a commit with an entry of the event log in it, beside the
//! same one without. It is the entry's encoding, and its bytes in the log. Without a listener,
//! nothing else is done.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use postrider_actors::domain::{LogEntry, PublicEvent, RequestId, Timestamp};
use postrider_actors::random;
use postrider_actors::store::directory::{self, DirectoryOptions};
use postrider_actors::store::{
    Batch, CommitError, GroupNumber, LogStore, Subscriber, Writer, WriterOptions, Writes,
};

use super::Group;
use crate::measure::{Measured, Stopwatch, alternate};
use crate::report::Row;
use crate::scale::Scale;
use crate::{Error, Result, setup};

/// The rows.
pub(crate) const GROUP: Group = Group { rows: &["store_commit"], run };
pub(crate) const EVENT: Group = Group { rows: &["event_without_endpoints"], run: run_event };

const BUDGET_AND_GOAL: (f64, f64) = (0.8, 0.9);
/// The bytes of an event.
const EVENT_BYTES: usize = 120;
/// The threads that submit, each as a workspace of its own.
const THREADS: usize = 4;
/// The events that a thread has in flight before it waits for a commit.
const UNDER_WAY: usize = 64;

/// Returns the event's bytes, in which no pattern repeats.
fn event(number: u64) -> [u8; EVENT_BYTES] {
    let mut event = [0; EVENT_BYTES];
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for bytes in event.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.copy_from_slice(&state.to_be_bytes());
    }
    event
}

fn run(scale: &Scale) -> Result<Vec<Row>> {
    let data = setup::data_directory()?;
    let store = Arc::new(new_store(&data.path().join("data"))?);
    let writer = Writer::start(store, WriterOptions::default())?;
    let mut submitters = submitters(&writer, "bench", false)?;
    let raw = Raw::open(&data.path().join("raw"))?;

    // The first round of the reference needs a size too.
    let mut group_bytes = submit(&writer, &mut submitters, scale.round)?.1;
    let mut groups = Vec::new();
    let mut number = 0;
    let last_size = std::cell::Cell::new(group_bytes);
    let pair = alternate(
        scale,
        |time| {
            let measured;
            (measured, group_bytes) = submit(&writer, &mut submitters, time)?;
            last_size.set(group_bytes);
            groups.push(group_bytes);
            Ok(measured)
        },
        |time| raw.write(&mut number, last_size.get(), time),
    )?;
    writer.stop();
    let size = groups.iter().sum::<usize>() / groups.len().max(1);
    let unit = format!("bytes/s of {EVENT_BYTES}-byte events in groups of {}", size / EVENT_BYTES);
    let reference = "bytes/s of writes of that size to a zero-filled file, synced one by one";
    Ok(vec![Row::of_rates(GROUP.rows[0], unit, reference, pair, BUDGET_AND_GOAL)])
}

fn run_event(scale: &Scale) -> Result<Vec<Row>> {
    let data = setup::data_directory()?;
    let store = Arc::new(new_store(&data.path().join("data"))?);
    let writer = Writer::start(store, WriterOptions::default())?;
    let mut logging = submitters(&writer, "logging", true)?;
    let mut silent = submitters(&writer, "silent", false)?;
    let rate = |submitters: &mut [Submitter], time| {
        let (before, start) = (Submitter::all(submitters), Stopwatch::start());
        submit(&writer, submitters, time)?;
        let submitted = Submitter::all(submitters) - before;
        Ok(Measured::rate(submitted as f64 / start.elapsed().as_secs_f64()))
    };
    let pair = alternate(scale, |time| rate(&mut logging, time), |time| rate(&mut silent, time))?;
    writer.stop();
    let cost = |measured: Measured| 1e6 / measured.rate;
    let added = cost(pair.subject) - cost(pair.reference);
    let unit = format!("durable commands/s that tell an event, {added:.2} µs more for each");
    let row = Row::of_rates(EVENT.rows[0], unit, "of the same without the event", pair, (0.0, 0.0));
    Ok(vec![Row { budget: None, goal: None, ..row }])
}

/// The access of one thread to the writer.
struct Submitter {
    subscriber: Subscriber,
    commits: Receiver<(GroupNumber, std::result::Result<(), CommitError>)>,
    events: u64,
    /// The number of submitted entries of the event log, if there are any.
    logged: Option<u64>,
}

fn submitters(writer: &Writer, name: &str, logs: bool) -> Result<Vec<Submitter>> {
    let submitter = |thread| {
        let (sender, commits) = channel();
        // A receiver that has stopped listening needs no notice.
        let notify = move |commit, result| drop(sender.send((commit, result)));
        let id = format!("{name}-{thread}").parse()?;
        let subscriber = writer.subscribe(id, Box::new(notify));
        Ok(Submitter { subscriber, commits, events: thread as u64, logged: logs.then_some(0) })
    };
    (0..THREADS).map(submitter).collect()
}

/// Runs a round; returns the bytes per second, and the bytes of a mean group.
fn submit(
    writer: &Writer,
    submitters: &mut [Submitter],
    time: Duration,
) -> Result<(Measured, usize)> {
    let before = writer.stats();
    let start = Stopwatch::start();
    std::thread::scope(|scope| {
        let running: Vec<_> = submitters
            .iter_mut()
            .map(|submitter| scope.spawn(move || submitter.run(start, time)))
            .collect();
        for thread in running {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        Ok::<_, Error>(())
    })?;
    let elapsed = start.elapsed();
    let after = writer.stats();
    let bytes = after.bytes - before.bytes;
    let groups = (after.groups - before.groups).max(1);
    Ok((Measured::rate(bytes as f64 / elapsed.as_secs_f64()), (bytes / groups) as usize))
}

/// Makes the log entry about a one-time password.
fn log_entry(number: u64) -> Result<LogEntry> {
    let at = Timestamp::from_millis(1_750_000_000_000 + number / 64);
    let event = PublicEvent::OtpSent {
        request_id: RequestId::from_parts(at, u128::from(number)),
        phone: "+491500000000".parse()?,
        expires_at: at.plus(Duration::from_secs(300)),
        resend: false,
    };
    Ok(LogEntry { at, event })
}

impl Submitter {
    /// Returns the number of events that all of them have submitted.
    fn all(submitters: &[Self]) -> u64 {
        submitters.iter().map(|it| it.events / THREADS as u64).sum()
    }

    /// Submits one event, and its log entry.
    fn submit(&mut self, log: &mut Vec<u8>) -> Result<GroupNumber> {
        let event = event(self.events);
        let mut batch = Batch { events: &event, ..Batch::default() };
        log.clear();
        if let Some(logged) = &mut self.logged {
            log_entry(self.events)?.encode_into(log);
            *logged += 1;
            batch = Batch { log, log_first: *logged, log_count: 1, ..batch };
        }
        self.events += THREADS as u64;
        Ok(self.subscriber.submit(batch)?)
    }

    /// Submits events and waits until each is durable, with a bounded number in flight.
    fn run(&mut self, start: Stopwatch, time: Duration) -> Result<()> {
        // The commits that are waited for, with the number of this thread's events in each.
        let mut under_way: Vec<(GroupNumber, usize)> = Vec::new();
        let (mut waiting, mut log) = (0, Vec::new());
        loop {
            let more = start.elapsed() < time;
            while more && waiting < UNDER_WAY {
                let commit = self.submit(&mut log)?;
                match under_way.last_mut() {
                    Some((last, events)) if *last == commit => *events += 1,
                    _ => under_way.push((commit, 1)),
                }
                waiting += 1;
            }
            if waiting == 0 {
                return Ok(());
            }
            let (commit, result) = self.commits.recv()?;
            result?;
            under_way.retain(|(of, events)| {
                let durable = *of <= commit;
                if durable {
                    waiting -= events;
                }
                !durable
            });
        }
    }
}

/// Opens the store of a new directory, with log files as large as a server's.
pub(super) fn new_store(directory: &Path) -> Result<LogStore> {
    let options = DirectoryOptions {
        writes: Writes::default(),
        log_id: random::bytes(),
        segment_bytes: 16 << 20,
        view: Default::default(),
    };
    Ok(directory::open(directory, &options)?.0)
}

/// A file of zeros that is written from its start on, repeatedly.
pub(super) struct Raw(File);

impl Raw {
    const BYTES: u64 = 64 << 20;

    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().create_new(true).write(true).open(path)?;
        let zeros = vec![0; 1 << 20];
        for at in (0..Self::BYTES).step_by(zeros.len()) {
            file.write_all_at(&zeros, at)?;
        }
        file.sync_all()?;
        Ok(Self(file))
    }

    /// Writes and syncs once, at the place of this number.
    pub(super) fn put(&self, number: u64, value: &[u8]) -> Result<()> {
        let places = (Self::BYTES / value.len().max(1) as u64).max(1);
        self.0.write_all_at(value, number % places * value.len() as u64)?;
        Ok(self.0.sync_data()?)
    }

    /// Runs a round of one loop: the events of a group, a write, an fsync.
    fn write(&self, number: &mut u64, group_bytes: usize, time: Duration) -> Result<Measured> {
        let start = Stopwatch::start();
        let (mut bytes, mut value) = (0, Vec::new());
        while start.elapsed() < time {
            value.clear();
            for place in 0..group_bytes / EVENT_BYTES {
                value.extend_from_slice(&event(number.wrapping_mul(1 << 20) + place as u64));
            }
            self.put(*number, &value)?;
            *number += 1;
            bytes += value.len();
        }
        Ok(Measured::rate(bytes as f64 / start.elapsed().as_secs_f64()))
    }
}
