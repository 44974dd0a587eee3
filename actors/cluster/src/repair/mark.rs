//! The mark of a repair in the bucket.
//!
//! While it says that a repair is under way nodes leave the shard alone; one that has stopped
//! begins it anew afterwards.

use serde::{Deserialize, Serialize};

use crate::coordination::{Coordination, CoordinationError, decode, encode};

fn key(shard: u16) -> String {
    format!("repair.{shard}")
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct MarkRecord {
    is_finished: bool,
    incarnation: [u8; 16],
    /// The epoch with which the shard began anew; while it is not finished that of the time before.
    epoch: u64,
    /// The shard's stream was missing, so that nothing in the present one leads anywhere.
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

/// Whether a repair of a shard has begun and has not ended.
pub(crate) fn is_under_way(
    bucket: &dyn Coordination,
    shard: u16,
) -> Result<bool, CoordinationError> {
    Ok(read(bucket, shard)?.is_some_and(|(mark, _)| !mark.is_finished))
}

/// The epoch with which a repair has begun a shard anew, if one has.
pub(crate) fn repaired_in(
    bucket: &dyn Coordination,
    shard: u16,
) -> Result<Option<u64>, CoordinationError> {
    let mark = read(bucket, shard)?.map(|(mark, _)| mark);
    Ok(mark.filter(|mark| mark.is_finished).map(|mark| mark.epoch))
}

/// The epoch with which the shard began anew last, whether or not a repair is under way; 0 if none.
pub(super) fn last_epoch(bucket: &dyn Coordination, shard: u16) -> Result<u64, CoordinationError> {
    Ok(read(bucket, shard)?.map_or(0, |(mark, _)| mark.epoch))
}

/// Whether a repair that has not ended found the shard's stream missing.
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
    /// The epoch with which the shard begins anew.
    pub(super) epoch: u64,
    was_missing: bool,
    /// What stood there before.
    before: Option<MarkRecord>,
}

impl RepairMark {
    /// Says that this repair is under way, whatever became of one before; `None` when another one
    /// said so at the same time.
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

    /// Puts back what stood there before, for this repair has written nothing else. Returns whether
    /// no other repair has begun since.
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

    /// Lets the nodes go on. Returns whether no other repair has begun since.
    pub(super) fn finish(&self, bucket: &dyn Coordination) -> Result<bool, CoordinationError> {
        Ok(self.write(bucket, true)?.is_some())
    }

    /// Whether no other repair has begun since.
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
            // A sole writer may be refused, and what was not answered may have been written.
            Ok(None) | Err(CoordinationError::Silent(_)) => {}
            Err(error) => return Err(error),
        }
        let there = read(bucket, self.shard)?;
        Ok(there.filter(|(mark, _)| mark == record).map(|(_, revision)| revision))
    }
}
