//! Pure: decides to send, resend, verify and cancel one-time passwords, by their limits.

use std::time::Duration;

use postrider_channel::{Content, Origin, Outbound};
use postrider_domain::code::Expiry;
use postrider_domain::destination::calling_code;
use postrider_domain::event::chain::{ChainPlan, ChainStep, OtpChannel};
use postrider_domain::event::decision::OtpDecision;
use postrider_domain::event::otp::OtpData;
use postrider_domain::event::{OtpFailure, OtpStatus};
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{
    Event, EventData, MessageId, NumberId, OtpCode, Phone, PublicEvent, RequestId, Timestamp,
};

use super::day_counts::CountedEvent;
use super::extras::note_send;
use super::failover::{channel_of, tries_of};
use super::failover_plan::{plan_again, plan_of};
use super::requests::Otp;
use super::rolling_window::{CallerQuota, quota_of_mailbox, quotas_of_caller};
use super::types::{
    OtpSent, OtpState, ReadOtpError, ResendOtpError, SendMore, SendOtp, SendOtpError, Verification,
    VerifyOtpError,
};
use super::{conversion_guard, failover, inbound, languages, pumping_guard};
use crate::core::effects::Effects;
use crate::core::settings::Rules;
use crate::core::{Core, credits};

const TEN_MINUTES: Duration = Duration::from_secs(600);
const HOUR: Duration = Duration::from_secs(3600);

impl Core {
    /// Sends a one-time password under the id `id`, which carries the moment.
    ///
    /// `down` is how long the number is still down because it keeps failing.
    pub fn send_otp(
        &mut self,
        command: SendOtp,
        id: RequestId,
        down: Option<Duration>,
        effects: &mut Effects,
    ) -> Result<OtpSent, SendOtpError> {
        let SendOtp { phone, expiry, length, more } = command;
        debug_assert!(id.timestamp() == self.hot.now());
        // A code without a phone can only be sent by a person.
        if more.as_deref().is_some_and(|more| more.inbound) || phone.known().is_none() {
            let more = SendMore { inbound: true, ..more.map(|more| *more).unwrap_or_default() };
            return inbound::begin(self, (id, phone), (expiry, length), &more, effects);
        }
        if self.test_phones.code(phone).is_some() {
            return self.send_test(phone, expiry, more.as_deref(), id, effects);
        }
        let plan = plan_of(self, more.as_deref())?;
        let mut quotas = match &more {
            Some(more) => quotas_of_caller(&self.keys, &self.rules.limits, &more.context),
            None => Vec::new(),
        };
        quotas.extend(quota_of_mailbox(&self.keys, &self.rules.limits, plan.as_ref()));
        let found = languages::has_found_template(self, more.as_deref());
        let asked = (phone, &*quotas, plan.as_ref());
        let decision = self.may_send((id, false), asked, (found, down), effects);
        if let Err(refused) = &decision
            && !matches!(refused, SendOtpError::Unavailable(_) | SendOtpError::NotConnected)
        {
            self.otp_days.note_refused(self.hot.now(), calling_code(phone));
        }
        let decision = decision?;
        let key_version = self.keys.current_version();
        self.perform(Event::OtpSent { id, phone, expiry, length, key_version }, effects);
        self.count_callers(quotas, effects);
        note_send(self, id, more.as_deref(), false, effects);
        conversion_guard::note(self, id, decision, effects);
        let otp = Otp::new(id, phone, expiry, length, key_version);
        self.count(phone, CountedEvent::Sent, effects);
        if let Some(plan) = plan {
            let expires_at = self.emit_send(&otp, false, effects);
            self.perform(Event::OtpChain { id, plan: Box::new(plan) }, effects);
            failover::next_step(self, id, down.is_some(), effects);
            return Ok(OtpSent { request_id: id, expires_at, number: self.number_shown(id) });
        }
        let price = self.rules.prices.otp;
        credits::charge(self, price, effects);
        let message = MessageId::from_bytes(*id.as_bytes());
        self.announce_send(&otp, message, effects).ok_or(SendOtpError::NotConnected)
    }

    /// Accepts a one-time password to a test phone: nothing is sent, counted or paid.
    fn send_test(
        &mut self,
        phone: Phone,
        expiry: Expiry,
        more: Option<&SendMore>,
        id: RequestId,
        effects: &mut Effects,
    ) -> Result<OtpSent, SendOtpError> {
        if self.hot.otps.len() >= self.rules.otps_max {
            return Err(Unavailable::because(UnavailableReason::Overloaded).into());
        }
        let key_version = self.keys.current_version();
        self.perform(Event::OtpTest { id, phone, expiry, key_version }, effects);
        note_send(self, id, more, true, effects);
        let expires_at = id.timestamp().plus(expiry.duration());
        let event = PublicEvent::OtpSent { request_id: id, phone, expires_at, resend: false };
        self.emit(id, event, effects);
        Ok(OtpSent { request_id: id, expires_at, number: None })
    }

