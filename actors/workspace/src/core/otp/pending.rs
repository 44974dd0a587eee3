//! Pure: finds the requests that have not ended, newest first, without looking at all.
//!
//! Requests are not held in an order of their own. A request is over fifteen minutes after it was
//! sent. The rolling windows have every send of an hour in the order of time, linked by phone. Few
//! are not there under the moment of their ids: those of test phones, and those that a rebase of
//! the clock has dated back. Their ids are held in order.

use std::time::Duration;

use postrider_domain::event::OtpStatus;
use postrider_domain::{Phone, RequestId, Timestamp};

use super::requests::Otp;
use super::rolling_window::WINDOW_MAX;
use crate::core::hot_state::HotState;

/// The longest time that a request can be verified, with the delay of a tick.
///
/// It is shorter than the time for which sends are held.
const OVER_AFTER: Duration = Duration::from_secs(1800);

/// The filter and the limits of a search for pending requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingQuery {
    /// The phone of the requests.
    pub(crate) phone: Option<Phone>,
    /// The request before which the others must be.
    pub(crate) before: Option<RequestId>,
    /// The earliest moment of the requests.
    pub(crate) since: Option<Timestamp>,
    /// The number of requests after which the search ends.
    pub(crate) enough: usize,
    /// The maximum of requests to look at.
    pub(crate) looks: usize,
}

/// Some pending requests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PendingFound {
    /// Newest first.
    pub(crate) otps: Vec<Otp>,
    pub(crate) looked_at: usize,
    /// The id from which on all requests are included; `None`: there are no others.
    pub(crate) down_to: Option<RequestId>,
}

impl HotState {
    /// Returns whether a request is pending so long after its time that its send may be forgotten.
    ///
    /// This happens if the workspace was at rest, and a tick has still to reach the request.
    pub(crate) fn is_behind(&self) -> bool {
        self.otps.is_due(self.now().minus(WINDOW_MAX - OVER_AFTER))
    }

    /// Finds requests that have not ended, and that `takes` accepts.
    pub(crate) fn pending(
        &self,
        wanted: &PendingQuery,
        takes: impl Fn(&Otp) -> bool,
    ) -> PendingFound {
        let mut found = PendingFound::default();
        let is_wanted = |otp: &Otp| {
            otp.noted == OtpStatus::Active
                && wanted.phone.is_none_or(|phone| phone == otp.phone)
                && wanted.before.is_none_or(|before| otp.id < before)
                && wanted.since.is_none_or(|since| since <= otp.id.timestamp())
                && takes(otp)
        };
        self.of_sends(wanted, &is_wanted, &mut found);
        self.of_ids(wanted, self.otps.dated_back(wanted.before), &is_wanted, &mut found);
        self.of_ids(wanted, self.otps.extras.tests(wanted.before), &is_wanted, &mut found);
        let PendingFound { otps, down_to, .. } = &mut found;
        otps.retain(|otp| down_to.is_none_or(|down_to| down_to <= otp.id));
        otps.sort_unstable_by_key(|otp| std::cmp::Reverse(otp.id));
        // A request that was sent again at once is included twice.
        otps.dedup_by_key(|otp| otp.id);
        found
    }

    fn of_sends(
        &self,
        wanted: &PendingQuery,
        is_wanted: &impl Fn(&Otp) -> bool,
        found: &mut PendingFound,
    ) {
        let until = match wanted.before {
            // All requests of its moment were looked at.
            Some(before) if before == RequestId::from_parts(before.timestamp(), 0) => {
                before.timestamp().minus(Duration::from_millis(1))
            }
            Some(before) => before.timestamp(),
            None => Timestamp::from_millis(u64::MAX),
        };
        let mut last = None;
        for (at, slot) in self.sends.back_from(until, wanted.phone, |slot| self.otps.at(slot).phone)
        {
            if wanted.since.is_some_and(|since| at < since) {
                return;
            }
            // Sends of one moment are in no order, so all of it is looked at.
            if last.is_some_and(|last| at < last) && found.is_enough(wanted) {
                found.down_to = last.map(|last| RequestId::from_parts(last, 0));
                return;
            }
            last = Some(at);
            found.looked_at += 1;
            let otp = self.otps.at(slot);
            // Other sends are repeats, or were dated back.
            if otp.id.timestamp() == at && is_wanted(otp) {
                found.otps.push(*otp);
            }
        }
    }

    fn of_ids(
        &self,
        wanted: &PendingQuery,
        ids: impl Iterator<Item = RequestId>,
        is_wanted: &impl Fn(&Otp) -> bool,
        found: &mut PendingFound,
    ) {
        let mut here = PendingFound::default();
        for id in ids {
            if found.down_to.is_some_and(|down_to| id < down_to)
                || wanted.since.is_some_and(|since| id.timestamp() < since)
            {
                break;
            }
            here.looked_at += 1;
            here.otps.extend(self.otps.get(id).filter(|otp| is_wanted(otp)));
            if here.is_enough(wanted) {
                found.down_to = found.down_to.max(Some(id));
                break;
            }
        }
        found.looked_at += here.looked_at;
        found.otps.extend(here.otps);
    }
}

impl PendingFound {
    const fn is_enough(&self, wanted: &PendingQuery) -> bool {
        self.otps.len() >= wanted.enough || self.looked_at >= wanted.looks
    }
}
