//! Reports on the event stream what has no entry in the log: progress of broadcasts, and signs.
//!
//! The signs are those of agents in conversations.

use postrider_actors::domain::{AuditActor, BroadcastId, PublicEvent};
use postrider_actors::{ConversationAct, ConversationSign, Progress, Watched, Workspace};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::watch;

pub(super) const TYPING: &str = "conversation.typing";
pub(super) const NOTED: &str = "conversation.noted";
/// The type of the progress events.
pub(super) const PROGRESS: &str = "broadcast.progress";

/// The signs that a stream emits.
pub(super) struct SignFeed {
    signs: Receiver<ConversationSign>,
    /// The types that are asked for.
    kinds: Vec<&'static str>,
}

impl SignFeed {
    pub(super) fn of(workspace: &Workspace, kinds: Vec<&'static str>) -> Self {
        Self { signs: workspace.watch_signs(), kinds }
    }

    /// Returns the next sign as a message of the stream.
    pub(super) async fn next(&mut self) -> String {
        loop {
            match self.signs.recv().await {
                Ok(sign) => match self.message(&sign) {
                    Some(message) => return message,
                    None => continue,
                },
                // Signs are short-lived, so missed ones do not matter.
                Err(RecvError::Lagged(_)) => {}
                // The workspace was removed, so no sign can come any more.
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// Returns the signs that have come already, as messages of the stream.
    pub(super) fn take(&mut self) -> String {
        let mut text = String::new();
        loop {
            match self.signs.try_recv() {
                Ok(sign) => text.extend(self.message(&sign)),
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return text,
            }
        }
    }

    fn message(&self, sign: &ConversationSign) -> Option<String> {
        let kind = match sign.act {
            ConversationAct::Typing => TYPING,
            ConversationAct::Noted => NOTED,
        };
        let AuditActor { kind: is, id, name } = &sign.author;
        let data = json!({
            "conversation_id": sign.conversation.to_string(),
            "user": {"kind": is.as_str(), "id": id, "name": name.as_deref().unwrap_or_default()},
        });
        self.kinds.contains(&kind).then(|| format!("event: {kind}\ndata: {data}\n\n"))
    }
}

/// The progress of broadcasts that a stream emits.
pub(super) struct ProgressFeed {
    newest: watch::Receiver<Watched>,
    /// The highest version that was emitted.
    emitted: u64,
}

#[derive(Serialize)]
struct ProgressRow {
    broadcast_id: String,
    status: &'static str,
    total_recipients: u32,
    counts: Map<String, Value>,
    rate_per_second: f64,
    eta_seconds: Option<u64>,
}

impl ProgressFeed {
    pub(super) fn of(workspace: &Workspace) -> Self {
        Self { newest: workspace.watch_broadcasts(), emitted: 0 }
    }

    /// Returns when there is new progress to report.
    pub(super) async fn changed(&mut self) {
        if self.newest.changed().await.is_err() {
            // The workspace was removed, so nothing can change any more.
            std::future::pending::<()>().await;
        }
    }

    /// Returns the progress that changed since the last call, as messages of the stream.
    pub(super) fn take(&mut self) -> String {
        let newest = self.newest.borrow_and_update().clone();
        let mut news: Vec<_> = newest.iter().filter(|(_, it)| it.version > self.emitted).collect();
        news.sort_unstable_by_key(|(_, it)| it.version);
        self.emitted = news.last().map_or(self.emitted, |(_, it)| it.version);
        news.into_iter().map(|(id, progress)| progress_message(*id, progress)).collect()
    }
}

/// Returns the broadcast whose status an event reports.
pub(super) fn reported_broadcast(event: &PublicEvent) -> Option<BroadcastId> {
    if !event.kind().starts_with("broadcast.") {
        return None;
    }
    event.data()["broadcast_id"].as_str()?.parse().ok()
}

fn progress_message(id: BroadcastId, progress: &Progress) -> String {
    let counts = progress.counts.iter().map(|(name, count)| ((*name).to_owned(), (*count).into()));
    let row = ProgressRow {
        broadcast_id: id.to_string(),
        status: progress.status.as_str(),
        total_recipients: progress.total_recipients,
        counts: counts.collect(),
        rate_per_second: progress.rate_per_second,
        eta_seconds: progress.eta_seconds,
    };
    // A struct of texts and numbers always has a JSON form, and that has no line break.
    let data = serde_json::to_string(&row).unwrap_or_default();
    format!("event: {PROGRESS}\ndata: {data}\n\n")
}
