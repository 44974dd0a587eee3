//! Checks whether another broadcast may be created, before its audience is written.

use crate::core::command::{Command, Context, Footprint};
use crate::core::quota::{check_broadcasts, check_bytes};
use crate::idempotency::IdempotencyKey;
use postrider_domain::unavailable::Unavailable;
use postrider_store::Table;

/// The command that checks whether another broadcast may be created, before its audience is
/// written.
pub(crate) struct RoomForBroadcast {
    /// The key of its creation. An answer under the key is returned again, and needs no room.
    pub(crate) key: Option<IdempotencyKey>,
}

impl Command for RoomForBroadcast {
    type Answer = ();
    type Error = Unavailable;

    const FOOTPRINT: Footprint = Footprint::Grows;
    const SENDS: bool = true;
    // It has to look at the key before.
    const IS_HELD_TO_QUOTA: bool = false;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        if let Some(key) = self.key {
            let key = key.record_key(&context.core.id);
            if context.get(Table::Idempotency, &key)?.is_some() {
                return Ok(());
            }
        }
        check_broadcasts(context)?;
        check_bytes(context)
    }
}
