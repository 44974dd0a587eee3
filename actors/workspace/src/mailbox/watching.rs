//! The watchers of a workspace: the progress of its broadcasts, and people's acts in conversations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use postrider_broadcast::record::BroadcastStatus;
use postrider_domain::{AuditActor, BroadcastId, ConversationId};
use tokio::sync::{Notify, broadcast, watch};

/// The number of statuses of a broadcast's recipients.
pub const STATUSES: usize = 9;

/// The progress of a broadcast.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Grows with each change of a published value.
    pub version: u64,
    /// The status of the broadcast.
    pub status: BroadcastStatus,
    /// The number of its recipients.
    pub total_recipients: u32,
    /// The number of recipients by the words of all statuses; together they are all recipients.
    pub counts: [(&'static str, u32); STATUSES],
    /// The answers per second since it started.
    pub rate_per_second: f64,
    /// The remaining seconds at this rate; `None`: unknown.
    pub eta_seconds: Option<u64>,
}

/// The newest counts of all broadcasts that are watched.
pub type Watched = Arc<BTreeMap<BroadcastId, Progress>>;

/// The maximum number of signs that wait for a slow reader, which loses older ones.
const SIGNS_MAX: usize = 32;

/// A person's act in a conversation, which is transient and in no log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationSign {
    /// The conversation.
    pub conversation: ConversationId,
    /// The act.
    pub act: ConversationAct,
    /// The person.
    pub author: AuditActor,
}

/// A person's act in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConversationAct {
    /// The person writes an answer.
    Typing,
    /// The person has added a note.
    Noted,
}

/// The signs of a workspace. Most workspaces have no watcher, and then no channel.
#[derive(Debug, Default)]
pub(crate) struct Signs(OnceLock<broadcast::Sender<ConversationSign>>);

impl Signs {
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<ConversationSign> {
        self.0.get_or_init(|| broadcast::channel(SIGNS_MAX).0).subscribe()
    }

    /// Notifies the current watchers, if there are any.
    pub(crate) fn send(&self, sign: ConversationSign) {
        if let Some(sender) = self.0.get() {
            drop(sender.send(sign));
        }
    }
}

/// The watchers of one workspace.
#[derive(Debug)]
pub(crate) struct Watching {
    pub(crate) newest: watch::Sender<Watched>,
    /// Set while the counting task runs.
    pub(crate) runs: Mutex<bool>,
    /// Broadcasts whose change of status is not published yet.
    pub(crate) changed: Mutex<BTreeSet<BroadcastId>>,
    /// Notified when there is one.
    pub(crate) hurry: Notify,
    pub(crate) signs: Signs,
    /// The lock of the task that changes many contacts.
    pub(crate) changes: Arc<tokio::sync::Mutex<()>>,
}

impl Default for Watching {
    fn default() -> Self {
        let (newest, _) = watch::channel(Watched::default());
        let (runs, changed) = (Mutex::new(false), Mutex::default());
        Self {
            newest,
            runs,
            changed,
            hurry: Notify::new(),
            signs: Signs::default(),
            changes: Arc::default(),
        }
    }
}
