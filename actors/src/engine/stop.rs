//! Stops the engine in the order of dependence.
//!
//! First no new work is accepted. Then the channels stop, then the workspaces, then the store.

use std::time::Duration;

use tokio::sync::oneshot;

use postrider_broadcast::FanoutMessage;
use postrider_number::NumberMessage;
use postrider_runtime::clock::Stopwatch;
use postrider_workspace::mailbox::message::WorkspaceMessage;

use super::Inner;
use postrider_workspace::services::Services;

/// The reason for which a shutdown was not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ShutdownError {
    /// The time ended before all work in progress was finished. Acknowledged changes are durable;
    /// the outcome of unanswered calls is unknown to their callers.
    #[error("not everything under way was finished within the time given")]
    TimedOut,
}

/// The share of the time for messages that are with the channel. They are durable and are sent
/// again after the next start, so they do not take the rest's time.
const CHANNEL_SHARE: u32 = 2;

pub(super) async fn stop(inner: &Inner, grace: Duration) -> Result<(), ShutdownError> {
    let watch = Stopwatch::start();
    // A checkpoint in progress is abandoned.
    inner.checkpoints.iter().for_each(|it| it.end());
    let in_time = tokio::time::timeout(grace, finish_work(inner, grace)).await;
    let left = grace.saturating_sub(watch.elapsed()).max(Duration::from_secs(1));
    let (writer, checkpoints) = (inner.shared.writer.clone(), inner.checkpoints.clone());
    let stopped = async {
        inner.access.save_use().await;
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
    // By now no child could lose anything.
    inner.root.kill();
    match (in_time, stopped) {
        (Ok(()), Ok(_)) => Ok(()),
        _ => Err(ShutdownError::TimedOut),
    }
}

/// Notifies every broadcast that runs, and waits for their answers.
async fn notify_broadcasts(
    shared: &Services,
    message: impl Fn(oneshot::Sender<()>) -> FanoutMessage,
) {
    let asked = std::cell::RefCell::new(Vec::new());
    shared.broadcasts.cast_all_live(|| {
        let (done, answer) = oneshot::channel();
        asked.borrow_mut().push(answer);
        message(done)
    });
    for answer in asked.into_inner() {
        // No answer came: it does not run.
        drop(answer.await);
    }
}

async fn finish_work(inner: &Inner, grace: Duration) {
    let shared = &inner.shared;
    // The outcome of a mail is recorded by a command, so this comes first.
    drop(tokio::time::timeout(grace / CHANNEL_SHARE, shared.mailer.stop()).await);
    shared.admission.drain().await;
    // Broadcasts dispatch nothing more.
    notify_broadcasts(shared, FanoutMessage::Halt).await;
    let numbers = async {
        let mut draining = Vec::new();
        for actor in shared.numbers.live() {
            let (done, drained) = oneshot::channel();
            if actor.cast(NumberMessage::Drain(done)).is_ok() {
                draining.push(drained);
            }
        }
        for drained in draining {
            // No answer came: it has ended, and so has its work.
            drop(drained.await);
        }
    };
    // The stop does not wait for a slow channel or endpoint to the end: its messages are durable.
    let wait = grace / CHANNEL_SHARE;
    let webhooks = tokio::time::timeout(wait, shared.webhooks.drain());
    let (drained, _) = tokio::join!(tokio::time::timeout(wait, numbers), webhooks);
    let drained = drained.is_ok();
    notify_broadcasts(shared, |done| FanoutMessage::Flush { drained, done }).await;
    for slot in shared.workspaces.slots() {
        if let Some(actor) = slot.live() {
            let (done, settled) = oneshot::channel();
            if actor.cast(WorkspaceMessage::Barrier(done)).is_ok() {
                // No answer came: its commit failed, and its callers were answered.
                drop(settled.await);
            }
        }
    }
}
