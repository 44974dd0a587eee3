//! One task of the engine opens the gates of all workspaces.
//!
//! When a group is durable, this task sends the answers that waited for it. They do not wait behind
//! the commands in their actor's mailbox. The actor is notified of the group afterwards.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use postrider_number::Numbers;
use postrider_store::{CommitError, GroupNumber};

use crate::mailbox::output_gate::SharedHeld;

/// The maximum number of releases that are taken at once.
const TAKEN_MAX: usize = 64;

/// Notifies an actor of a group's result.
pub(crate) type Notify = Arc<dyn Fn(GroupNumber, Result<(), CommitError>) + Send + Sync>;

/// The result of a group with changes of a workspace.
pub(crate) struct Release {
    pub(crate) held: SharedHeld,
    pub(crate) notify: Notify,
    pub(crate) group: GroupNumber,
    pub(crate) result: Result<(), CommitError>,
}

/// A handle of the task, which ends when the last handle is dropped.
///
/// Its queue is bounded by the writer's queue: one release for each workspace in a group.
#[derive(Debug, Clone)]
pub struct Releaser(UnboundedSender<Release>);

impl Releaser {
    /// Starts the task. The caller must be on the runtime.
    #[must_use]
    pub fn start(numbers: Arc<Numbers>) -> Self {
        let (sender, releases) = unbounded_channel();
        drop(tokio::spawn(run(releases, numbers)));
        Self(sender)
    }

    /// Opens a gate, or notifies its actor of a failure. Does not block.
    pub(crate) fn release(&self, release: Release) {
        // The task ends after the last sender, or with the runtime, when no caller is left.
        drop(self.0.send(release));
    }
}

async fn run(mut releases: UnboundedReceiver<Release>, numbers: Arc<Numbers>) {
    let mut taken = Vec::with_capacity(TAKEN_MAX);
    while releases.recv_many(&mut taken, TAKEN_MAX).await > 0 {
        for Release { held, notify, group, result } in taken.drain(..) {
            if result.is_ok() {
                let open = || held.lock().open(group, |messages| numbers.dispatch(messages));
                // A panic in one workspace must not stop the answers of the others.
                if catch_unwind(AssertUnwindSafe(open)).is_err() {
                    tracing::error!("an answer panicked while it was given");
                }
            }
            // This follows the opening, so that a failure only fails the rest.
            notify(group, result);
        }
    }
}
