//! Pure: the number through which a request's messages leave.
//!
//! It is noted if it is another one than the workspace's first, before a message is handed to it.
//! The status of templates changes, and may not change where a message is looked for.

use postrider_domain::event::chain::{ChainStep, OtpChannel};
use postrider_domain::event::otp::OtpNotes;
use postrider_domain::{Event, NumberId, RequestId};

use super::languages;
use crate::core::Core;
use crate::core::effects::Effects;

impl Core {
    /// Returns the number to which a request's newest message was handed.
    pub(crate) fn number_of(&self, id: RequestId) -> Option<NumberId> {
        let noted = self.hot.otps.extras.number(id);
        let is_known = |number: &NumberId| self.pool.account(*number).is_some();
        noted.filter(|noted| is_known(noted) || self.is_pinned(id)).or(self.number)
    }

    /// Returns the number for a request's next message.
    ///
    /// It is the same, unless only another one can send its template now.
    pub(crate) fn next_number(&self, id: RequestId) -> Option<NumberId> {
        let same = self.number_of(id);
        if self.pool.is_of_one_account() || self.is_pinned(id) {
            return same;
        }
        let language = &languages::template_of(self, id).language;
        let carries = |it: &NumberId| languages::check_template(self, language, *it).is_ok();
        let other = || self.pool.numbers().find(carries);
        same.filter(carries).or_else(other).or(same)
    }

    /// Notes the number of a request's next message, if that is another one.
    pub(super) fn note_next_number(&mut self, id: RequestId, effects: &mut Effects) {
        let next = self.next_number(id);
        if let Some(next) = next.filter(|_| next != self.number_of(id)) {
            self.move_request(id, next, effects);
        }
    }

    /// Returns the number of a request that leaves through one, or is answered to it.
    pub(super) fn number_shown(&self, id: RequestId) -> Option<NumberId> {
        self.number_of(id).filter(|_| self.goes_through_number(id))
    }

    /// Returns whether the number is connected through which a request has to leave.
    pub(super) fn has_number(&self, id: RequestId) -> bool {
        let named = self.hot.otps.extras.number(id).filter(|_| self.is_pinned(id));
        self.number.is_some() && named.is_none_or(|named| self.pool.account(named).is_some())
    }

    /// Returns whether the sender has named the request's number: it leaves through no other.
    pub(crate) fn is_pinned(&self, id: RequestId) -> bool {
        self.hot.otps.extras.own(id).is_some_and(|own| own.pinned)
    }

    /// Returns whether the request's code goes through a number as it was sent last.
    ///
    /// It is of no test phone, and a step of its chain goes through one, if it has a chain.
    pub(crate) fn goes_through_number(&self, id: RequestId) -> bool {
        let is_message = |step: &ChainStep| step.channel == OtpChannel::Messaging;
        let chain = self.hot.otps.chains.get(id);
        !self.hot.otps.extras.is_test(id)
            && chain.is_none_or(|chain| chain.plan.steps.iter().any(is_message))
    }

    /// Sets the number of a request's next messages.
    pub(crate) fn move_request(&mut self, id: RequestId, to: NumberId, effects: &mut Effects) {
        let notes = OtpNotes { number_id: Some(to), ..self.hot.otps.extras.notes(id) };
        if let Some(notes) = notes.to_json() {
            self.perform(Event::OtpNoted { id, notes }, effects);
        }
    }
}
