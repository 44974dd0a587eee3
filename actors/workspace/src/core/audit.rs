//! Pure: the audit record of a command, which is committed with the command's effects.

use std::sync::Arc;

use postrider_domain::{AuditContext, AuditEntry, AuditId, Timestamp};
use postrider_store::view::audit::record_change;

use crate::core::effects::Effects;

/// The draft of the audit record, which is written if the command is carried out.
#[derive(Debug)]
pub struct AuditDraft {
    context: Arc<AuditContext>,
    entry: AuditEntry,
    unique: u128,
}

impl AuditDraft {
    /// The record of `entry` by the caller of `context`. `unique` has 80 random bits.
    #[must_use]
    pub const fn new(context: Arc<AuditContext>, entry: AuditEntry, unique: u128) -> Self {
        Self { context, entry, unique }
    }

    /// Adds the record to the effects of the command.
    pub(crate) fn add_to(mut self, effects: &mut Effects, now: Timestamp) {
        for (name, from) in effects.replaced.drain(..) {
            self.entry.replaces(&name, from);
        }
        let id = AuditId::from_parts(now, self.unique);
        let change = record_change(now, &self.entry.record(id, &self.context));
        effects.changes.set(change.table, change.key, change.value);
    }
}
