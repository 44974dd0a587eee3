//! Forgetting what the event log has of long ago.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::domain::{LogEntry, Timestamp};
use crate::store::Table;
use crate::store::events::event_log_prefix;

use super::command::Context;
use super::messages::Unavailable;

/// How often the log is looked at.
const EVERY: Duration = Duration::from_secs(60);
/// Records that one call of [`Sweep::run`] deletes at the most.
const SWEEP_MAX: usize = 500;

/// How much of an event log is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventOptions {
    /// For how long.
    pub kept_for: Duration,
    /// Events of a workspace, at the most.
    pub kept_max: u64,
}

impl Default for EventOptions {
    /// Thirty days, and four million events: about a gigabyte.
    fn default() -> Self {
        Self { kept_for: Duration::from_secs(30 * 24 * 3600), kept_max: 4_000_000 }
    }
}

/// Deletes the oldest parts of the log. The newest stays: the next sequence is known by it.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// Nothing is looked at before this.
    next: Timestamp,
}

impl Sweep {
    /// Deletes some of what is too old or too much. Returns whether there may be more.
    pub(super) fn run(
        &mut self,
        options: EventOptions,
        context: &mut Context<'_>,
    ) -> Result<bool, Unavailable> {
        let now = context.now();
        if now < self.next {
            return Ok(false);
        }
        self.next = now.plus(EVERY);
        let log_next = context.log_next;
        let prefix = event_log_prefix(&context.core.id);
        let mut ended = Vec::new();
        context.scan(Table::Events, &prefix, &mut |key, value| {
            let Some((first, count, at)) = measure(&key[prefix.len()..], value) else {
                // A damaged one is for whoever reads it to find.
                return ControlFlow::Break(());
            };
            let end = first + u64::from(count);
            let too_old = at.plus(options.kept_for) < now;
            let too_many = log_next - first > options.kept_max;
            if end >= log_next || !(too_old || too_many) || ended.len() == SWEEP_MAX {
                return ControlFlow::Break(());
            }
            ended.push(key.to_vec());
            ControlFlow::Continue(())
        })?;
        let more = ended.len() == SWEEP_MAX;
        if more {
            self.next = now;
        }
        for key in ended {
            context.delete(Table::Events, key);
        }
        Ok(more)
    }
}

/// The first sequence of a record of the log, how many entries it has, and when the first was made.
fn measure(key: &[u8], value: &[u8]) -> Option<(u64, u32, Timestamp)> {
    let first = u64::from_be_bytes(key.try_into().ok()?);
    let (count, entries) = value.split_first_chunk()?;
    let at = LogEntry::decode_all(entries).next()?.ok()?.at;
    Some((first, u32::from_be_bytes(*count), at))
}
