//! Tests that a piece has the entries after a position, and that any damage is noticed.

use super::*;
use crate::testing::{ID, append, claimed, mark, start};
use crate::{MemoryLog, port};

/// Returns a log of two epochs, with a commit of several parts.
fn log() -> MemoryLog {
    let log = MemoryLog::with_entry_bytes_max(&start(), 200);
    claimed(&log);
    append(&log, b"one");
    append(&log, &[7; 500]);
    claimed(&log);
    append(&log, b"two");
    log
}

fn piece(log: &MemoryLog, after: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert_eq!(write_piece(log, Position(after), &mut bytes).unwrap(), mark(log));
    bytes
}

fn read(bytes: &[u8]) -> Result<(Vec<Commit>, Mark), LogError> {
    let mut reader = PieceReader::new(bytes, "p")?;
    let mut commits = Vec::new();
    while let Some(commit) = reader.next_commit()? {
        commits.push(commit);
    }
    assert_eq!(reader.log(), ID);
    Ok((commits, reader.end()))
}

fn commits(log: &MemoryLog, from: u64) -> Vec<Commit> {
    let mut found = Vec::new();
    port::read_commits(log, Position(from), &mut |commit| {
        found.push(commit);
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}

#[test]
fn a_piece_has_what_follows_a_position() {
    let log = log();
    let ends: Vec<_> = commits(&log, 1).iter().map(|commit| commit.position.0).collect();
    for after in [0].into_iter().chain(ends) {
        let (found, end) = read(&piece(&log, after)).unwrap();
        assert_eq!((found, end), (commits(&log, after + 1), mark(&log)), "{after}");
    }
    let last = mark(&log).position;
    let ahead = write_piece(&log, last.next(), &mut Vec::new()).unwrap_err();
    assert!(matches!(ahead, PieceError::Ahead { .. }), "{ahead}");
}

#[test]
fn pieces_follow_each_other() {
    let log = log();
    let first = piece(&log, 0);
    let middle = mark(&log);
    append(&log, b"three");
    let second = piece(&log, middle.position.0);
    let (_, end) = read(&first).unwrap();
    assert_eq!(PieceReader::new(&second[..], "p").unwrap().start(), end);
    assert_eq!(read(&second).unwrap().1, mark(&log));
}

#[test]
fn any_changed_byte_and_any_missing_end_is_noticed() {
    let log = log();
    let bytes = piece(&log, 1);
    let (whole, _) = read(&bytes).unwrap();
    for at in (0..64).chain(4090..bytes.len()) {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        let error = read(&bad).unwrap_err();
        let is_reported = matches!(error, LogError::Damaged { .. } | LogError::Newer { .. });
        assert!(is_reported, "{at}: {error}");
        // Without its end it is damaged, or a shorter piece.
        match read(&bytes[..at]) {
            Ok((commits, _)) => assert!(commits.len() < whole.len() && at >= 4096, "{at}"),
            Err(error) => assert!(matches!(error, LogError::Damaged { .. }), "{at}: {error}"),
        }
    }
}
