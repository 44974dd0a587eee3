//! Records in the audit log who reads everything of a kind.

use std::collections::HashMap;
use std::time::Duration;

use postrider_actors::Engine;
use postrider_actors::domain::unavailable::Unavailable;
use postrider_actors::domain::{AuditActor, AuditContext, AuditEntry, Timestamp, WorkspaceId};
use tokio::sync::Mutex;

/// For how long another reading is not recorded.
const READ_AGAIN: Duration = Duration::from_secs(3600);

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reading {
    /// Everything at one position.
    Archive,
    /// The log from its beginning.
    WholeLog,
    /// What was committed after a position.
    Log,
    /// Contents of media files, or their list.
    Files,
    /// All contacts of a workspace.
    Contacts,
    /// The event log of a workspace.
    Events,
    /// The recipients of a broadcast.
    Recipients,
}

impl Reading {
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
        }
    }

    /// Whether programs read it again and again: a backup follows the log each second.
    const fn is_repeated(self) -> bool {
        matches!(self, Self::Log | Self::Files | Self::Events | Self::Recipients)
    }
}

/// Who reads what, from which address, of which workspace.
type Reader = (AuditActor, Option<Box<str>>, Reading, Option<WorkspaceId>);

/// Who has read what is read again and again, and when that was recorded last: of these the first
/// reading of an hour is recorded. Each record is a commit that a backup has to follow.
#[derive(Debug, Default)]
pub(crate) struct Readings(Mutex<HashMap<Reader, Timestamp>>);

impl Readings {
    /// Records a reading that begins now. Durable when this returns.
    ///
    /// # Errors
    /// [`Unavailable`]: not now, so nothing is to be read either.
    pub(crate) async fn record(
        &self,
        engine: &Engine,
        by: &AuditContext,
        reading: Reading,
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