    /// Sends a request's code once more, as message `message`.
    ///
    /// It leaves through the number `through` if that is another one than before.
    pub fn resend_otp(
        &mut self,
        (id, only): (RequestId, Option<OtpChannel>),
        message: MessageId,
        (through, down): (Option<NumberId>, Option<Duration>),
        effects: &mut Effects,
    ) -> Result<OtpSent, ResendOtpError> {
        let otp = self.outbound_only(id).map_err(ResendOtpError::Ended)?;
        if self.hot.otps.extras.is_test(id) {
            let expires_at = self.hot.otps.expires_at(&otp);
            return Ok(OtpSent { request_id: id, expires_at, number: None });
        }
        let plan = plan_again(self, id, only).map_err(ResendOtpError::Refused)?;
        let is_message = |step: &ChainStep| step.channel == OtpChannel::Messaging;
        let needs_number = plan.as_ref().is_none_or(|plan| plan.steps.iter().all(is_message));
        if needs_number && !self.has_number(id) {
            return Err(ResendOtpError::Refused(SendOtpError::NotConnected));
        }
        let chain = self.hot.otps.chains.get(id);
        let tries = chain.map_or_else(|| self.hot.otps.earlier.newest(id), |chain| chain.newest());
        if plan.is_some() && tries >= failover::TRIES_MAX {
            let full = Unavailable::because(UnavailableReason::Overloaded);
            return Err(ResendOtpError::Refused(full.into()));
        }
        let found = languages::template_of(self, id).language != self.otp_template.language;
        let mailbox = quota_of_mailbox(&self.keys, &self.rules.limits, plan.as_ref());
        let asked = (otp.phone, mailbox.as_slice(), plan.as_ref());
        let decision = self.may_send((id, true), asked, (found, down), effects);
        conversion_guard::note(self, id, decision.map_err(ResendOtpError::Refused)?, effects);
        match through {
            Some(number) => self.move_request(id, number, effects),
            None if plan.is_none() => self.note_next_number(id, effects),
            // The steps of the chain do that.
            None => {}
        }
        let is_chain = plan.is_some();
        if let Some(plan) = plan {
            // Its messages so far become tries, so the next send is none of them.
            self.perform(Event::OtpChain { id, plan: Box::new(plan) }, effects);
        }
        self.perform(Event::OtpResent { id, at: self.hot.now() }, effects);
        self.count_callers(mailbox, effects);
        if is_chain {
            failover::end_newest(self, &otp, effects);
            let expires_at = self.emit_send(&otp, true, effects);
            failover::next_step(self, id, down.is_some(), effects);
            return Ok(OtpSent { request_id: id, expires_at, number: self.number_shown(id) });
        }
        let price = self.rules.prices.otp;
        credits::charge(self, price, effects);
        self.announce_send(&otp, message, effects)
            .ok_or(ResendOtpError::Refused(SendOtpError::NotConnected))
    }

    /// Compares a submitted code.
    ///
    /// The attempt is counted whether or not it is right: the answer waits for the commit of the
    /// count.
    pub fn verify_otp(
        &mut self,
        id: RequestId,
        submitted: &str,
        effects: &mut Effects,
    ) -> Result<Verification, VerifyOtpError> {
        let otp = self.outbound_only(id)?;
        let is_test = self.hot.otps.extras.is_test(id);
        if self.code_of(&otp).is_some_and(|code| code.matches(submitted)) {
            self.perform(Event::OtpVerified { id }, effects);
            self.keep_ended(&otp, OtpStatus::Verified, effects);
            if !is_test {
                self.count(otp.phone, CountedEvent::Verified, effects);
            }
            self.emit(id, PublicEvent::OtpVerified { request_id: id, phone: otp.phone }, effects);
            return Ok(Verification::Verified);
        }
        match self.count_wrong_code(&otp, effects) {
            0 => Err(VerifyOtpError::MaxAttempts),
            attempts_remaining => Ok(Verification::Wrong { attempts_remaining }),
        }
    }

    /// Counts a wrong code of an active request, which the fifth ends. Returns how many remain.
    pub(super) fn count_wrong_code(&mut self, otp: &Otp, effects: &mut Effects) -> u8 {
        let (id, attempts) = (otp.id, otp.attempts + 1);
        self.perform(Event::OtpMissed { id, attempts }, effects);
        if !self.hot.otps.extras.is_uncounted(id) {
            self.count(otp.phone, CountedEvent::Wrong, effects);
        }
        let otp = Otp { attempts, ..*otp };
        if otp.attempts_remaining() == 0 {
            self.keep_ended(&otp, OtpStatus::Invalidated, effects);
            self.emit_failure(&otp, OtpFailure::MaxAttempts, effects);
        }
        otp.attempts_remaining()
    }

