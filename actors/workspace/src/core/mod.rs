//! Pure: the rules of a workspace. A command and a moment go in; an answer and effects come out.

pub(crate) mod claims;
pub mod command;
pub(crate) mod deletion_progress;
pub mod effects;
#[cfg(test)]
mod golden;
pub mod hot;
pub mod message_status;
pub mod otp;
pub mod records;
pub mod rules;
pub mod unsent;
pub mod view;
pub mod waiters;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use postrider_channel::{Content, Origin, Outbound, TemplateName};
use postrider_domain::event::{OtpFailure, OtpStatus};
use postrider_domain::keys::CodeKeys;
use postrider_domain::template::TemplateStatus;
use postrider_domain::{
    Destinations, Event, MessageId, NumberId, OptOutWords, OtpCode, Phone, PublicEvent, RequestId,
    Timestamp, WorkspaceId,
};

use crate::core::effects::Effects;
use crate::core::hot::HotState;
use crate::core::otp::requests::Otp;
use crate::core::otp::retries;
use crate::core::otp::types::{
    OtpSent, OtpState, ReadOtpError, ResendOtpError, SendOtp, SendOtpError, Verification,
    VerifyOtpError,
};
use crate::core::rules::{ChangeError, CreditsChange, Rules, UseTemplateError};
use postrider_domain::unavailable::{Unavailable, UnavailableReason};

const TEN_MINUTES: Duration = Duration::from_secs(600);
const HOUR: Duration = Duration::from_secs(3600);

/// Most requests that one [`Core::tick`] handles, so that its events fit in a frame.
const TICK_MAX: usize = 1000;

/// The state of a workspace and its rules.
#[derive(Debug)]
pub struct Core {
    pub(crate) id: WorkspaceId,
    pub(crate) hot: HotState,
    /// The balance, as of the last command.
    pub(crate) credits: u64,
    pub(crate) rules: Rules,
    /// The number that messages leave through.
    pub(crate) number: Option<NumberId>,
    /// Where one-time passwords may go.
    pub(crate) destinations: Destinations,
    /// Derives the codes.
    pub(crate) keys: CodeKeys,
    /// The template that carries them.
    pub(crate) otp_template: Arc<TemplateName>,
    /// How that template stands; `None` where there is none of that name.
    pub(crate) otp_template_status: Option<TemplateStatus>,
    /// Whether the number can send nothing without a template that its provider knows.
    pub(crate) needs_template: bool,
    /// How people opt out of messages, and in again.
    pub(crate) opt_out: Arc<OptOutWords>,
}

impl Core {
    /// Takes the moment of a command: the clock's, or the latest that was seen if that is later.
    pub fn observe(&mut self, now: Timestamp) -> Timestamp {
        self.hot.advance(now);
        self.hot.now()
    }

    /// The moment of the running command.
    pub const fn now(&self) -> Timestamp {
        self.hot.now()
    }

    /// Sends a one-time password under the id `id`, which carries the moment. `down` is how long
    /// the number is still left alone because it keeps failing.
    pub fn send_otp(
        &mut self,
        command: SendOtp,
        id: RequestId,
        down: Option<Duration>,
        effects: &mut Effects,
    ) -> Result<OtpSent, SendOtpError> {
        let SendOtp { phone, expiry, length } = command;
        debug_assert!(id.timestamp() == self.hot.now());
        self.may_send(phone, down, effects)?;
        if self.hot.otps.len() >= self.rules.otps_max {
            return Err(Unavailable::because(UnavailableReason::Overloaded).into());
        }
        let key_version = self.keys.current_version();
        self.perform(Event::OtpSent { id, phone, expiry, length, key_version }, effects);
        self.set_credits(self.credits - self.rules.prices.otp, effects);
        let otp = Otp::new(id, phone, expiry, length, key_version);
        let message = MessageId::from_bytes(*id.as_bytes());
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
        self.may_send(otp.phone, down, effects).map_err(ResendOtpError::Refused)?;
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
        if self.code_of(&otp).is_some_and(|code| code.matches(submitted)) {
            self.perform(Event::OtpVerified { id }, effects);
            effects.emit(
                self.hot.now(),
                PublicEvent::OtpVerified { request_id: id, phone: otp.phone },
            );
            return Ok(Verification::Verified);
        }
        self.perform(Event::OtpMissed { id, attempts }, effects);
        match (Otp { attempts, ..otp }).attempts_remaining() {
            0 => {
                self.tell_failure(&otp, OtpFailure::MaxAttempts, effects);
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
            status: otp.status(self.hot.now()),
            attempts_remaining: otp.attempts_remaining(),
            expires_at: otp.expires_at(),
            delivery: otp.delivery,
        })
    }

