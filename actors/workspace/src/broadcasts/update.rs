//! The change of a broadcast that has not started.

use postrider_broadcast::record::{BroadcastStatus, Record};
use postrider_domain::{BroadcastId, Timestamp};

use crate::Workspace;
use crate::broadcasts::control::BroadcastError;
use crate::broadcasts::{find, save};
use crate::core::command::{Command, Context};

/// A change of a scheduled broadcast; `None` leaves a field as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BroadcastChange {
    /// Its name, for people.
    pub name: Option<Box<str>>,
    /// The time of its start.
    pub schedule_at: Option<Timestamp>,
}

impl Workspace {
    /// Changes the name or the time of a broadcast that is scheduled.
    ///
    /// # Errors
    /// [`BroadcastError`]: there is none, it is not scheduled any more, the time is in the past, or
    /// not now.
    pub async fn update_broadcast(
        &self,
        id: BroadcastId,
        change: BroadcastChange,
    ) -> Result<(), BroadcastError> {
        let workspace = self.clone();
        postrider_runtime::task::detached(async move {
            let record = workspace.perform(UpdateBroadcast { id, change }).await?;
            if let Some(at) = record.schedule_at {
                // An actor that starts it at the old time finds that it is not due.
                workspace.shared.broadcasts.reschedule(id, at);
            }
            Ok(())
        })
        .await
    }
}

struct UpdateBroadcast {
    id: BroadcastId,
    change: BroadcastChange,
}

impl Command for UpdateBroadcast {
    type Answer = Record;
    type Error = BroadcastError;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Record, BroadcastError> {
        let Self { id, change: BroadcastChange { name, schedule_at } } = self;
        let record = find(context, id)?.ok_or(BroadcastError::NotFound)?;
        if record.status != BroadcastStatus::Scheduled {
            return Err(BroadcastError::WrongState(record.status));
        }
        if schedule_at.is_some_and(|at| at < context.now()) {
            return Err(BroadcastError::Past);
        }
        let record = Record {
            name: name.unwrap_or(record.name),
            schedule_at: schedule_at.or(record.schedule_at),
            ..record
        };
        save(context, &record);
        Ok(record)
    }
}
