//! Reports the progress of broadcasts on the event stream, without entries in the log.

use postrider_actors::domain::{BroadcastId, PublicEvent};
use postrider_actors::{Progress, Watched, Workspace};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::watch;

/// The type of the progress events.
pub(super) const KIND: &str = "broadcast.progress";

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
        news.into_iter().map(|(id, progress)| message(*id, progress)).collect()
    }
}

/// Returns the broadcast whose status an event reports.
pub(super) fn about(event: &PublicEvent) -> Option<BroadcastId> {
    if !event.kind().starts_with("broadcast.") {
        return None;
    }
    event.data()["broadcast_id"].as_str()?.parse().ok()
}

fn message(id: BroadcastId, progress: &Progress) -> String {
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
    format!("event: {KIND}\ndata: {data}\n\n")
}
