//! Pure: the audit log is a hash chain: each record has the SHA-256 of the previous one.
//!
//! A caller that commits a change stages its record with [`record_change`] among the changes of the
//! same batch. Only the writer's thread numbers staged records and links them, in the order in
//! which they were staged. So there is one chain, whatever actors they come from, and a record is
//! durable exactly when its change is. Two marks in [`Table::Meta`] hold the end of the chain and
//! the position up to which retention has removed it.

mod read;
mod verify;

use std::ops::ControlFlow;

use postrider_domain::{AuditId, AuditRecord, Timestamp};
use sha2::{Digest, Sha256};

use crate::view::codec;
use crate::{Change, Direction, StoreError, Table, View};

pub use read::{AuditFilter, AuditPage, page};
pub use verify::{AuditCheck, AuditFault, FaultKind, verify};

/// The mark of the newest record.
pub(crate) const HEAD_KEY: &[u8] = b"audit_head";
/// The mark of the newest record that retention has removed.
const TRIMMED_KEY: &[u8] = b"audit_trimmed";
/// The format of records and marks.
const VERSION: u8 = 1;
/// Bytes of a hash.
const HASH_BYTES: usize = 32;
/// Bytes of the key of a staged record: its identifier.
const STAGED_KEY_BYTES: usize = 16;
/// Bytes of the key of a committed record: its sequence, big endian.
const KEY_BYTES: usize = 8;
/// Bytes of a record before its JSON: the version, the hash of the record before, the moment.
const HEADER_BYTES: usize = 1 + HASH_BYTES + 8;

/// The SHA-256 of a record.
pub type AuditHash = [u8; HASH_BYTES];

/// A record's place in the chain. The default is the place before the first record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AuditMark {
    /// The record's sequence: 1 for the first, without gaps.
    pub sequence: u64,
    /// The SHA-256 of its sequence and its bytes.
    pub hash: AuditHash,
    /// The time of the record. It never decreases along the chain, except at a rebase of the clock.
    pub at: Timestamp,
}

/// A committed record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// Its place in the chain.
    pub mark: AuditMark,
    /// The SHA-256 of the record before.
    pub previous: AuditHash,
    /// The record.
    pub record: AuditRecord,
}

/// A committed record that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedRow {
    /// Its sequence.
    pub sequence: u64,
    /// Its identifier, if that can be read.
    pub id: Option<AuditId>,
    /// The time of the record, if that can be read.
    pub at: Option<Timestamp>,
    /// The problem.
    pub why: &'static str,
}

/// Returns the change that appends a record. It must be committed through the writer.
#[must_use]
pub fn record_change(at: Timestamp, record: &AuditRecord) -> Change {
    let value = [&at.as_millis().to_be_bytes()[..], &codec::encode(record)].concat();
    Change::put(Table::Audit, *record.id.as_bytes(), value)
}

/// Returns the place of the newest record.
///
/// # Errors
/// [`StoreError`]: the store cannot be read, or the mark is damaged.
pub fn head(store: &dyn View) -> Result<AuditMark, StoreError> {
    AuditMark::read(store, HEAD_KEY)
}

/// Returns the place of the newest record that retention has removed.
///
/// # Errors
/// [`StoreError`]: the store cannot be read, or the mark is damaged.
pub fn trimmed(store: &dyn View) -> Result<AuditMark, StoreError> {
    AuditMark::read(store, TRIMMED_KEY)
}

impl AuditMark {
    const BYTES: usize = 1 + 8 + HASH_BYTES + 8;

    fn read(store: &dyn View, key: &[u8]) -> Result<Self, StoreError> {
        let Some(bytes) = store.get(Table::Meta, key)? else { return Ok(Self::default()) };
        let damaged = || StoreError::Damaged("a mark of the audit log".into());
        Self::decode(&bytes).ok_or_else(damaged)
    }

    /// Returns the mark's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::BYTES);
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.sequence.to_be_bytes());
        bytes.extend_from_slice(&self.hash);
        bytes.extend_from_slice(&self.at.as_millis().to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (&version, rest) = bytes.split_first()?;
        let (sequence, rest) = rest.split_first_chunk()?;
        let (hash, rest) = rest.split_first_chunk()?;
        let at = Timestamp::from_millis(u64::from_be_bytes(rest.try_into().ok()?));
        let sequence = u64::from_be_bytes(*sequence);
        (version == VERSION).then_some(Self { sequence, hash: *hash, at })
    }

    /// Returns the place of a record with these bytes.
    fn of(sequence: u64, at: Timestamp, value: &[u8]) -> Self {
        let hash = Sha256::new().chain_update(sequence.to_be_bytes()).chain_update(value);
        Self { sequence, hash: hash.finalize().into(), at }
    }

    /// Turns a staged record into the one after this. Returns its place.
    fn link(&self, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Option<Self> {
        let (at, json) = value.split_first_chunk()?;
        // Two callers may stage records in another order than that of their times.
        let at = Timestamp::from_millis(u64::from_be_bytes(*at)).max(self.at);
        let mut linked = Vec::with_capacity(HEADER_BYTES + json.len());
        linked.push(VERSION);
        linked.extend_from_slice(&self.hash);
        linked.extend_from_slice(&at.as_millis().to_be_bytes());
        linked.extend_from_slice(json);
        let next = Self::of(self.sequence + 1, at, &linked);
        *key = next.sequence.to_be_bytes().to_vec();
        *value = linked;
        Some(next)
    }
}

