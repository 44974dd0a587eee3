//! Pure: the rules of a workspace. A command and a moment go in; an answer and effects come out.

pub mod command;
pub(crate) mod credits;
pub mod effects;
#[cfg(test)]
mod golden;
pub mod hot_state;
pub mod message_status;
pub mod otp;
pub mod portfolio;
pub mod quota;
pub mod records;
pub mod senders;
pub mod settings;
pub mod unsent;
pub mod view;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use postrider_channel::Outbound;
use postrider_domain::destination::calling_code;
use postrider_domain::event::{OtpFailure, OtpStatus};
use postrider_domain::keys::CodeKeys;
use postrider_domain::template::TemplateName;
use postrider_domain::{
    Destinations, Event, MessageId, NumberId, OptOutWords, Phone, PublicEvent, RequestId,
    Timestamp, WorkspaceId,
};
use postrider_store::Table;

use crate::core::effects::Effects;
use crate::core::hot_state::HotState;
use crate::core::otp::day_counts::{CountedEvent, TodayCounts};
use crate::core::otp::ended_record::EndedOtp;
use crate::core::otp::extras::TestPhones;
use crate::core::otp::failover_plan::ChannelSetup;
use crate::core::otp::languages::CodeTemplates;
use crate::core::otp::requests::Otp;
use crate::core::otp::{delivery, ended_record, failover, inbound, message};
use crate::core::portfolio::FullNumbers;
use crate::core::senders::pool::Pool;
use crate::core::settings::Rules;

/// The maximum of requests that one [`Core::tick`] handles, so that its events fit in a frame.
const TICK_MAX: usize = 1000;

/// The state of a workspace and its rules.
#[derive(Debug)]
pub struct Core {
    pub(crate) id: WorkspaceId,
    pub(crate) hot: HotState,
    /// The balance, as of the last command.
    pub(crate) credits: u64,
    pub(crate) rules: Rules,
    /// The number of the pool that was connected first. Messages leave through it that leave
    /// through no other one.
    pub(crate) number: Option<NumberId>,
    /// The numbers that messages leave through.
    pub(crate) pool: Pool,
    /// Numbers whose portfolio has used its budget up.
    pub(crate) full: FullNumbers,
    /// The destinations to which one-time passwords may go.
    pub(crate) destinations: Destinations,
    /// Derives the codes.
    pub(crate) keys: CodeKeys,
    /// The template that carries one-time passwords.
    pub(crate) otp_template: Arc<TemplateName>,
    /// The status of that template in each of its languages, and the place of the code beside its
    /// body.
    pub(crate) code_templates: CodeTemplates,
    /// Set if the number can send nothing without a template that its provider knows.
    pub(crate) needs_template: bool,
    /// The counts of today's one-time passwords.
    pub(crate) otp_days: TodayCounts,
    /// The channels for codes beside the number.
    pub(crate) channels: ChannelSetup,
    /// The phones to which nothing is sent, with their codes.
    pub(crate) test_phones: Arc<TestPhones>,
    /// The words with which people opt out of messages, and in again.
    pub(crate) opt_out: Arc<OptOutWords>,
}

impl Core {
    /// Takes the moment of a command: the clock's, or the latest that was seen if that is later.
    pub fn observe(&mut self, now: Timestamp) -> Timestamp {
        self.hot.advance(now);
        self.hot.now()
    }

    /// Returns the moment of the running command.
    pub const fn now(&self) -> Timestamp {
        self.hot.now()
    }

