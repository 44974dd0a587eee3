//! `store_commit`: what the group commit adds to the database below it.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use fjall::config::BlockSizePolicy;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use postrider_actors::store::{
    Batch, CommitError, FjallOptions, FjallStore, Group as Commit, Subscriber, Writer,
    WriterOptions,
};

use super::Group;
use crate::measure::{Measured, Stopwatch, alternate};
use crate::report::Row;
use crate::scale::Scale;
use crate::{Error, Result, setup};

/// The row.
pub(crate) const GROUP: Group = Group { rows: &["store_commit"], run };

const BUDGET_AND_GOAL: (f64, f64) = (0.8, 0.95);
/// Bytes of an event.
const EVENT: usize = 120;
/// Threads that submit, each as a workspace of its own.
const THREADS: usize = 4;
/// Events that a thread has under way before it waits for a commit.
const UNDER_WAY: usize = 64;

/// The events' bytes: nothing that could be told to be alike.
fn event(number: u64) -> [u8; EVENT] {
    let mut event = [0; EVENT];
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
    let store = Arc::new(FjallStore::open(&data.path().join("store"), FjallOptions::default())?);
    let writer = Writer::start(store, WriterOptions::default())?;
    let mut submitters = submitters(&writer)?;
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
    let unit = format!("bytes/s of {EVENT}-byte events in groups of {}", size / EVENT);
    let reference = "bytes/s of fjall batches of that size, synced one by one";
    Ok(vec![Row::of_rates(GROUP.rows[0], unit, reference, pair, BUDGET_AND_GOAL)])
}

/// One thread's way to the writer.
struct Submitter {
    subscriber: Subscriber,
    commits: Receiver<(Commit, std::result::Result<(), CommitError>)>,
    events: u64,
}

fn submitters(writer: &Writer) -> Result<Vec<Submitter>> {
    let submitter = |thread| {
        let (sender, commits) = channel();
        // Who has stopped listening needs no news.
        let notify = move |commit, result| drop(sender.send((commit, result)));
        let id = format!("bench-{thread}").parse()?;
        let subscriber = writer.subscribe(id, Box::new(notify));
        Ok(Submitter { subscriber, commits, events: thread as u64 })
    };
    (0..THREADS).map(submitter).collect()
}

/// A round: bytes per second, and the bytes of a mean group.
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

impl Submitter {
    /// Submits events and waits until each is durable, with a bounded number of them under way.
    fn run(&mut self, start: Stopwatch, time: Duration) -> Result<()> {
        // The commits that are waited for, with how many events each has of this thread.
        let mut under_way: Vec<(Commit, usize)> = Vec::new();
        let mut waiting = 0;
        loop {
            let more = start.elapsed() < time;
            while more && waiting < UNDER_WAY {
                let event = event(self.events);
                self.events += THREADS as u64;
                let commit =
                    self.subscriber.submit(Batch { events: &event, ..Batch::default() })?;
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

/// The database without anything of ours, set up as the store sets up its journal.
struct Raw {
    database: Database,
    keyspace: Keyspace,
}

impl Raw {
    fn open(directory: &Path) -> Result<Self> {
        let options = FjallOptions::default();
        let database = Database::builder(directory)
            .cache_size(options.cache_bytes)
            .max_journaling_size(options.log_bytes)
            .open()?;
        let keyspace = database.keyspace("journal", || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(options.memtable_bytes)
                .data_block_size_policy(BlockSizePolicy::all(64 * 1024))
        })?;
        Ok(Self { database, keyspace })
    }

    /// A round of one loop: the events of a group as one value, a batch, an fsync.
    fn write(&self, number: &mut u64, group_bytes: usize, time: Duration) -> Result<Measured> {
        let start = Stopwatch::start();
        let (mut bytes, mut value) = (0, Vec::new());
        while start.elapsed() < time {
            value.clear();
            for place in 0..group_bytes / EVENT {
                value.extend_from_slice(&event(number.wrapping_mul(1 << 20) + place as u64));
            }
            let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
            batch.insert(&self.keyspace, number.to_be_bytes(), value.as_slice());
            batch.commit()?;
            *number += 1;
            bytes += value.len();
        }
        Ok(Measured::rate(bytes as f64 / start.elapsed().as_secs_f64()))
    }
}
