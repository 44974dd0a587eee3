//! Stops the engine in the order of dependence.
//!
//! First no new work is accepted, then the channels stop, then the workspaces, then the store.

use std::time::Duration;

use tokio::sync::oneshot;

use postrider_broadcast::FanoutMessage;
use postrider_number::NumberMessage;
use postrider_runtime::clock::Stopwatch;
use postrider_workspace::mailbox::message::WorkspaceMessage;

use super::Inner;
use postrider_workspace::services::Services;

/// Why a shutdown was not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ShutdownError {
    /// The time was over before everything under way was finished. What was acknowledged is
    /// durable; what was not answered is unknown to its caller.
    #[error("not everything under way was finished within the time given")]
    TimedOut,
}

/// Of the time given, the share for messages that are with the channel: they are durable and go
/// out again after the next start, so they do not take the rest's time.
const CHANNEL_SHARE: u32 = 2;

pub(super) async fn stop(inner: &Inner, grace: Duration) -> Result<(), ShutdownError> {
    let watch = Stopwatch::start();
    // One that is being made is given up.
    inner.checkpoints.iter().for_each(|it| it.end());
    let in_time = tokio::time::timeout(grace, finish(inner, grace)).await;
    let left = grace.saturating_sub(watch.elapsed()).max(Duration::from_secs(1));
    let (writer, checkpoints) = (inner.shared.writer.clone(), inner.checkpoints.clone());
    let stopped = async {
        inner.access.checkpoint().await;
        if let Err(error) = inner.audit.record_stop().await {
            tracing::warn!(%error, "the stop was not recorded in the audit log");
        }
        // It blocks until the last group is durable.
        let ended = move || {
            writer.stop();
            checkpoints.iter().for_each(|it| it.join());
        };
        tokio::task::spawn_blocking(ended).await
    };
    let stopped = tokio::time::timeout(left, stopped).await;
    // By now there is nothing that a child could lose.
    inner.root.kill();
    match (in_time, stopped) {
        (Ok(()), Ok(_)) => Ok(()),
        _ => Err(ShutdownError::TimedOut),
    }
}

/// Notifies every broadcast that runs, and waits for their answers.
async fn all(shared: &Services, message: impl Fn(oneshot::Sender<()>) -> FanoutMessage) {
    let asked = std::cell::RefCell::new(Vec::new());
    shared.broadcasts.cast_all_live(|| {
        let (done, answer) = oneshot::channel();
        asked.borrow_mut().push(answer);
        message(done)
    });
    for answer in asked.into_inner() {
        // Dropped unanswered: it does not run.
        drop(answer.await);
    }
}

async fn finish(inner: &Inner, grace: Duration) {
    let shared = &inner.shared;
    // What becomes of a mail is noted by a command, so this comes first.
    drop(tokio::time::timeout(grace / CHANNEL_SHARE, shared.mailer.stop()).await);
    shared.admission.drain().await;
    // Nothing more of a broadcast is handed over.
    all(shared, FanoutMessage::Halt).await;
    let numbers = async {
        let mut draining = Vec::new();
        for actor in shared.numbers.live() {
            let (done, drained) = oneshot::channel();
            if actor.cast(NumberMessage::Drain(done)).is_ok() {
                draining.push(drained);
            }
        }
        for drained in draining {
            // Dropped unanswered: it has ended, and so is what it waited for.
            drop(drained.await);
        }
    };
    // A slow channel or endpoint is not waited for to the end: what it has is durable.
    let wait = grace / CHANNEL_SHARE;
    let webhooks = tokio::time::timeout(wait, shared.webhooks.drain());
    let (drained, _) = tokio::join!(tokio::time::timeout(wait, numbers), webhooks);
    let drained = drained.is_ok();
    all(shared, |done| FanoutMessage::Flush { drained, done }).await;
    for slot in shared.workspaces.slots() {
        if let Some(actor) = slot.live() {
            let (done, settled) = oneshot::channel();
            if actor.cast(WorkspaceMessage::Barrier(done)).is_ok() {
                // Dropped unanswered: its commit failed, and those who waited were answered.
                drop(settled.await);
            }
        }
    }
}
