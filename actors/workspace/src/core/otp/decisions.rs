//! Pure: decides to send, resend and verify one-time passwords, by their limits.

use std::sync::Arc;
use std::time::Duration;

use postrider_channel::{Content, Origin, Outbound};
use postrider_domain::destination::calling_code;
use postrider_domain::event::{OtpFailure, OtpStatus};
use postrider_domain::template::TemplateStatus;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{Event, MessageId, OtpCode, Phone, PublicEvent, RequestId};

use super::caller_log::{Counting, counting};
use super::cancel;
use super::day_counts::Counted;
use super::pumping_guard;
use super::requests::Otp;
use super::types::{
    OtpSent, OtpState, ReadOtpError, ResendOtpError, SendOtp, SendOtpError, Verification,
    VerifyOtpError,
};
use crate::core::Core;
use crate::core::effects::Effects;
use crate::core::settings::{Rules, UseTemplateError};

const TEN_MINUTES: Duration = Duration::from_secs(600);
const HOUR: Duration = Duration::from_secs(3600);

impl Core {
    /// Sends a one-time password under the id `id`, which carries the moment. `down` is how long
    /// the number is still left alone because it keeps failing.
    pub fn send_otp(
        &mut self,
        command: SendOtp,
        id: RequestId,
        down: Option<Duration>,
        effects: &mut Effects,
    ) -> Result<OtpSent, SendOtpError> {
        let SendOtp { phone, expiry, length, more } = command;
        debug_assert!(id.timestamp() == self.hot.now());
        if self.test_phones.code(phone).is_some() {
            return cancel::send_test(self, phone, expiry, more.as_deref(), id, effects);
        }
        let counting = match &more {
            Some(more) => counting(&self.keys, &self.rules.limits, &more.context),
            None => Vec::new(),
        };
        if let Err(refused) = self.may_send(phone, &counting, down, effects) {
            if !matches!(refused, SendOtpError::Unavailable(_) | SendOtpError::NotConnected) {
                self.otp_days.note_refused(self.hot.now(), calling_code(phone));
            }
            return Err(refused);
        }
        if self.hot.otps.len() >= self.rules.otps_max {
            return Err(Unavailable::because(UnavailableReason::Overloaded).into());
        }
        let key_version = self.keys.current_version();
        self.perform(Event::OtpSent { id, phone, expiry, length, key_version }, effects);
        self.set_credits(self.credits - self.rules.prices.otp, effects);
        for Counting { hash: caller, .. } in counting {
            self.perform(Event::OtpCaller { caller, at: self.hot.now() }, effects);
        }
        cancel::note(self, id, more.as_deref(), false, effects);
        let otp = Otp::new(id, phone, expiry, length, key_version);
        let message = MessageId::from_bytes(*id.as_bytes());
        self.count(phone, Counted::Sent, effects);
        self.announce_send(&otp, message, effects).ok_or(SendOtpError::NotConnected)
    }

    /// Sends a request's code once more, as message `message`.
    pub fn resend_otp(
        &mut self,
        id: RequestId,
        message: MessageId,
        down: Option<Duration>,
        effects: &mut Effects,
    ) -> Result<OtpSent, ResendOtpError> {
        let otp = self.active(id).map_err(ResendOtpError::Ended)?;
        if self.hot.otps.extras.is_test(id) {
            return Ok(OtpSent { request_id: id, expires_at: self.hot.otps.expires_at(&otp) });
        }
        self.may_send(otp.phone, &[], down, effects).map_err(ResendOtpError::Refused)?;
        self.perform(Event::OtpResent { id, at: self.hot.now() }, effects);
        self.set_credits(self.credits - self.rules.prices.otp, effects);
        self.announce_send(&otp, message, effects)
            .ok_or(ResendOtpError::Refused(SendOtpError::NotConnected))
    }

    /// Compares a submitted code. The attempt is counted whether or not it is right: the answer
    /// waits for the commit of the count.
    pub fn verify_otp(
        &mut self,
        id: RequestId,
        submitted: &str,
        effects: &mut Effects,
    ) -> Result<Verification, VerifyOtpError> {
        let otp = self.active(id)?;
        let attempts = otp.attempts + 1;
        let is_test = self.hot.otps.extras.is_test(id);
        if self.code_of(&otp).is_some_and(|code| code.matches(submitted)) {
            self.perform(Event::OtpVerified { id }, effects);
            self.keep_ended(&otp, OtpStatus::Verified, effects);
            if !is_test {
                self.count(otp.phone, Counted::Verified, effects);
            }
            self.tell(id, PublicEvent::OtpVerified { request_id: id, phone: otp.phone }, effects);
            return Ok(Verification::Verified);
        }
        self.perform(Event::OtpMissed { id, attempts }, effects);
        if !is_test {
            self.count(otp.phone, Counted::Wrong, effects);
        }
        let otp = Otp { attempts, ..otp };
        match otp.attempts_remaining() {
            0 => {
                self.keep_ended(&otp, OtpStatus::Invalidated, effects);
                self.emit_failure(&otp, OtpFailure::MaxAttempts, effects);
                Err(VerifyOtpError::MaxAttempts)
            }
            attempts_remaining => Ok(Verification::Wrong { attempts_remaining }),
        }
    }

