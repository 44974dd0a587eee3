//! Pure: the progress of requests' chains, as the journal has it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use postrider_domain::event::chain::{ChainPlan, ChainStep, OtpChannel, TryStatus};
use postrider_domain::event::{EventDecodeError, encode};
use postrider_domain::{RequestId, Timestamp};

/// One try to bring a code to its person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Try {
    pub(crate) step: ChainStep,
    pub(crate) status: TryStatus,
    /// The channel's error code, if it gave one.
    pub(crate) error: Option<u32>,
    /// The price paid for it; 0 once that was given back.
    pub(crate) price: u64,
    pub(crate) started_at: Timestamp,
    /// The time at which the chain went on from it, or ended.
    pub(crate) ended_at: Option<Timestamp>,
}

/// A request's plan, and its progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Chain {
    pub(crate) plan: ChainPlan,
    /// The request's own steps, which a resend goes over unless it names a channel.
    pub(crate) steps: Vec<ChainStep>,
    /// The number of steps of the plan that were started or skipped.
    pub(crate) begun: u8,
    /// The tries of all plans that the request has had, in order.
    pub(crate) tries: Vec<Try>,
    /// The time at which the step under way has had its time.
    pub(crate) due: Option<Timestamp>,
    /// Set if a try was reported to have arrived since the plan was set.
    arrived: bool,
}

impl Chain {
    /// Returns the next step.
    pub(crate) fn next(&self) -> Option<ChainStep> {
        self.plan.steps.get(usize::from(self.begun)).copied()
    }

    /// Returns the channels after the step that would start now.
    pub(crate) fn further(&self) -> impl Iterator<Item = OtpChannel> {
        self.plan.steps.iter().skip(usize::from(self.begun) + 1).map(|step| step.channel)
    }

    /// Returns the best outcome of a try; queued while none was started.
    pub(crate) fn best(&self) -> TryStatus {
        let statuses = self.tries.iter().map(|it| it.status);
        statuses.reduce(TryStatus::best).unwrap_or(TryStatus::Queued)
    }

    /// Returns the best outcome of a try that went to the phone; `None` while none was started.
    pub(crate) fn best_to_phone(&self) -> Option<TryStatus> {
        let went =
            |it: &&Try| it.step.channel != OtpChannel::Email && it.status != TryStatus::Skipped;
        self.tries.iter().filter(went).map(|it| it.status).reduce(TryStatus::best)
    }

    /// Returns the number of tries that a channel to the phone has taken.
    pub(crate) fn sent_to_phone(&self) -> u8 {
        use TryStatus::{Failed, Queued, Skipped};
        let went = |it: &&Try| {
            it.step.channel != OtpChannel::Email && !matches!(it.status, Queued | Skipped | Failed)
        };
        u8::try_from(self.tries.iter().filter(went).count()).unwrap_or(u8::MAX)
    }

    /// Returns whether the code is known to have arrived since it was last sent.
    pub(crate) fn has_arrived(&self) -> bool {
        self.arrived
    }

    /// Returns the number of the newest try.
    pub(crate) fn newest(&self) -> u8 {
        u8::try_from(self.tries.len()).unwrap_or(u8::MAX)
    }

    /// Returns the try of this number, from 1.
    pub(crate) fn at(&self, number: u8) -> Option<&Try> {
        self.tries.get(usize::from(number).checked_sub(1)?)
    }
}

/// A change of one try.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TryChange {
    pub(crate) number: u8,
    pub(crate) status: TryStatus,
    pub(crate) error: Option<u32>,
    pub(crate) at: Timestamp,
    /// Set if the chain goes on from the try, or is at its end.
    pub(crate) ended: bool,
}

/// The chains of all requests that have one.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    by_id: BTreeMap<RequestId, Chain>,
    due: BTreeSet<(Timestamp, RequestId)>,
    /// Tries by SMS and mail that were claimed and have no outcome.
    open: BTreeSet<(RequestId, u8)>,
    /// The open tries that were handed to step workers since the workspace was loaded.
    handed: BTreeSet<(RequestId, u8)>,
}