/// Returns the time of a committed record; `None` if its bytes are not a record.
#[must_use]
pub fn moment_of(value: &[u8]) -> Option<Timestamp> {
    let moment = value.get(1 + HASH_BYTES..HEADER_BYTES)?.try_into().ok()?;
    Some(Timestamp::from_millis(u64::from_be_bytes(moment)))
}

/// Links a committed record of another chain to the one that ends with `head`.
///
/// Returns the new end; `None` if its bytes are not a record.
#[must_use]
pub fn relinked(head: &AuditMark, value: &[u8]) -> Option<(Change, AuditMark)> {
    let (mut key, mut value) = (Vec::new(), value.get(1 + HASH_BYTES..)?.to_vec());
    let end = head.link(&mut key, &mut value)?;
    Some((Change::put(Table::Audit, key, value), end))
}

/// Returns the change that makes a mark the end of the chain.
#[must_use]
pub fn head_change(end: &AuditMark) -> Change {
    Change::put(Table::Meta, HEAD_KEY, end.encode())
}

/// Links the staged records among `changes` to the chain that ends with `head`.
///
/// Returns its new end if there were any.
pub(crate) fn link_staged(changes: &mut [Change], head: &AuditMark) -> Option<AuditMark> {
    let mut newest = None;
    for change in changes.iter_mut().filter(|change| change.table == Table::Audit) {
        let Change { key, value: Some(value), .. } = change else { continue };
        if key.len() == STAGED_KEY_BYTES {
            newest = newest.as_ref().unwrap_or(head).link(key, value).or(newest);
        }
    }
    newest
}

/// Returns the sequence of a key.
fn sequence_of(key: &[u8]) -> Option<u64> {
    (key.len() == KEY_BYTES).then(|| key.try_into().map(u64::from_be_bytes).ok())?
}

/// Decodes a record.
fn decode(sequence: u64, value: &[u8]) -> Result<AuditRow, DamagedRow> {
    let damaged = |at, why| DamagedRow { sequence, id: find_id(value), at, why };
    let cut = || damaged(None, "it is too short");
    let (header, json) = value.split_at_checked(HEADER_BYTES).ok_or_else(cut)?;
    let (previous, at) = header[1..].split_first_chunk().ok_or_else(cut)?;
    let at = at.try_into().map(u64::from_be_bytes).map_err(|_| cut())?;
    let at = Timestamp::from_millis(at);
    if header[0] != VERSION {
        return Err(damaged(None, "its version is unknown"));
    }
    let mark = AuditMark::of(sequence, at, value);
    let record =
        codec::decode(json).map_err(|_| damaged(Some(at), "its text is not that of a record"))?;
    Ok(AuditRow { mark, previous: *previous, record })
}

/// Returns the identifier in bytes that are no longer a record, if it still exists.
fn find_id(value: &[u8]) -> Option<AuditId> {
    const BEFORE: &[u8] = br#""id":"aud_"#;
    let start = value.windows(BEFORE.len()).position(|window| window == BEFORE)?;
    let text = value[start + BEFORE.len() - AuditId::PREFIX.len()..].split(|it| *it == b'"').next();
    std::str::from_utf8(text?).ok()?.parse().ok()
}

/// The oldest records, whose retention has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExpiredRecords {
    /// The changes that remove them, and record the position.
    pub changes: Vec<Change>,
    /// The unreadable ones among them.
    pub damaged: Vec<DamagedRow>,
}

/// Returns the oldest records from before `moment`, about `max` of them at the most.
///
/// An unreadable one is removed with the next readable one: no earlier one has a later moment.
///
/// # Errors
/// [`StoreError`]: the store cannot be read.
pub fn expired(
    store: &dyn View,
    moment: Timestamp,
    max: usize,
) -> Result<ExpiredRecords, StoreError> {
    // The removed records are not passed again.
    let from = (trimmed(store)?.sequence + 1).to_be_bytes();
    let (mut found, mut newest, mut unread) = (ExpiredRecords::default(), None, Vec::new());
    store.scan(Table::Audit, &[], Some(&from), Direction::Forward, &mut |key, value| {
        let Some(sequence) = sequence_of(key) else { return ControlFlow::Continue(()) };
        match decode(sequence, value) {
            Ok(row) if row.mark.at < moment && found.changes.len() < max => newest = Some(row.mark),
            Ok(_) => return ControlFlow::Break(()),
            Err(damaged) => {
                unread.push(damaged);
                return ControlFlow::Continue(());
            }
        }
        for damaged in unread.drain(..) {
            found.changes.push(Change::delete(Table::Audit, damaged.sequence.to_be_bytes()));
            found.damaged.push(damaged);
        }
        found.changes.push(Change::delete(Table::Audit, key));
        ControlFlow::Continue(())
    })?;
    if let Some(newest) = newest {
        found.changes.push(Change::put(Table::Meta, TRIMMED_KEY, newest.encode()));
    }
    Ok(found)
}

#[cfg(test)]
mod golden;

#[cfg(test)]
mod tests;
