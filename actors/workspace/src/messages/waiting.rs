//! The channel through which a caller waits for the outcome of its message.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot;

use crate::core::waiters::{OutcomeWaiter, Settled, Waiter};

/// The end of the channel that the actor holds.
#[derive(Debug)]
struct Caller {
    sender: oneshot::Sender<Settled>,
    /// Set once it is decided that the caller gets the outcome, or that it has given up.
    decided: Arc<AtomicBool>,
}

/// The end of the channel that the caller holds.
pub(crate) struct Waiting {
    receiver: oneshot::Receiver<Settled>,
    decided: Arc<AtomicBool>,
}

/// Creates a caller that will wait, and its sender.
pub(crate) fn waiter(kept_under: Option<Vec<u8>>) -> (Waiter, Waiting) {
    let (sender, receiver) = oneshot::channel();
    let decided = Arc::new(AtomicBool::new(false));
    let caller = Box::new(Caller { sender, decided: Arc::clone(&decided) });
    (Waiter { caller, kept_under }, Waiting { receiver, decided })
}

impl OutcomeWaiter for Caller {
    fn is_waiting(&self) -> bool {
        !self.decided.load(Ordering::Acquire) && !self.sender.is_closed()
    }

    fn decide(&self) -> bool {
        // A caller that does not wait has given up too.
        !self.sender.is_closed() && !self.decided.swap(true, Ordering::AcqRel)
    }

    fn resolve(self: Box<Self>, settled: Settled) {
        // Nothing is sent if the caller does not wait any more.
        self.sender.send(settled).ok();
    }
}

impl Waiting {
    /// Returns the outcome, if it comes before `patience` is over.
    ///
    /// An outcome on its way by then is awaited: it only has to become durable.
    pub(crate) async fn settled(mut self, patience: impl Future<Output = ()>) -> Option<Settled> {
        tokio::select! {
            biased;
            // Nothing is sent when the answer was given before, or when the workspace restarts.
            settled = &mut self.receiver => settled.ok(),
            () = patience => {
                let decided = self.decided.swap(true, Ordering::AcqRel);
                if decided { self.receiver.await.ok() } else { None }
            }
        }
    }
}
