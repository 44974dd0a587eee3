//! The mark of a repair in the bucket.
//!
//! While a repair is under way by the mark, nodes leave the shard alone. A node that has stopped
//! starts the shard again afterwards.

use serde::{Deserialize, Serialize};

use crate::coordination::{Coordination, CoordinationError, decode, encode};

fn key(shard: u16) -> String {
    format!("repair.{shard}")
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct MarkRecord {
    is_finished: bool,
    incarnation: [u8; 16],
    /// The epoch with which the shard started again; in an unfinished mark, that of the repair
    /// before.
    epoch: u64,
    /// Set if the shard's stream was missing, so that nothing in the present one leads anywhere.
    was_missing: bool,
}

fn read(
    bucket: &dyn Coordination,
    shard: u16,
) -> Result<Option<(MarkRecord, u64)>, CoordinationError> {
    let key = key(shard);
    let Some(kept) = bucket.read(&key)? else { return Ok(None) };
    Ok(Some((decode(&key, &kept.value)?, kept.revision)))
}

/// Returns whether a repair of a shard has started and has not ended.
pub(crate) fn is_under_way(
    bucket: &dyn Coordination,
    shard: u16,
) -> Result<bool, CoordinationError> {
    Ok(read(bucket, shard)?.is_some_and(|(mark, _)| !mark.is_finished))
}

/// Returns the epoch with which a repair has started a shard again, if one has.
pub(crate) fn repaired_in(
    bucket: &dyn Coordination,
    shard: u16,
) -> Result<Option<u64>, CoordinationError> {
    let mark = read(bucket, shard)?.map(|(mark, _)| mark);
    Ok(mark.filter(|mark| mark.is_finished).map(|mark| mark.epoch))
}

/// Returns the epoch with which the shard last started again, or 0.
///
/// It does not matter whether a repair is under way.
pub(super) fn last_epoch(bucket: &dyn Coordination, shard: u16) -> Result<u64, CoordinationError> {
    Ok(read(bucket, shard)?.map_or(0, |(mark, _)| mark.epoch))
}

/// Returns whether an unfinished repair found the shard's stream missing.
pub(super) fn was_missing(
    bucket: &dyn Coordination,
    shard: u16,
) -> Result<bool, CoordinationError> {
    Ok(read(bucket, shard)?.is_some_and(|(mark, _)| !mark.is_finished && mark.was_missing))
}

/// The mark of one repair.
#[derive(Debug)]
pub(super) struct RepairMark {
    shard: u16,
    incarnation: [u8; 16],
    revision: u64,
    /// The epoch with which the shard starts again.
    pub(super) epoch: u64,
    was_missing: bool,
    /// The mark that was there before.
    before: Option<MarkRecord>,
}

impl RepairMark {
    /// Marks that this repair is under way, whatever the state of an earlier one.
    ///
    /// Returns `None` when another repair wrote its mark at the same time.
    pub(super) fn begin(
        bucket: &dyn Coordination,
        shard: u16,
        incarnation: [u8; 16],
        was_missing: bool,
    ) -> Result<Option<Self>, CoordinationError> {
        let (before, revision) = read(bucket, shard)?.unzip();
        let (revision, epoch) = (revision.unwrap_or(0), before.as_ref().map_or(0, |it| it.epoch));
        let mark = Self { shard, incarnation, revision, epoch, was_missing, before };
        let written = mark.write(bucket, false)?;
        Ok(written.map(|revision| Self { revision, ..mark }))
    }

    /// Restores the mark that was there before, because this repair has written nothing else.
    ///
    /// Returns whether no other repair has started since.
    pub(super) fn withdraw(&self, bucket: &dyn Coordination) -> Result<bool, CoordinationError> {
        let nothing = MarkRecord {
            is_finished: true,
            incarnation: self.incarnation,
            epoch: self.epoch,
            was_missing: false,
        };
        let before = self.before.clone().unwrap_or(nothing);
        Ok(self.put(bucket, &before)?.is_some())
    }

    /// Lets the nodes continue. Returns whether no other repair has started since.
    pub(super) fn finish(&self, bucket: &dyn Coordination) -> Result<bool, CoordinationError> {
        Ok(self.write(bucket, true)?.is_some())
    }

    /// Returns whether no other repair has started since.
    pub(super) fn is_mine(&self, bucket: &dyn Coordination) -> Result<bool, CoordinationError> {
        let there = read(bucket, self.shard)?;
        Ok(there.is_some_and(|(mark, _)| mark.incarnation == self.incarnation))
    }

    fn write(
        &self,
        bucket: &dyn Coordination,
        is_finished: bool,
    ) -> Result<Option<u64>, CoordinationError> {
        let Self { incarnation, epoch, was_missing, .. } = *self;
        self.put(bucket, &MarkRecord { is_finished, incarnation, epoch, was_missing })
    }

    fn put(
        &self,
        bucket: &dyn Coordination,
        record: &MarkRecord,
    ) -> Result<Option<u64>, CoordinationError> {
        let key = key(self.shard);
        match bucket.write(&key, encode(&key, record)?, self.revision, None) {
            Ok(Some(revision)) => return Ok(Some(revision)),
            // The only writer may still be refused, and an unanswered write may have succeeded.
            Ok(None) | Err(CoordinationError::Silent(_)) => {}
            Err(error) => return Err(error),
        }
        let there = read(bucket, self.shard)?;
        Ok(there.filter(|(mark, _)| mark == record).map(|(_, revision)| revision))
    }
}
