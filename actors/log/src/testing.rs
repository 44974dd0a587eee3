//! Functions that write and read commits in tests.

#![allow(
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    reason = "these are tests, also of logs in other crates"
)]

use std::ops::ControlFlow;

use bytes::Bytes;

use crate::*;

pub const ID: LogId = LogId(*b"0123456789abcdef");

/// Returns the bytes in hexadecimal, 32 in a line.
pub fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    bytes.chunks(32).map(|bytes| line(bytes) + "\n").collect()
}

pub fn start() -> Start {
    Start::new(ID)
}

pub fn claim_body() -> Claim {
    Claim {
        node: "one".to_owned(),
        incarnation: [7; 16],
        program: "0.1.0".to_owned(),
        readable_from: 1,
    }
}

/// Claims the log.
pub fn claimed(log: &dyn Log) -> Tail {
    claim(log, &claim_body(), 1_000).unwrap()
}

/// Returns the entries of a group that follows the tail.
pub fn group(log: &dyn Log, body: &[u8]) -> (Position, Vec<Bytes>) {
    let tail = log.tail().unwrap();
    let next = tail.next(tail.epoch);
    let max = log.entry_bytes_max();
    (next.position, encode_commit(&next, Kind::Group, 2_000, body, max).unwrap())
}

/// Tries to append a group.
pub fn try_append(log: &dyn Log, body: &[u8]) -> Result<Position, AppendError> {
    let (at, entries) = group(log, body);
    log.append(at, &entries)?;
    Ok(Position(at.0 + entries.len() as u64 - 1))
}

/// Appends a group, and returns its position.
pub fn append(log: &dyn Log, body: &[u8]) -> Position {
    try_append(log, body).unwrap()
}

pub fn try_entries(log: &dyn Log, from: Position) -> Result<Vec<Entry>, LogError> {
    let mut entries = Vec::new();
    log.read(from, &mut |entry| {
        entries.push(entry);
        ControlFlow::Continue(())
    })?;
    Ok(entries)
}

/// Returns all kept entries.
pub fn entries(log: &dyn Log) -> Vec<Entry> {
    try_entries(log, log.tail().unwrap().first).unwrap()
}

/// Returns the bodies of the whole groups that are kept.
pub fn bodies(log: &dyn Log) -> Vec<Bytes> {
    let mut bodies = Vec::new();
    read_commits(log, log.tail().unwrap().first, &mut |commit| {
        if commit.kind == Kind::Group {
            bodies.push(commit.body);
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    bodies
}

/// Returns the mark of a view that applied everything.
pub fn mark(log: &dyn Log) -> Mark {
    let Tail { last, epoch, hash, .. } = log.tail().unwrap();
    Mark { position: last, epoch, hash }
}
