//! Tests that the log on a failing disk keeps the contract and its acknowledged entries.

mod histories;
mod steps;

use std::sync::Arc;

use super::*;
use crate::conformance::{ENTRY_BYTES_MAX, Outcome, Subject, log_contract};
use crate::testing::*;
use crate::{Witness, check_witness};

pub(super) fn small() -> FileOptions {
    let segment_bytes = 12 * 1024;
    FileOptions {
        segment_bytes,
        entry_bytes_max: ENTRY_BYTES_MAX,
        prepares_ahead: false,
        ..FileOptions::default()
    }
}

pub(super) fn new_log() -> CrashingLog {
    CrashingLog::with_options(start(), small()).unwrap()
}

/// The log on a disk in memory.
struct Crashing(Arc<CrashingLog>);

impl Crashing {
    fn new() -> Self {
        Self(Arc::new(new_log()))
    }

    fn crash(&mut self, keep: Keep) -> Arc<dyn Log> {
        self.0 = Arc::new(self.0.crash(keep).unwrap());
        self.0.clone()
    }
}

impl Subject for Crashing {
    fn open(&mut self) -> Arc<dyn Log> {
        self.crash(Keep::Cache)
    }

    fn fail_next(&mut self, outcome: Outcome) {
        self.0.fail_next_append(match outcome {
            Outcome::Lost => Fault::Lost,
            Outcome::Kept => Fault::Written,
            Outcome::Torn { bytes } => Fault::Torn(bytes),
        });
    }

    fn settle(&mut self, log: Arc<dyn Log>, outcome: Outcome) -> Arc<dyn Log> {
        match outcome {
            Outcome::Kept => return self.crash(Keep::Everything),
            Outcome::Torn { .. } => return self.crash(Keep::Everything),
            Outcome::Lost => {}
        }
        log.reopen().unwrap();
        log
    }
}

log_contract!(crashing, Crashing::new());

/// Appends a group that must fail with an unknown outcome.
fn fail(log: &CrashingLog, fault: Fault, body: &[u8]) {
    log.fail_next_append(fault);
    let failed = try_append(log, body);
    assert!(matches!(failed, Err(AppendError::Unknown(_))), "{fault:?}: {failed:?}");
    assert!(log.has_failed());
}

#[test]
fn each_fault_leaves_what_it_says() {
    use Keep::{Cache, Everything, Nothing};
    let table = [
        (Fault::Lost, [(Nothing, false), (Everything, false), (Cache, false)]),
        (Fault::Written, [(Nothing, false), (Everything, true), (Cache, true)]),
        (Fault::Torn(90), [(Nothing, false), (Everything, false), (Cache, false)]),
        (Fault::FailedSync, [(Nothing, false), (Everything, false), (Cache, true)]),
    ];
    for (fault, rows) in table {
        for (keep, is_there) in rows {
            let log = new_log();
            claimed(&log);
            append(&log, b"acknowledged");
            fail(&log, fault, b"unknown");
            let log = log.crash(keep).unwrap();
            let expected: &[&str] =
                if is_there { &["acknowledged", "unknown"] } else { &["acknowledged"] };
            assert_eq!(bodies(&log), expected, "{fault:?} {keep:?}");
        }
    }
}

#[test]
fn what_is_shown_after_reopening_survives_a_power_cut() {
    for fault in [Fault::Lost, Fault::Written, Fault::Torn(100), Fault::FailedSync] {
        let log = new_log();
        claimed(&log);
        append(&log, b"acknowledged");
        fail(&log, fault, b"not acknowledged");
        log.fail_next_reopens(2);
        assert!(log.reopen().is_err() && log.reopen().is_err());
        log.reopen().unwrap();
        assert_eq!(bodies(&log), ["acknowledged"], "{fault:?}");
        claimed(&log);
        append(&log, b"behind");
        let log = log.crash(Keep::Nothing).unwrap();
        assert_eq!(bodies(&log), ["acknowledged", "behind"], "{fault:?}");
    }
}

/// The kernel shows bytes that a failed sync did not write.
///
/// The next process must not build on them before they are on the disk.
#[test]
fn what_only_the_kernel_shows_is_made_durable_by_the_next_start() {
    let log = new_log();
    claimed(&log);
    append(&log, b"acknowledged");
    fail(&log, Fault::FailedSync, &[9; 1_500]);
    let log = log.crash(Keep::Cache).unwrap();
    assert_eq!(bodies(&log).len(), 2);
    claimed(&log);
    append(&log, b"behind");
    let log = log.crash(Keep::Nothing).unwrap();
    assert_eq!(bodies(&log), [&b"acknowledged"[..], &[9; 1_500], b"behind"]);
}

#[test]
fn a_disk_that_lies_is_found_out() {
    let log = new_log();
    claimed(&log);
    append(&log, b"acknowledged");
    let kept = mark(&log);
    log.fail_next_append(Fault::Lying);
    append(&log, b"acknowledged and lost");
    let applied = mark(&log);
    let log = log.crash(Keep::Nothing).unwrap();
    assert_eq!(check_witness(&log, &kept), Ok(Witness::Fits));
    let lost = LogError::Lost { last: kept.position, applied: applied.position };
    assert_eq!(check_witness(&log, &applied), Err(lost));
}

#[test]
fn a_lie_before_a_later_commit_is_damage() {
    let log = new_log();
    claimed(&log);
    log.fail_next_append(Fault::Lying);
    append(&log, &[1; 1_800]);
    append(&log, b"behind");
    let error = log.crash(Keep::Nothing).unwrap_err();
    assert!(matches!(error, LogError::Damaged { position: Some(Position(2)), .. }), "{error}");
}
