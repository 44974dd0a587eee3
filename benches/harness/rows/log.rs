//! `log_append`: the cost of an append to the log beside a bare write to a zero-filled file.
//!
//! `view_rebuild`: the speed of rebuilding a deleted view from a log that starts at 1.

use std::fs;
use std::time::Duration;

use postrider_actors::random;
use postrider_actors::store::postrider_log::{
    Claim, FileLog, FileOptions, Kind, Log, LogId, Start, claim, encode_commit,
};
use postrider_actors::store::{Change, Group as Commit, LogStore, Store, Table, View};

use super::Group;
use super::store_commit::{Raw, new_store};
use crate::measure::{Measured, Stopwatch, alternate, median};
use crate::report::Row;
use crate::scale::Scale;
use crate::{Result, setup};

/// The rows.
pub(crate) const APPEND: Group = Group { rows: &["log_append"], run: run_append };
pub(crate) const REBUILD: Group = Group { rows: &["view_rebuild"], run: run_rebuild };

const APPEND_BUDGET_AND_GOAL: (f64, f64) = (0.9, 1.0);
/// The MB of keys and values per second.
const REBUILD_BUDGET_AND_GOAL: (f64, f64) = (100.0, 200.0);
/// The bytes of an entry's body.
const BODY_BYTES: usize = 4 * 1024;
/// The bytes of a record's value.
const VALUE_BYTES: usize = 1_000;
/// The records of a commit.
const CHANGES: usize = 250;

fn run_append(scale: &Scale) -> Result<Vec<Row>> {
    let data = setup::data_directory()?;
    let start = Start::new(LogId(random::bytes()));
    let log = FileLog::open(&data.path().join("log"), FileOptions::default(), start)?;
    let me = Claim {
        node: "bench".to_owned(),
        incarnation: [0; 16],
        program: String::new(),
        readable_from: 1,
    };
    claim(&log, &me, 0)?;
    let raw = Raw::open(&data.path().join("raw"))?;
    let (body, mut number) = ([7; BODY_BYTES], 0);
    let pair = alternate(
        scale,
        |time| {
            rate(time, || {
                let tail = log.tail()?;
                let next = tail.next(tail.epoch);
                let max = log.entry_bytes_max();
                let entries = encode_commit(&next, Kind::Group, 0, &body, max)?;
                Ok(log.append(next.position, &entries)?)
            })
        },
        |time| {
            rate(time, || {
                number += 1;
                raw.put(number, &body)
            })
        },
    )?;
    log.close()?;
    let unit = format!("bytes/s of entries of {BODY_BYTES} bytes, one by one");
    let reference = "bytes/s of writes of that size to a zero-filled file, synced one by one";
    let row = Row::of_rates(APPEND.rows[0], unit, reference, pair, APPEND_BUDGET_AND_GOAL);
    Ok(vec![row])
}

/// Returns the bytes per second that `run` makes durable.
fn rate(time: Duration, mut run: impl FnMut() -> Result<()>) -> Result<Measured> {
    let (start, mut count) = (Stopwatch::start(), 0_u64);
    while start.elapsed() < time {
        run()?;
        count += 1;
    }
    let bytes = count * BODY_BYTES as u64;
    Ok(Measured::rate(bytes as f64 / start.elapsed().as_secs_f64()))
}

fn run_rebuild(scale: &Scale) -> Result<Vec<Row>> {
    let data = setup::data_directory()?;
    let dir = data.path().join("data");
    let bytes = fill(&new_store(&dir)?, scale.pending)?;
    let mut rates = Vec::new();
    for round in 0..scale.restarts {
        // Threads of the earlier one may still write to it, so it is removed at the end.
        fs::rename(dir.join("view"), data.path().join(format!("deleted-{round}")))?;
        let start = Stopwatch::start();
        let store = new_store(&dir)?;
        let seconds = start.elapsed().as_secs_f64();
        if store.get(Table::Contacts, &key(scale.pending - 1))?.is_none() {
            return Err("a record is missing from the view that was built".into());
        }
        store.close()?;
        rates.push(bytes as f64 / 1e6 / seconds);
        eprintln!("  {:.1} MB in {seconds:.2} s", bytes as f64 / 1e6);
    }
    let unit = format!("MB/s of {} records of {VALUE_BYTES} bytes", scale.pending);
    Ok(vec![Row::of_least(REBUILD.rows[0], unit, median(rates), REBUILD_BUDGET_AND_GOAL)])
}

fn key(number: usize) -> [u8; 8] {
    (number as u64).to_be_bytes()
}

/// Commits this many records. Returns the bytes of their keys and values.
fn fill(store: &LogStore, records: usize) -> Result<usize> {
    store.begin_epoch()?;
    for first in (0..records).step_by(CHANGES) {
        let numbers = first..records.min(first + CHANGES);
        let put = |number| Change::put(Table::Contacts, key(number), value(number));
        let changes: Vec<_> = numbers.map(put).collect();
        store.commit(Commit::new(None, &changes))?;
    }
    store.close()?;
    Ok(records * (key(0).len() + VALUE_BYTES))
}

/// Returns bytes that do not compress.
fn value(number: usize) -> Vec<u8> {
    let mut state = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut value = Vec::with_capacity(VALUE_BYTES);
    while value.len() < VALUE_BYTES {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        value.extend_from_slice(&state.to_be_bytes());
    }
    value
}
