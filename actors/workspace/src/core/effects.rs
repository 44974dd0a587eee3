//! Pure: the effects of a command: made durable first, then sent.

use std::time::Duration;

use postrider_channel::number_facts::NumberFacts;
use postrider_domain::event::chain::{OtpChannel, TryStatus};
use postrider_domain::{Event, LogEntry, MessageId, NumberId, PublicEvent, RequestId, Timestamp};
use postrider_number::HandedOver;
use postrider_store::log::frame::FRAME_BYTES_MAX;

use crate::core::message_status::{SettledOutcome, Waiter};
use crate::core::otp::day_counts::CountRow;
use crate::core::otp::failover_plan::StepCall;
use crate::core::view::RecordChanges;

/// Collects the effects of one command. The buffers are used again for the next one.
#[derive(Debug, Default)]
pub struct Effects {
    /// Journal events, encoded.
    pub(crate) events: Vec<u8>,
    /// Entries of the event log, encoded.
    pub(crate) log: Vec<u8>,
    /// The number of entries in `log`.
    pub(crate) log_count: u32,
    /// Changes of records, beside the balance.
    pub(crate) changes: RecordChanges,
    /// The new balance, if it changed.
    pub(crate) credits: Option<u64>,
    /// Changed counts of one-time passwords, by day and calling code.
    pub(crate) counted: Vec<CountRow>,
    /// A country calling code to which there are suspiciously many one-time passwords.
    pub(crate) suspected: Option<u16>,
    /// The numbers of one-time passwords sent and verified.
    pub(crate) otps: [u32; 2],
    /// Steps of codes that ended, and steps that followed others.
    pub(crate) steps: OtpFiguresAdded,
    /// The previous values of the settings that the command changes, for its audit record.
    pub(crate) replaced: Vec<(String, serde_json::Value)>,
    /// Set if no caller waits for the effects to be durable.
    pub(crate) deferrable: bool,
    /// Messages for the number, once all of this is durable.
    pub(crate) outbound: Vec<HandedOver>,
    /// Steps for step workers to carry out, once all of this is durable.
    pub(crate) calls: Vec<StepCall>,
    /// Requests whose codes a number must no longer hand over, once all of this is durable.
    pub(crate) withdrawn: Vec<(NumberId, RequestId)>,
    /// Facts about numbers, which their pace follows once all of this is durable.
    pub(crate) facts: Vec<(NumberId, NumberFacts)>,
    /// Callers that wait for the outcome of a message that was accepted.
    pub(crate) awaited: Vec<(MessageId, Waiter)>,
    /// Callers whose outcome is released once all of this is durable.
    pub(crate) outcomes: Vec<(Waiter, SettledOutcome)>,
}

impl Effects {
    /// Returns whether nothing has to become durable.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
            && self.log.is_empty()
            && self.credits.is_none()
            && self.counted.is_empty()
            && self.changes.is_empty()
    }

    /// Returns the approximate number of encoded bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.events.len() + self.log.len() + self.changes.bytes()
    }

    /// Returns whether the effects are too large to be written as they are, and can be dropped.
    ///
    /// They can if they are of records and the log only: then the state in memory is not ahead of
    /// what is durable without them.
    pub(crate) fn can_be_refused(&self) -> bool {
        self.log.len() > FRAME_BYTES_MAX
            && self.events.is_empty()
            && self.credits.is_none()
            && self.counted.is_empty()
            && self.outbound.is_empty()
            && self.outcomes.is_empty()
    }

    /// Empties the buffers and keeps their memory.
    pub(crate) fn clear(&mut self) {
        self.events.clear();
        self.log.clear();
        self.log_count = 0;
        self.credits = None;
        self.counted.clear();
        self.changes.clear();
        self.suspected = None;
        self.otps = [0; 2];
        self.replaced.clear();
        self.deferrable = false;
        self.outbound.clear();
        self.withdrawn.clear();
        self.facts.clear();
        self.calls.clear();
        self.awaited.clear();
        self.outcomes.clear();
    }

    /// Notes the previous value of a setting, for the audit record. It must not be a secret.
    pub(crate) fn replaces(&mut self, name: &str, from: impl serde::Serialize) {
        self.replaced.push((name.to_owned(), serde_json::to_value(from).unwrap_or_default()));
    }

    /// Notes the previous values of the fields of some settings.
    pub(crate) fn replaces_all(&mut self, settings: impl serde::Serialize) {
        if let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(settings) {
            self.replaced.extend(fields);
        }
    }

    /// Sets counts to be written, in place of earlier ones of the same day and calling code.
    pub(crate) fn count(&mut self, row: CountRow) {
        let same = |known: &&mut CountRow| (known.0, known.1) == (row.0, row.1);
        match self.counted.iter_mut().find(same) {
            Some(known) => *known = row,
            None => self.counted.push(row),
        }
    }

    pub(crate) fn journal(&mut self, event: &Event) {
        event.encode_into(&mut self.events);
    }

    /// Has a caller wait for the outcome of a message that this command accepts.
    pub(crate) fn await_outcome(&mut self, id: MessageId, waiter: Waiter) {
        self.awaited.push((id, waiter));
    }

    /// Releases to a caller the outcome for which it waited.
    pub(crate) fn resolve_waiter(&mut self, waiter: Waiter, settled: SettledOutcome) {
        self.outcomes.push((waiter, settled));
    }

    /// Emits an event to the workspace's event log.
    pub fn emit(&mut self, at: Timestamp, event: impl Into<PublicEvent>) {
        let event = event.into();
        match event {
            PublicEvent::OtpSent { .. } => self.otps[0] += 1,
            PublicEvent::OtpVerified { .. } => self.otps[1] += 1,
            _ => {}
        }
        LogEntry { at, event }.encode_into(&mut self.log);
        self.log_count += 1;
    }
}

/// A command's contribution to the figures.
#[derive(Debug, Default)]
pub(crate) struct OtpFiguresAdded {
    /// Steps that ended, with their known outcome.
    pub(crate) tries: Vec<(OtpChannel, TryStatus)>,
    /// The time between the start of a step and that of the next one.
    pub(crate) failovers: Vec<Duration>,
}
