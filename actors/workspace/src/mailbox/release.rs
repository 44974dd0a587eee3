//! One task of the engine opens the gates of all workspaces.
//!
//! When a group is durable, the answers that waited for it go out from here, and not behind the
//! commands in the mailbox of their actor. The actor hears of the group afterwards.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use postrider_number::Numbers;
use postrider_store::{CommitError, GroupNumber};

use crate::mailbox::output_gate::SharedHeld;

/// Most releases that are taken at once.
const TAKEN_MAX: usize = 64;

/// Notifies an actor of a group's result.
pub(crate) type Notify = Arc<dyn Fn(GroupNumber, Result<(), CommitError>) + Send + Sync>;

/// What became of a group in which a workspace had something.
pub(crate) struct Release {
    pub(crate) held: SharedHeld,
    pub(crate) notify: Notify,
    pub(crate) group: GroupNumber,
    pub(crate) result: Result<(), CommitError>,
}

/// The way to the task. It is bounded by the writer's queue: one release for each workspace in a
/// group. The task ends when the last handle is dropped.
#[derive(Debug, Clone)]
pub struct Releaser(UnboundedSender<Release>);

impl Releaser {
    /// Starts the task. It must be called on the runtime.
    #[must_use]
    pub fn start(numbers: Arc<Numbers>) -> Self {
        let (sender, releases) = unbounded_channel();
        drop(tokio::spawn(run(releases, numbers)));
        Self(sender)
    }

    /// Has a gate opened, or its actor notified of a failure. Does not block.
    pub(crate) fn release(&self, release: Release) {
        // The task ends after the last sender, or with the runtime, when nobody waits any more.
        drop(self.0.send(release));
    }
}

async fn run(mut releases: UnboundedReceiver<Release>, numbers: Arc<Numbers>) {
    let mut taken = Vec::with_capacity(TAKEN_MAX);
    while releases.recv_many(&mut taken, TAKEN_MAX).await > 0 {
        for Release { held, notify, group, result } in taken.drain(..) {
            if result.is_ok() {
                let open = || held.lock().open(group, |messages| numbers.dispatch(messages));
                // Other workspaces' answers must go out whatever one of them does.
                if catch_unwind(AssertUnwindSafe(open)).is_err() {
                    tracing::error!("an answer panicked while it was given");
                }
            }
            // Behind the opening, so that a failure fails what is left only.
            notify(group, result);
        }
    }
}