    /// Cancels a request: its code verifies nothing from now on, and unsent messages are withdrawn.
    ///
    /// A second call changes nothing.
    pub(crate) fn cancel_otp(
        &mut self,
        id: RequestId,
        effects: &mut Effects,
    ) -> Result<(), VerifyOtpError> {
        let otp = match self.active(id) {
            Err(VerifyOtpError::Cancelled) => return Ok(()),
            otp => otp?,
        };
        self.perform(Event::OtpCancelled { id }, effects);
        self.keep_ended(&otp, OtpStatus::Cancelled, effects);
        let data = EventData::OtpCancelled(OtpData::of(id, otp.phone));
        self.emit(id, data.into(), effects);
        effects.withdrawn.extend(self.number_of(id).map(|number| (number, id)));
        Ok(())
    }

    /// Returns the request, if it can be verified by a submitted code.
    fn outbound_only(&self, id: RequestId) -> Result<Otp, VerifyOtpError> {
        if self.hot.otps.extras.is_inbound(id) && self.known(id).is_some() {
            return Err(VerifyOtpError::InboundOnly);
        }
        self.active(id)
    }

    /// Returns the state of a request.
    pub fn otp(&self, id: RequestId) -> Result<OtpState, ReadOtpError> {
        let otp = self.known(id).ok_or(ReadOtpError::NotFound)?;
        let tries = tries_of(self, &otp);
        let channel = channel_of(&tries);
        Ok(OtpState {
            request_id: id,
            status: self.hot.otps.status(&otp, self.hot.now()),
            attempts_remaining: otp.attempts_remaining(),
            expires_at: self.hot.otps.expires_at(&otp),
            delivery: otp.delivery,
            notes: self.hot.otps.extras.notes(id),
            number: self.number_shown(id),
            tries,
            channel,
            language: Some(languages::language_over(self, id, channel)),
            phone: inbound::phone_of(self, &otp).known(),
            is_inbound: self.hot.otps.extras.is_inbound(id),
            inbound_code: inbound::code_of(self, &otp),
        })
    }

    pub(super) fn count_callers(
        &mut self,
        quotas: impl IntoIterator<Item = CallerQuota>,
        effects: &mut Effects,
    ) {
        for CallerQuota { hash: caller, .. } in quotas {
            self.perform(Event::OtpCaller { caller, at: self.hot.now() }, effects);
        }
    }

    /// Checks whether a send to `phone` is allowed and paid for, and can be taken now.
    ///
    /// It changes nothing, but may emit a suspicion or a decision. The flag of `request` is `true`
    /// if the request was sent before.
    fn may_send(
        &mut self,
        request: (RequestId, bool),
        (phone, quotas, plan): (Phone, &[CallerQuota], Option<&ChainPlan>),
        (found_template, down): (bool, Option<Duration>),
        effects: &mut Effects,
    ) -> Result<Option<OtpDecision>, SendOtpError> {
        let prices = self.rules.prices;
        let first = plan.and_then(|plan| plan.steps.first());
        let first = first.map_or(OtpChannel::Messaging, |step| step.channel);
        let needs_number = plan
            .is_none_or(|plan| plan.steps.iter().any(|step| step.channel == OtpChannel::Messaging));
        if needs_number && self.number.is_none() {
            return Err(SendOtpError::NotConnected);
        }
        if first == OtpChannel::Messaging && !found_template {
            languages::check_own_template(self)?;
        }
        let price = prices.of_channel(first);
        if self.credits < price {
            let (needed, available) = (price, self.credits);
            return Err(SendOtpError::InsufficientCredits { needed, available });
        }
        self.check_limits(phone, quotas)?;
        pumping_guard::check(self, phone, effects)?;
        // A chain goes on with its next step.
        if let Some(retry_after) = down.filter(|_| plan.is_none()) {
            return Err(Unavailable { reason: UnavailableReason::ChannelDown, retry_after }.into());
        }
        if !request.1 && self.hot.otps.len() >= self.rules.otps_max {
            return Err(Unavailable::because(UnavailableReason::Overloaded).into());
        }
        conversion_guard::check(self, request, (phone, plan), effects)
    }

