//! Who watches how the broadcasts of a workspace come along, and what was published last.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use postrider_broadcast::record::BroadcastStatus;
use postrider_domain::BroadcastId;
use tokio::sync::{Notify, watch};

/// How a broadcast comes along.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Grows with each change of anything that is published.
    pub version: u64,
    /// Where it stands.
    pub status: BroadcastStatus,
    /// Its recipients.
    pub total_recipients: u32,
    /// What became of them, by the words of all eight statuses: they add up to all.
    pub counts: [(&'static str, u32); 8],
    /// Answers a second since it began.
    pub rate_per_second: f64,
    /// When it is over at this rate; `None`: it is not known.
    pub eta_seconds: Option<u64>,
}

/// The newest counts of all broadcasts that are watched.
pub type Watched = Arc<BTreeMap<BroadcastId, Progress>>;

/// Who watches the broadcasts of one workspace.
#[derive(Debug)]
pub(crate) struct Watching {
    pub(crate) newest: watch::Sender<Watched>,
    /// Whether the task that counts runs.
    pub(crate) runs: Mutex<bool>,
    /// Broadcasts that have changed their status, of which that is not published yet.
    pub(crate) changed: Mutex<BTreeSet<BroadcastId>>,
    /// There is one.
    pub(crate) hurry: Notify,
}

impl Default for Watching {
    fn default() -> Self {
        let (newest, _) = watch::channel(Watched::default());
        let (runs, changed) = (Mutex::new(false), Mutex::default());
        Self { newest, runs, changed, hurry: Notify::new() }
    }
}
