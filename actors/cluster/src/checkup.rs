//! The thread that checks again and again whether the NATS servers meet the requirements.
//!
//! It owns the problem that the last check found. A problem stops nothing: acknowledged data would
//! be no safer without the node. But somebody must be notified.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use parking_lot::Mutex;

use crate::cluster_record::Access;
use crate::nats::NatsStream;
use crate::nats::preflight::{Monitor, NatsFacts, PreflightError, preflight};

/// The time between two checks.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The problem that the last check found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Checkup(Arc<Mutex<Option<String>>>);

impl Checkup {
    pub(crate) fn problem(&self) -> Option<String> {
        self.0.lock().clone()
    }

    /// Records the result of a check, and logs it if it has changed.
    fn note(&self, found: Result<NatsFacts, PreflightError>) {
        let problem = match found {
            Ok(facts) if facts.silent.is_empty() => None,
            Ok(facts) => Some(format!("NATS does not answer at {}", facts.silent.join("; "))),
            Err(error) => Some(error.to_string()),
        };
        let before = std::mem::replace(&mut *self.0.lock(), problem.clone());
        match problem {
            Some(problem) if before.as_ref() != Some(&problem) => {
                tracing::warn!(problem, "the NATS servers are not what they must be");
            }
            None if before.is_some() => {
                tracing::info!("the NATS servers are again what they must be");
            }
            _ => {}
        }
    }
}

/// The targets of the checks. They hold nothing of the node, which does not wait for a check to
/// end.
pub(crate) struct Looks {
    pub(crate) access: Access,
    pub(crate) streams: Vec<Arc<NatsStream>>,
    pub(crate) monitor: Box<dyn Monitor + Send>,
    pub(crate) checkup: Checkup,
}

/// Fetches no page once the node has stopped: the monitor's runtime may have ended.
struct WhileItRuns<'a> {
    monitor: &'a dyn Monitor,
    node: &'a Receiver<Infallible>,
}

impl Monitor for WhileItRuns<'_> {
    fn page(&self, url: &str) -> Result<String, String> {
        match self.node.try_recv() {
            Err(TryRecvError::Empty) => self.monitor.page(url),
            Ok(_) | Err(TryRecvError::Disconnected) => Err("the node has stopped".to_owned()),
        }
    }
}

/// Runs until the node has dropped the sender.
pub(crate) fn run(looks: &Looks, node: &Receiver<Infallible>) {
    let streams: Vec<_> = looks.streams.iter().map(Arc::as_ref).collect();
    let monitor = WhileItRuns { monitor: &*looks.monitor, node };
    while node.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
        let Access { nats, requirements, .. } = &looks.access;
        let found = preflight(nats, requirements, &streams, &monitor);
        if node.try_recv() == Err(TryRecvError::Disconnected) {
            return;
        }
        looks.checkup.note(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nats::NatsError;

    #[test]
    fn what_the_last_look_found_is_the_problem() {
        let checkup = Checkup::default();
        checkup.note(Ok(NatsFacts::default()));
        assert_eq!(checkup.problem(), None);
        checkup.note(Err(PreflightError::NotSynced("n1 does not sync always".to_owned())));
        let problem = checkup.problem().unwrap();
        assert!(problem.starts_with("NATS_NOT_SYNCED: n1 does not"), "{problem}");
        checkup.note(Err(NatsError::Unreachable("n1".to_owned()).into()));
        assert!(checkup.problem().unwrap().starts_with("NATS_UNREACHABLE"));
        // One silent server of several does not stop the node, but it is reported.
        let silent = vec!["nats://n2: no answer in time".to_owned()];
        checkup.note(Ok(NatsFacts { silent, ..NatsFacts::default() }));
        let problem = checkup.problem().unwrap();
        assert_eq!(problem, "NATS does not answer at nats://n2: no answer in time");
        checkup.note(Ok(NatsFacts::default()));
        assert_eq!(checkup.problem(), None);
    }
}
