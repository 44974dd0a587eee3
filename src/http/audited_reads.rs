//! Records in the audit log the callers who read everything of a kind.

use std::collections::HashMap;
use std::time::Duration;

use postrider_actors::Engine;
use postrider_actors::domain::unavailable::Unavailable;
use postrider_actors::domain::{AuditActor, AuditContext, AuditEntry, Timestamp, WorkspaceId};
use tokio::sync::Mutex;

/// The time during which another reading is not recorded.
const READ_AGAIN: Duration = Duration::from_secs(3600);

/// A kind of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ReadingKind {
    /// All data at one position.
    Archive,
    /// The log from its first record.
    WholeLog,
    /// The records that were committed after a position.
    Log,
    /// The contents of media files, or their list.
    Files,
    /// All contacts of a workspace.
    Contacts,
    /// The event log of a workspace.
    Events,
    /// The recipients of a broadcast.
    Recipients,
    /// The messages of a workspace.
    Messages,
    /// The one-time passwords of a workspace, without their codes.
    Codes,
}

impl ReadingKind {
    fn entry(self) -> AuditEntry {
        let archive = |part: &str| AuditEntry::new("archive.read").change("part", part);
        match self {
            Self::Archive => archive("archive"),
            Self::WholeLog => archive("whole_log"),
            Self::Log => archive("log"),
            Self::Files => archive("files"),
            Self::Contacts => AuditEntry::new("contacts.export"),
            Self::Events => AuditEntry::new("events.export"),
            Self::Recipients => AuditEntry::new("recipients.export"),
            Self::Messages => AuditEntry::new("messages.export"),
            Self::Codes => AuditEntry::new("otp.export"),
        }
    }

    /// Returns whether programs repeat this reading often: a backup follows the log each second.
    const fn is_repeated(self) -> bool {
        matches!(
            self,
            Self::Log
                | Self::Files
                | Self::Events
                | Self::Recipients
                | Self::Messages
                | Self::Codes
        )
    }
}

/// The caller, their address, the kind of reading, and the workspace.
type ReaderKey = (AuditActor, Option<Box<str>>, ReadingKind, Option<WorkspaceId>);

/// The readers of repeated readings, with the time of their last record.
///
/// Only the first reading of an hour is recorded: each record is a commit that a backup has to
/// follow.
#[derive(Debug, Default)]
pub(crate) struct Readings(Mutex<HashMap<ReaderKey, Timestamp>>);

impl Readings {
    /// Records a reading that starts now. The record is durable when this returns.
    ///
    /// # Errors
    /// [`Unavailable`]: the record could not be written, so the data must not be read either.
    pub(crate) async fn record(
        &self,
        engine: &Engine,
        by: &AuditContext,
        reading: ReadingKind,
        workspace: Option<&WorkspaceId>,
    ) -> Result<(), Unavailable> {
        let now = engine.clock().now();
        let since = now.minus(READ_AGAIN);
        let reader = (by.actor.clone(), by.address.clone(), reading, workspace.cloned());
        let mut known = self.0.lock().await;
        known.retain(|_, at| *at > since && *at <= now);
        if known.contains_key(&reader) {
            return Ok(());
        }
        let entry = reading.entry();
        let entry = workspace.into_iter().fold(entry, AuditEntry::workspace);
        engine.audit().record_reading(by, entry).await?;
        if reading.is_repeated() {
            known.insert(reader, now);
        }
        Ok(())
    }
}