impl Chains {
    pub(crate) fn get(&self, id: RequestId) -> Option<&Chain> {
        self.by_id.get(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (RequestId, &Chain)> {
        self.by_id.iter().map(|(id, chain)| (*id, chain))
    }

    /// Sets the plan of the request's code from now on.
    pub(crate) fn plan(&mut self, id: RequestId, plan: ChainPlan) {
        self.set_due(id, None);
        let steps = plan.steps.clone();
        let fresh = || Chain {
            plan: plan.clone(),
            steps: steps.clone(),
            begun: 0,
            tries: Vec::new(),
            due: None,
            arrived: false,
        };
        let chain = self.by_id.entry(id).or_insert_with(fresh);
        if !plan.only {
            chain.steps = steps;
        }
        (chain.plan, chain.begun, chain.arrived) = (plan, 0, false);
    }

    /// Sets the outcomes of the request's messages before it had a chain, and its own steps.
    pub(crate) fn adopt(&mut self, id: RequestId, steps: Vec<ChainStep>, tries: Vec<Try>) {
        if let Some(chain) = self.by_id.get_mut(&id) {
            (chain.steps, chain.tries) = (steps, tries);
        }
    }

    /// Adds a try that is started, or skipped. Returns the best outcome of all tries.
    pub(crate) fn begin(&mut self, id: RequestId, tried: Try) -> Option<TryStatus> {
        let chain = self.by_id.get_mut(&id)?;
        chain.begun = chain.begun.saturating_add(1);
        chain.tries.push(tried.clone());
        let (number, best) = (chain.newest(), chain.best());
        if tried.status == TryStatus::Queued {
            self.set_due(id, Some(tried.started_at.plus(time_of(tried.step))));
            if tried.step.channel != OtpChannel::Messaging {
                self.open.insert((id, number));
            }
        }
        Some(best)
    }

    /// Changes a try. Returns the best outcome of all tries.
    pub(crate) fn change(&mut self, id: RequestId, change: TryChange) -> Option<TryStatus> {
        let TryChange { number, status, error, at, ended } = change;
        let chain = self.by_id.get_mut(&id)?;
        let is_newest = number == chain.newest();
        let tried = chain.tries.get_mut(usize::from(number).checked_sub(1)?)?;
        let was_queued = tried.status == TryStatus::Queued;
        (tried.status, tried.error) = (status, error.or(tried.error));
        if status == TryStatus::Failed {
            tried.price = 0;
        }
        if ended {
            tried.ended_at = tried.ended_at.or(Some(at));
        }
        let (step, is_over) = (tried.step, tried.ended_at.is_some());
        chain.arrived |= status.has_arrived();
        let (best, has_arrived) = (chain.best(), chain.arrived);
        if has_arrived {
            self.set_due(id, None);
        } else if is_newest {
            let due = match status {
                // Its time starts when it is handed over.
                TryStatus::Sent if was_queued && !is_over => Some(at.plus(time_of(step))),
                TryStatus::Sent | TryStatus::Unknown if !is_over => chain.due,
                _ => None,
            };
            self.set_due(id, due);
        }
        if status != TryStatus::Queued {
            self.open.remove(&(id, number));
            self.handed.remove(&(id, number));
        }
        Some(best)
    }

    fn set_due(&mut self, id: RequestId, due: Option<Timestamp>) {
        let Some(chain) = self.by_id.get_mut(&id) else { return };
        if let Some(before) = std::mem::replace(&mut chain.due, due) {
            self.due.remove(&(before, id));
        }
        self.due.extend(due.map(|due| (due, id)));
    }

    /// Notes that a try is with a step worker.
    pub(crate) fn note_handed(&mut self, id: RequestId, number: u8) {
        self.handed.insert((id, number));
    }

    /// Returns tries claimed before the workspace was loaded, whose outcome nobody will report.
    pub(crate) fn interrupted(&self, most: usize) -> Vec<(RequestId, u8)> {
        if self.open.len() == self.handed.len() {
            return Vec::new();
        }
        self.open.difference(&self.handed).take(most).copied().collect()
    }

    /// Returns the requests whose step has had its time.
    pub(crate) fn due(&self, now: Timestamp, most: usize) -> Vec<RequestId> {
        let due = self.due.iter().take_while(|(at, _)| *at <= now);
        due.take(most).map(|(_, id)| *id).collect()
    }

    /// Returns whether a message of the request is with its number, neither handed over nor given
    /// up.
    pub(crate) fn owes(&self, id: RequestId) -> bool {
        let unsent =
            |it: &Try| it.status == TryStatus::Queued && it.step.channel == OtpChannel::Messaging;
        self.get(id).is_some_and(|chain| chain.tries.iter().any(unsent))
    }

    /// Forgets the chain of the request.
    pub(crate) fn forget(&mut self, id: RequestId) {
        self.set_due(id, None);
        if let Some(chain) = self.by_id.remove(&id) {
            for number in 1..=chain.newest() {
                self.open.remove(&(id, number));
                self.handed.remove(&(id, number));
            }
        }
    }

    /// Moves due times after `to` to that moment.
    pub(crate) fn rebase(&mut self, to: Timestamp) {
        let later: Vec<_> = self.due.iter().filter(|(at, _)| *at > to).map(|(_, id)| *id).collect();
        later.into_iter().for_each(|id| self.set_due(id, Some(to)));
    }

    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        encode(&self.by_id.iter().collect::<Vec<_>>(), out);
    }

    pub(crate) fn take_from(bytes: &mut &[u8]) -> Result<Self, EventDecodeError> {
        let (all, rest) = postcard::take_from_bytes::<Vec<(RequestId, Chain)>>(bytes)
            .map_err(|_| EventDecodeError)?;
        *bytes = rest;
        let mut chains = Self::default();
        for (id, chain) in all {
            chains.due.extend(chain.due.map(|due| (due, id)));
            let is_open = |it: &Try| {
                it.status == TryStatus::Queued && it.step.channel != OtpChannel::Messaging
            };
            let open = (1..).zip(&chain.tries).filter(|(_, it)| is_open(it));
            chains.open.extend(open.map(|(number, _)| (id, number)));
            chains.by_id.insert(id, chain);
        }
        Ok(chains)
    }
}

fn time_of(step: ChainStep) -> Duration {
    Duration::from_secs(step.timeout_seconds.into())
}