    /// Checks whether one more send to `phone` keeps the limits.
    pub(super) fn check_limits(
        &self,
        phone: Phone,
        quotas: &[CallerQuota],
    ) -> Result<(), SendOtpError> {
        let Rules { limits, otps_max, .. } = self.rules;
        let phone_wait = phone.known().and_then(|phone| {
            let wait = |limit, window| self.hot.phone_wait(phone, limit, window);
            wait(limits.otp_per_phone_10m, TEN_MINUTES).max(wait(limits.otp_per_phone_hour, HOUR))
        });
        if let Some(retry_after) = phone_wait {
            return Err(SendOtpError::PhoneLimit { retry_after });
        }
        for of in quotas {
            if let Some(retry_after) = self.hot.callers.wait(self.hot.now(), of) {
                return Err(SendOtpError::CallerLimit { by: of.kind, retry_after });
            }
        }
        let hourly = limits.otp_per_workspace_hour;
        let wait = (hourly > 0).then(|| self.hot.sends.wait_for_any(self.hot.now(), hourly, HOUR));
        if let Some(retry_after) = wait.flatten() {
            return Err(SendOtpError::WorkspaceLimit { retry_after });
        }
        // Resends are counted too and could grow without end where the limits are off.
        if self.hot.sends.len() >= otps_max.saturating_mul(2) {
            return Err(Unavailable::because(UnavailableReason::Overloaded).into());
        }
        Ok(())
    }

    /// Returns the request, unless it is forgotten.
    pub(crate) fn known(&self, id: RequestId) -> Option<Otp> {
        self.hot
            .otps
            .get(id)
            .copied()
            .filter(|otp| self.hot.now() < self.hot.otps.forgotten_at(otp))
    }

    /// Returns the request, if it can still be verified.
    pub(super) fn active(&self, id: RequestId) -> Result<Otp, VerifyOtpError> {
        let otp = self.known(id).ok_or(VerifyOtpError::NotFound)?;
        match self.hot.otps.status(&otp, self.hot.now()) {
            // Its code cannot be derived any more.
            OtpStatus::Active if self.keys.of_version(otp.key_version).is_none() => {
                Err(VerifyOtpError::Expired)
            }
            OtpStatus::Active => Ok(otp),
            OtpStatus::Verified => Err(VerifyOtpError::AlreadyVerified),
            OtpStatus::Expired => Err(VerifyOtpError::Expired),
            OtpStatus::Invalidated => Err(VerifyOtpError::MaxAttempts),
            OtpStatus::Cancelled => Err(VerifyOtpError::Cancelled),
        }
    }

    /// Returns the request's code; `None` if the version of its master key is missing.
    pub(super) fn code_of(&self, otp: &Otp) -> Option<OtpCode> {
        if self.hot.otps.extras.is_test(otp.id) {
            return self.test_phones.code(otp.phone);
        }
        self.keys.code(otp.key_version, otp.id, otp.phone, otp.length)
    }

    /// Emits the event of a send and hands the message over.
    fn announce_send(
        &self,
        otp: &Otp,
        message: MessageId,
        effects: &mut Effects,
    ) -> Option<OtpSent> {
        let resend = message.as_bytes() != otp.id.as_bytes();
        let expires_at = self.emit_send(otp, resend, effects);
        let message = self.outbound(otp, message)?;
        let number = Some(message.number);
        effects.outbound.push(message.into());
        Some(OtpSent { request_id: otp.id, expires_at, number })
    }

    /// Emits the event of a send; returns when the code expires.
    fn emit_send(&self, otp: &Otp, resend: bool, effects: &mut Effects) -> Timestamp {
        let (id, expires_at) = (otp.id, self.hot.otps.expires_at(otp));
        let event = PublicEvent::OtpSent { request_id: id, phone: otp.phone, expires_at, resend };
        self.emit(id, event, effects);
        expires_at
    }

    pub(crate) fn outbound(&self, otp: &Otp, message_id: MessageId) -> Option<Outbound> {
        let number = self.number_of(otp.id)?;
        let code_key = self.keys.of_version(otp.key_version)?.clone();
        let template = languages::template_of(self, otp.id);
        let newest = self.hot.otps.earlier.newest(otp.id);
        Some(Outbound {
            message_id,
            origin: Origin::Otp { request_id: otp.id, number: newest },
            number,
            workspace: self.id.clone(),
            to: otp.phone.into(),
            give_up_at: self.hot.otps.expires_at(otp),
            content: Content::Otp {
                request_id: otp.id,
                length: otp.length,
                code_key,
                button: languages::button_of(self, &template.language, number),
                template,
                chained: false,
            },
            answers: None,
            pinned: self.is_pinned(otp.id),
        })
    }

    pub(crate) fn emit_failure(&mut self, otp: &Otp, reason: OtpFailure, effects: &mut Effects) {
        if !self.hot.otps.extras.is_uncounted(otp.id) {
            self.count(otp.phone, CountedEvent::Failed, effects);
        }
        let event = PublicEvent::OtpFailed { request_id: otp.id, phone: otp.phone, reason };
        self.emit(otp.id, event, effects);
    }

    /// Emits an event about a request.
    pub(crate) fn emit(&self, id: RequestId, event: PublicEvent, effects: &mut Effects) {
        effects.emit(self.hot.now(), self.hot.otps.extras.with_notes(id, event));
    }
}
