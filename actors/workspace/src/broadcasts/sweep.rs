//! Forgetting broadcasts that were over long ago, part by part, and the counts of days long past.

use postrider_store::view::codec;
use std::ops::ControlFlow;
use std::time::Duration;

use crate::analytics;
use crate::core::command::Context;
use postrider_broadcast::record::{self, Record};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{BroadcastId, Timestamp};
use postrider_store::Table;

/// How often it is looked for them.
const EVERY: Duration = Duration::from_secs(3600);
/// Records that one call of [`Sweep::run`] deletes at the most.
const SWEEP_MAX: usize = 500;
/// Where a broadcast's parts are, under keys that begin the same.
const PARTS: [Table; 4] = [
    Table::BroadcastAudience,
    Table::BroadcastPhones,
    Table::BroadcastOutcomes,
    Table::BroadcastReports,
];

/// Deletes what is over.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// Nothing is looked at before this.
    next: Timestamp,
}

impl Sweep {
    /// Deletes some of what was over for longer than it is kept. Returns whether there may be more.
    pub(crate) fn run(
        &mut self,
        kept_for: Duration,
        context: &mut Context<'_>,
    ) -> Result<bool, Unavailable> {
        let now = context.now();
        if now < self.next {
            return Ok(false);
        }
        self.next = now.plus(EVERY);
        let mut ended = analytics::past(context, SWEEP_MAX)?;
        if ended.is_empty()
            && let Some(record) = over(context, kept_for)?
        {
            ended = parts(context, record.id)?;
            if ended.is_empty() {
                // Last, so that none is left without its record.
                let key = record::record_key(&context.core.id, record.id);
                ended.push((Table::Broadcasts, key));
                let counts = record::counts_key(&context.core.id, record.id);
                ended.push((Table::Broadcasts, counts));
            }
        }
        let more = !ended.is_empty();
        if more {
            self.next = now;
        }
        for (table, key) in ended {
            context.delete(table, key);
        }
        Ok(more)
    }
}

/// The oldest broadcast that was over for longer than it is kept.
fn over(context: &Context<'_>, kept_for: Duration) -> Result<Option<Record>, Unavailable> {
    let (prefix, now) = (record::records_prefix(&context.core.id), context.now());
    let mut found = None;
    context.scan(Table::Broadcasts, &prefix, &mut |key, value| {
        let id = key[prefix.len()..].try_into().map(BroadcastId::from_bytes);
        if id.is_ok_and(|id| id.timestamp().plus(kept_for) > now) {
            return ControlFlow::Break(());
        }
        // One whose record cannot be read stays as it is; its readers are told.
        let record = codec::decode::<Record>(value).ok().filter(|record| record.settled);
        found = record.filter(|record| {
            record.finished_at.is_some_and(|finished| finished.plus(kept_for) <= now)
        });
        match found {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    })?;
    Ok(found)
}

/// Some of a broadcast's parts.
fn parts(context: &Context<'_>, id: BroadcastId) -> Result<Vec<(Table, Vec<u8>)>, Unavailable> {
    let prefix = record::parts_prefix(&context.core.id, id);
    let mut parts = Vec::new();
    for table in PARTS {
        context.scan(table, &prefix, &mut |key, _| {
            if parts.len() == SWEEP_MAX {
                return ControlFlow::Break(());
            }
            parts.push((table, key.to_vec()));
            ControlFlow::Continue(())
        })?;
    }
    Ok(parts)
}
