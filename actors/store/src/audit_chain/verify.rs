//! Pure: verifies that no record of the audit log was altered, removed or slipped in.

use std::ops::ControlFlow;

use super::{AuditMark, decode, head, sequence_of, trimmed};
use crate::{Direction, StoreError, Table, View};
use postrider_domain::AuditId;

/// The fault of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Its bytes do not match the link of the next record, or of the end of the log.
    Altered,
    /// It is missing, and retention has not removed it.
    Missing,
    /// It is beyond the end of the log.
    Unexpected,
}

impl FaultKind {
    /// Returns the name of the fault.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Altered => "altered",
            Self::Missing => "missing",
            Self::Unexpected => "unexpected",
        }
    }
}

/// The first faulty record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditFault {
    /// Its sequence.
    pub sequence: u64,
    /// Its identifier, if it can be read.
    pub id: Option<AuditId>,
    /// The fault.
    pub kind: FaultKind,
}

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditCheck {
    /// The number of records that were looked at.
    pub checked: u64,
    /// The sequence after which the next part starts, if records are left.
    pub next: Option<u64>,
    /// The first faulty record.
    pub fault: Option<AuditFault>,
}

/// Verifies at most `max` records after the sequence `after`, or from the oldest one.
///
/// The record at `after` must already be verified, except for its link from the next one.
///
/// # Errors
/// [`StoreError`]: the store cannot be read, or a mark is damaged.
pub fn verify(store: &dyn View, after: Option<u64>, max: u64) -> Result<AuditCheck, StoreError> {
    loop {
        let start = trimmed(store)?;
        let check = verify_from(store, start, after, max)?;
        let is_missing = check.fault.as_ref().is_some_and(|it| it.kind == FaultKind::Missing);
        // Retention may have removed records while they were read.
        if !is_missing || trimmed(store)? == start {
            return Ok(check);
        }
    }
}

fn verify_from(
    store: &dyn View,
    start: AuditMark,
    after: Option<u64>,
    max: u64,
) -> Result<AuditCheck, StoreError> {
    let mut walk = ChainWalk { start, last: start, last_id: None, end: head(store)?, checked: 0 };
    if let Some(after) = after.filter(|after| *after > start.sequence) {
        let found = store.get(Table::Audit, &after.to_be_bytes())?;
        let Some(value) = found else { return Ok(walk.fault_at(after, FaultKind::Missing)) };
        match decode(after, &value) {
            Ok(row) => (walk.last, walk.last_id) = (row.mark, Some(row.record.id)),
            Err(damaged) => {
                walk.last_id = damaged.id;
                return Ok(walk.fault_at(after, FaultKind::Altered));
            }
        }
    }
    let from = walk.last.sequence.saturating_add(1).to_be_bytes();
    let (mut fault, mut beyond, mut is_full) = (None, None, false);
    store.scan(Table::Audit, &[], Some(&from), Direction::Forward, &mut |key, value| {
        let Some(sequence) = sequence_of(key) else { return ControlFlow::Continue(()) };
        if sequence > walk.end.sequence {
            beyond = Some(sequence);
            return ControlFlow::Break(());
        }
        is_full = walk.checked == max;
        if !is_full {
            fault = walk.step(sequence, value);
        }
        if is_full || fault.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if let Some((sequence, kind)) = fault {
        return Ok(walk.fault_at(sequence, kind));
    }
    if is_full {
        let next = Some(walk.last.sequence);
        return Ok(AuditCheck { checked: walk.checked, next, fault: None });
    }
    if let Some((sequence, kind)) = walk.check_end() {
        return Ok(walk.fault_at(sequence, kind));
    }
    // A record that was written meanwhile has moved the end in the same commit.
    match beyond {
        Some(sequence) if sequence > head(store)?.sequence => {
            Ok(walk.fault_at(sequence, FaultKind::Unexpected))
        }
        _ => Ok(AuditCheck { checked: walk.checked, next: None, fault: None }),
    }
}

/// The progress of the verification.
struct ChainWalk {
    /// The newest record that retention has removed.
    start: AuditMark,
    /// The last record that was read.
    last: AuditMark,
    last_id: Option<AuditId>,
    /// The end of the log at the start.
    end: AuditMark,
    checked: u64,
}

impl ChainWalk {
    /// Looks at the next record. Returns the faulty one, if any.
    fn step(&mut self, sequence: u64, value: &[u8]) -> Option<(u64, FaultKind)> {
        let expected = self.last.sequence + 1;
        if sequence != expected {
            return Some((expected, FaultKind::Missing));
        }
        let row = match decode(sequence, value) {
            Ok(row) => row,
            Err(damaged) => {
                self.last_id = damaged.id;
                return Some((sequence, FaultKind::Altered));
            }
        };
        if row.previous != self.last.hash {
            // The previous record does not match this link. Removed records cannot be looked at, so
            // in that case the fault is this record's.
            if self.last.sequence > self.start.sequence {
                return Some((self.last.sequence, FaultKind::Altered));
            }
            self.last_id = Some(row.record.id);
            return Some((sequence, FaultKind::Altered));
        }
        (self.last, self.last_id) = (row.mark, Some(row.record.id));
        self.checked += 1;
        None
    }

    /// Compares the last record with the end of the log.
    fn check_end(&self) -> Option<(u64, FaultKind)> {
        let Self { last, end, .. } = self;
        if last.sequence < end.sequence {
            return Some((last.sequence + 1, FaultKind::Missing));
        }
        let is_other = last.sequence == end.sequence && last.hash != end.hash;
        is_other.then_some((last.sequence, FaultKind::Altered))
    }

    fn fault_at(&self, sequence: u64, kind: FaultKind) -> AuditCheck {
        let id = self.last_id.filter(|_| kind == FaultKind::Altered);
        let fault = Some(AuditFault { sequence, id, kind });
        AuditCheck { checked: self.checked, next: None, fault }
    }
}
