//! Who watches a workspace: how its broadcasts come along, and what people do in conversations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use postrider_broadcast::record::BroadcastStatus;
use postrider_domain::{AuditActor, BroadcastId, ConversationId};
use tokio::sync::{Notify, broadcast, watch};

/// How many statuses a recipient of a broadcast may have.
pub const STATUSES: usize = 9;

/// How a broadcast comes along.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Grows with each change of anything that is published.
    pub version: u64,
    /// Where it stands.
    pub status: BroadcastStatus,
    /// Its recipients.
    pub total_recipients: u32,
    /// What became of them, by the words of all statuses: they add up to all.
    pub counts: [(&'static str, u32); STATUSES],
    /// Answers a second since it began.
    pub rate_per_second: f64,
    /// When it is over at this rate; `None`: it is not known.
    pub eta_seconds: Option<u64>,
}

/// The newest counts of all broadcasts that are watched.
pub type Watched = Arc<BTreeMap<BroadcastId, Progress>>;

/// Signs that wait for who reads slowly; older ones are lost to them.
const SIGNS_MAX: usize = 32;

/// What somebody does in a conversation, which passes and is in no log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationSign {
    /// The conversation.
    pub conversation: ConversationId,
    /// What they do.
    pub act: ConversationAct,
    /// Who.
    pub author: AuditActor,
}

/// What somebody does in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConversationAct {
    /// They write an answer.
    Typing,
    /// They have added a note.
    Noted,
}

/// The signs of a workspace. Most are watched by nobody, and have no channel then.
#[derive(Debug, Default)]
pub(crate) struct Signs(OnceLock<broadcast::Sender<ConversationSign>>);

impl Signs {
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<ConversationSign> {
        self.0.get_or_init(|| broadcast::channel(SIGNS_MAX).0).subscribe()
    }

    /// Notifies whoever watches now, if somebody does.
    pub(crate) fn send(&self, sign: ConversationSign) {
        if let Some(sender) = self.0.get() {
            drop(sender.send(sign));
        }
    }
}

/// Who watches one workspace.
#[derive(Debug)]
pub(crate) struct Watching {
    pub(crate) newest: watch::Sender<Watched>,
    /// Whether the task that counts runs.
    pub(crate) runs: Mutex<bool>,
    /// Broadcasts that have changed their status, of which that is not published yet.
    pub(crate) changed: Mutex<BTreeSet<BroadcastId>>,
    /// There is one.
    pub(crate) hurry: Notify,
    pub(crate) signs: Signs,
    /// Held by the task that changes many contacts.
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