    /// Where a request stands.
    pub fn otp(&self, id: RequestId) -> Result<OtpState, ReadOtpError> {
        let otp = self.known(id).ok_or(ReadOtpError::NotFound)?;
        Ok(OtpState {
            request_id: id,
            status: self.hot.otps.status(&otp, self.hot.now()),
            attempts_remaining: otp.attempts_remaining(),
            expires_at: self.hot.otps.expires_at(&otp),
            delivery: otp.delivery,
            notes: self.hot.otps.extras.notes(id),
        })
    }

    /// Whether a send to `phone` is allowed and paid for, and can be taken now; changes nothing but
    /// that a suspicion may be emitted.
    fn may_send(
        &mut self,
        phone: Phone,
        counting: &[Counting],
        down: Option<Duration>,
        effects: &mut Effects,
    ) -> Result<(), SendOtpError> {
        let Rules { limits, prices, otps_max, .. } = self.rules;
        if self.number.is_none() {
            return Err(SendOtpError::NotConnected);
        }
        match self.otp_template_status {
            None if self.needs_template => return Err(UseTemplateError::NoSuchTemplate.into()),
            None | Some(TemplateStatus::Approved) => {}
            Some(status) => return Err(UseTemplateError::NotApproved(status).into()),
        }
        if self.credits < prices.otp {
            let (needed, available) = (prices.otp, self.credits);
            return Err(SendOtpError::InsufficientCredits { needed, available });
        }
        let phone_wait = self
            .hot
            .phone_wait(phone, limits.otp_per_phone_10m, TEN_MINUTES)
            .max(self.hot.phone_wait(phone, limits.otp_per_phone_hour, HOUR));
        if let Some(retry_after) = phone_wait {
            return Err(SendOtpError::PhoneLimit { retry_after });
        }
        for of in counting {
            if let Some(retry_after) = self.hot.callers.wait(self.hot.now(), of) {
                return Err(SendOtpError::CallerLimit { by: of.kind, retry_after });
            }
        }
        let hourly = limits.otp_per_workspace_hour;
        let wait = (hourly > 0).then(|| self.hot.sends.wait_for_any(self.hot.now(), hourly, HOUR));
        if let Some(retry_after) = wait.flatten() {
            return Err(SendOtpError::WorkspaceLimit { retry_after });
        }
        pumping_guard::check(self, phone, effects)?;
        // Resends are counted too and could grow without end where the limits are off.
        if self.hot.sends.len() >= otps_max.saturating_mul(2) {
            return Err(Unavailable::because(UnavailableReason::Overloaded).into());
        }
        if let Some(retry_after) = down {
            return Err(Unavailable { reason: UnavailableReason::ChannelDown, retry_after }.into());
        }
        Ok(())
    }

    /// The request, unless it is forgotten.
    pub(crate) fn known(&self, id: RequestId) -> Option<Otp> {
        self.hot
            .otps
            .get(id)
            .copied()
            .filter(|otp| self.hot.now() < self.hot.otps.forgotten_at(otp))
    }

    /// The request, if it can still be verified.
    pub(super) fn active(&self, id: RequestId) -> Result<Otp, VerifyOtpError> {
        let otp = self.known(id).ok_or(VerifyOtpError::NotFound)?;
        match self.hot.otps.status(&otp, self.hot.now()) {
            // Its code cannot be worked out any more.
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

    /// The request's code; `None` when the version of the master key that made it is gone.
    fn code_of(&self, otp: &Otp) -> Option<OtpCode> {
        if self.hot.otps.extras.is_test(otp.id) {
            return self.test_phones.code(otp.phone);
        }
        self.keys.code(otp.key_version, otp.id, otp.phone, otp.length)
    }

    /// Tells the log of a send and hands the message over.
    fn announce_send(
        &self,
        otp: &Otp,
        message: MessageId,
        effects: &mut Effects,
    ) -> Option<OtpSent> {
        let (id, expires_at) = (otp.id, self.hot.otps.expires_at(otp));
        let resend = message.as_bytes() != id.as_bytes();
        let event = PublicEvent::OtpSent { request_id: id, phone: otp.phone, expires_at, resend };
        self.tell(id, event, effects);
        effects.outbound.push(self.outbound(otp, message)?.into());
        Some(OtpSent { request_id: id, expires_at })
    }

    pub(crate) fn outbound(&self, otp: &Otp, message_id: MessageId) -> Option<Outbound> {
        let number = self.number?;
        let code_key = self.keys.of_version(otp.key_version)?.clone();
        Some(Outbound {
            message_id,
            origin: Origin::Otp {
                request_id: otp.id,
                number: self.hot.otps.earlier.newest(otp.id),
            },
            number,
            workspace: self.id.clone(),
            to: otp.phone.into(),
            give_up_at: self.hot.otps.expires_at(otp),
            content: Content::Otp {
                request_id: otp.id,
                length: otp.length,
                code_key,
                template: Arc::clone(&self.otp_template),
            },
        })
    }

    pub(crate) fn emit_failure(&mut self, otp: &Otp, reason: OtpFailure, effects: &mut Effects) {
        if !self.hot.otps.extras.is_test(otp.id) {
            self.count(otp.phone, Counted::Failed, effects);
        }
        let event = PublicEvent::OtpFailed { request_id: otp.id, phone: otp.phone, reason };
        self.tell(otp.id, event, effects);
    }

    /// Tells the log of something about a request.
    pub(crate) fn tell(&self, id: RequestId, event: PublicEvent, effects: &mut Effects) {
        effects.emit(self.hot.now(), self.hot.otps.extras.with_notes(id, event));
    }
}