    /// Notes what has expired and forgets what is long over.
    ///
    /// Returns whether there is more to do, which another call does.
    pub fn tick(&mut self, effects: &mut Effects) -> bool {
        if delivery::send_due_repeats(self, effects) || failover::continue_due(self, effects) {
            return true;
        }
        for _ in 0..TICK_MAX {
            let Some(slot) = self.hot.otps.take_due(self.hot.now()) else {
                self.hot.forget_over();
                self.otp_days.take_refused().into_iter().for_each(|row| effects.count(row));
                return false;
            };
            let otp = *self.hot.otps.at(slot);
            if otp.noted == OtpStatus::Active {
                self.perform(Event::OtpExpired { id: otp.id }, effects);
                let event = PublicEvent::OtpExpired { request_id: otp.id, phone: otp.phone };
                self.emit(otp.id, event, effects);
                self.keep_ended(&otp, OtpStatus::Expired, effects);
                if !self.hot.otps.extras.is_uncounted(otp.id) {
                    self.count(otp.phone, CountedEvent::Expired, effects);
                }
            }
            if self.hot.otps.forgotten_at(&otp) <= self.hot.now() {
                delivery::give_up_unsent(self, *self.hot.otps.at(slot), effects);
                self.hot.otps.remove(slot);
            } else {
                self.hot.otps.list_until_forgotten(slot);
            }
        }
        true
    }

    /// Returns the messages that the channel has not answered for. After a restart they are handed
    /// over again.
    pub fn unsent(&self) -> Vec<Outbound> {
        self.hot
            .otps
            .iter()
            .map(|(_, otp)| otp)
            .filter(|otp| otp.is_unsent())
            .filter_map(|otp| {
                message::code_message(self, otp, MessageId::from_bytes(*otp.id.as_bytes()))
            })
            .chain(delivery::repeats_under_way(self))
            .chain(failover::unsent_messages(self))
            .collect()
    }

    /// Returns the messages in their present state, of those read from records, that are
    /// unanswered.
    ///
    /// Each is noted to be with its number.
    pub(crate) fn recovered(&mut self, read: Vec<Outbound>) -> Vec<Outbound> {
        let (unsent, is_choice) = (&mut self.hot.messages, self.pool.is_choice());
        let current = |mut message: Outbound| {
            let id = message.message_id;
            // Earlier than in its record where the clock was rebased.
            message.give_up_at = message.give_up_at.min(unsent.give_up_at(id)?);
            // It may have been moved since it was read.
            match unsent.number(id) {
                Some(number) => message.number = number,
                None if is_choice => unsent.set_number(id, message.number),
                None => {}
            }
            Some(message)
        };
        read.into_iter().filter_map(current).collect()
    }

    /// Changes the state by an event and has it made durable.
    pub(crate) fn perform(&mut self, event: Event, effects: &mut Effects) {
        self.hot.play(&event);
        effects.journal(&event);
    }

    /// Counts what happens to a one-time password for this phone.
    pub(crate) fn count(&mut self, phone: Phone, what: CountedEvent, effects: &mut Effects) {
        effects.count(self.otp_days.note(self.hot.now(), calling_code(phone), what));
    }

    /// Stores the outcome of a request that ends now, and ends its try under way.
    pub(crate) fn keep_ended(&mut self, otp: &Otp, status: OtpStatus, effects: &mut Effects) {
        failover::end_newest(self, otp, effects);
        let sends = self.hot.otps.earlier.newest(otp.id);
        let notes = failover::notes_at_end(self, otp);
        let ended = EndedOtp::of(otp, sends, status, self.hot.now()).noted(notes.as_deref());
        let ended = EndedOtp { phone: inbound::phone_of(self, otp), ..ended };
        for key in ended_record::index_keys(&self.id, otp.id, &ended) {
            effects.changes.set(Table::OtpIndex, key, Some(Vec::new()));
        }
        effects.changes.set(Table::Otps, ended_record::key(&self.id, otp.id), Some(ended.encode()));
    }

    /// Emits an event about a request.
    pub(crate) fn emit(&self, id: RequestId, event: PublicEvent, effects: &mut Effects) {
        effects.emit(self.hot.now(), self.hot.otps.extras.with_notes(id, event));
    }

    /// Emits that a request has failed, and counts the failure.
    pub(crate) fn emit_failure(&mut self, otp: &Otp, reason: OtpFailure, effects: &mut Effects) {
        if !self.hot.otps.extras.is_uncounted(otp.id) {
            self.count(otp.phone, CountedEvent::Failed, effects);
        }
        let event = PublicEvent::OtpFailed { request_id: otp.id, phone: otp.phone, reason };
        self.emit(otp.id, event, effects);
    }
}