    /// Notes what has expired and forgets what is long over. Returns whether there is more to do,
    /// which another call does.
    pub fn tick(&mut self, effects: &mut Effects) -> bool {
        if retries::send_due(self, effects) {
            return true;
        }
        for _ in 0..TICK_MAX {
            let Some(slot) = self.hot.otps.take_due(self.hot.now()) else {
                self.hot.forget_repeats();
                return false;
            };
            let otp = *self.hot.otps.at(slot);
            if otp.noted == OtpStatus::Active {
                self.perform(Event::OtpExpired { id: otp.id }, effects);
                effects.emit(
                    self.hot.now(),
                    PublicEvent::OtpExpired { request_id: otp.id, phone: otp.phone },
                );
            }
            if otp.forgotten_at() <= self.hot.now() {
                self.give_up_unsent(*self.hot.otps.at(slot), effects);
                self.hot.otps.remove(slot);
            } else {
                self.hot.otps.await_oblivion(slot);
            }
        }
        true
    }

    /// The messages that the channel has not answered for: after a restart they are handed over
    /// again.
    pub fn unsent(&self) -> Vec<Outbound> {
        self.hot
            .otps
            .iter()
            .map(|(_, otp)| otp)
            .filter(|otp| otp.is_unsent())
            .filter_map(|otp| self.outbound(otp, MessageId::from_bytes(*otp.id.as_bytes())))
            .chain(retries::under_way(self))
            .collect()
    }

    /// Sets the balance, or adds to it.
    pub fn change_credits(
        &mut self,
        change: CreditsChange,
        effects: &mut Effects,
    ) -> Result<u64, ChangeError> {
        let credits = match change {
            CreditsChange::Set(credits) => credits,
            CreditsChange::Add(add) => {
                self.credits.checked_add(add).ok_or(ChangeError::TooManyCredits)?
            }
        };
        self.set_credits(credits, effects);
        Ok(credits)
    }

    /// Whether a send to `phone` is allowed and paid for, and can be taken now; changes nothing but
    /// that a suspicion may be told of.
    fn may_send(
        &mut self,
        phone: Phone,
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
        let hourly = limits.otp_per_workspace_hour;
        let wait = (hourly > 0).then(|| self.hot.sends.wait_for_any(self.hot.now(), hourly, HOUR));
        if let Some(retry_after) = wait.flatten() {
            return Err(SendOtpError::WorkspaceLimit { retry_after });
        }
        self.guard(phone, effects)?;
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
        self.hot.otps.get(id).copied().filter(|otp| self.hot.now() < otp.forgotten_at())
    }

    /// The request, if it can still be verified.
    fn active(&self, id: RequestId) -> Result<Otp, VerifyOtpError> {
        let otp = self.known(id).ok_or(VerifyOtpError::NotFound)?;
        match otp.status(self.hot.now()) {
            // Its code cannot be worked out any more.
            OtpStatus::Active if self.keys.of_version(otp.key_version).is_none() => {
                Err(VerifyOtpError::Expired)
            }
            OtpStatus::Active => Ok(otp),
            OtpStatus::Verified => Err(VerifyOtpError::AlreadyVerified),
            OtpStatus::Expired => Err(VerifyOtpError::Expired),
            OtpStatus::Invalidated => Err(VerifyOtpError::MaxAttempts),
        }
    }

    /// The request's code; `None` when the version of the master key that made it is gone.
    fn code_of(&self, otp: &Otp) -> Option<OtpCode> {
        self.keys.code(otp.key_version, otp.id, otp.phone, otp.length)
    }

    /// Changes the state by an event and has it made durable.
    pub(crate) fn perform(&mut self, event: Event, effects: &mut Effects) {
        self.hot.play(&event);
        effects.journal(&event);
    }

    pub(crate) fn set_credits(&mut self, credits: u64, effects: &mut Effects) {
        if self.credits != credits {
            self.credits = credits;
            effects.credits = Some(credits);
        }
    }

    /// Tells the log of a send and hands the message over.
    fn announce_send(
        &self,
        otp: &Otp,
        message: MessageId,
        effects: &mut Effects,
    ) -> Option<OtpSent> {
        let (id, expires_at) = (otp.id, otp.expires_at());
        let resend = message.as_bytes() != id.as_bytes();
        let event = PublicEvent::OtpSent { request_id: id, phone: otp.phone, expires_at, resend };
        effects.emit(self.hot.now(), event);
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
            to: otp.phone,
            give_up_at: otp.expires_at(),
            content: Content::Otp {
                request_id: otp.id,
                length: otp.length,
                code_key,
                template: Arc::clone(&self.otp_template),
            },
        })
    }

    pub(crate) fn tell_failure(&self, otp: &Otp, reason: OtpFailure, effects: &mut Effects) {
        let event = PublicEvent::OtpFailed { request_id: otp.id, phone: otp.phone, reason };
        effects.emit(self.hot.now(), event);
    }
}
