//! Delivers the sandbox's own reports to workspaces, like a channel's callbacks.

use std::collections::BTreeMap;
use std::sync::Arc;

use postrider_channel::callback::Callback;
use postrider_channel::sandbox::{DueReports, Sandbox};
use postrider_workspace::Workspace;
use postrider_workspace::services::Services;

/// The maximum number of messages of a workspace that are reported at a time.
const REPORTS_MAX: usize = 500;

/// Starts to deliver reports, until the engine has stopped.
pub(super) fn begin(sandbox: &Arc<Sandbox>, shared: &Arc<Services>) {
    let due = sandbox.reports_are_due();
    let (sandbox, shared) = (Arc::downgrade(sandbox), Arc::downgrade(shared));
    drop(tokio::spawn(async move {
        loop {
            due.notified().await;
            let (Some(sandbox), Some(shared)) = (sandbox.upgrade(), shared.upgrade()) else {
                return;
            };
            loop {
                let all = sandbox.take_due(REPORTS_MAX);
                if all.is_empty() {
                    break;
                }
                for reports in all {
                    report(&sandbox, &shared, reports).await;
                }
            }
        }
    }));
}

async fn report(sandbox: &Sandbox, shared: &Arc<Services>, reports: DueReports) {
    // A deleted workspace reads no reports.
    let Some(slot) = shared.workspaces.slot(&reports.workspace) else { return };
    let workspace = Workspace::new(Arc::clone(shared), slot);
    let now = shared.clock.now();
    let mut callbacks: BTreeMap<_, Callback> = BTreeMap::new();
    for (_, through) in &reports.messages {
        let callback = callbacks.entry(through.number).or_default();
        callback.statuses.push(through.report(reports.progress.clone(), now));
    }
    for (number, callback) in callbacks {
        if let Err(error) = workspace.receive(number, callback).await {
            tracing::warn!(workspace = %reports.workspace, %error, "a sandbox's report is lost");
            return;
        }
    }
    let messages = reports.messages.into_iter().map(|(message, _)| message);
    sandbox.note_reported(&reports.workspace, messages, reports.status);
}
