//! Pure: the state that a workspace keeps in memory and that the journal rebuilds.
//!
//! It holds pending one-time passwords, rolling windows, counts by country and messages that are
//! not sent yet. Every change of it is an [`Event`]: commands decide, `HotState::play` changes. So
//! a replay of the journal runs the very code that ran when the events were made.

use std::time::Duration;

use postrider_domain::code::{ATTEMPTS_MAX, CodeLength};
use postrider_domain::destination::calling_code;
use postrider_domain::event::chain::{ChainPlan, ChainStep, OtpChannel, TryStatus};
use postrider_domain::event::{Delivery, EventDecodeError, OtpStatus};
use postrider_domain::{Event, MessageId, Phone, RequestId, Timestamp};

use crate::core::otp::conversion_counts::ConversionCounts;
use crate::core::otp::delivery::Repeats;
use crate::core::otp::extras::Extras;
use crate::core::otp::failover_state::{Chain, Chains, Try, TryChange};
use crate::core::otp::pumping_guard::PrefixCounts;
use crate::core::otp::requests::{EarlierMessages, MessageStanding, Otp, OtpSlot, OtpTable};
use crate::core::otp::rolling_window::{CallerLog, SendLog};
use crate::core::unsent::{Unsent, UnsentMessages};

/// The state's first byte in a snapshot.
const SNAPSHOT_VERSION: u8 = 1;

/// The reason why a state of a snapshot cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StateDecodeError {
    /// A later version of Postrider wrote it.
    #[error("it has version {found}; this Postrider reads up to {SNAPSHOT_VERSION}")]
    Newer {
        /// Its version.
        found: u8,
    },
    /// The bytes are damaged.
    #[error(transparent)]
    Damaged(#[from] EventDecodeError),
}

/// Pending one-time passwords, what was sent in the last hour, and unsent messages.
#[derive(Debug, Default)]
pub struct HotState {
    /// The latest moment that was seen; commands never go back behind it.
    now: Timestamp,
    pub(crate) otps: OtpTable,
    pub(crate) sends: SendLog,
    pub(crate) messages: UnsentMessages,
    pub(crate) prefixes: PrefixCounts,
    pub(crate) conversions: ConversionCounts,
    pub(crate) repeats: Repeats,
    pub(crate) callers: CallerLog,
}

impl HotState {
    /// Returns whether the state is empty.
    pub fn is_empty(&self) -> bool {
        self.otps.len() == 0
            && self.sends.len() == 0
            && self.messages.len() == 0
            && self.callers.is_empty()
    }

    /// Returns the latest moment that was seen.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Forgets what is over by `latest`, for a snapshot.
    pub fn forget_until(&mut self, latest: Timestamp) {
        self.advance(latest);
        self.forget_ended();
    }

    fn forget_ended(&mut self) {
        self.otps.forget_ended(self.now);
        self.forget_over();
    }

    /// Forgets planned repeats of requests that are forgotten, and counts that are over.
    pub(crate) fn forget_over(&mut self) {
        self.conversions.forget_over(self.now);
        let otps = &self.otps;
        self.repeats.retain(|id| otps.find(id).is_some());
    }

    /// Moves to `now`, if that is later, and lets the windows roll.
    pub(crate) fn advance(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        let otps = &self.otps;
        self.sends.evict(self.now, |slot| otps.at(slot).phone);
        self.callers.evict(self.now);
    }

    /// Applies one event. Events about requests that are forgotten change nothing.
    pub(crate) fn play(&mut self, event: &Event) {
        self.count_end(event);
        match *event {
            Event::OtpSent { id, phone, expiry, length, key_version } => {
                let otp = Otp::new(id, phone, expiry, length, key_version);
                let slot = self.otps.insert(otp);
                self.count_send(id.timestamp(), slot);
                self.prefixes.sent(self.now, calling_code(phone));
            }
            Event::OtpResent { id, at } => {
                if let Some(slot) = self.otps.find(id) {
                    self.count_send(at, slot);
                    if self.otps.chains.get(id).is_some() {
                        return;
                    }
                    self.otps.send_again(slot);
                    self.repeats.set(id, None);
                }
            }
            Event::WorkspaceDeleted => *self = Self::default(),
            Event::OtpVerified { id }
            | Event::OtpMissed { id, .. }
            | Event::OtpExpired { id }
            | Event::OtpCancelled { id }
            | Event::OtpReported { id, .. }
            | Event::OtpDelivery { id, .. } => self.change(id, event),
            Event::MessageSettled { id } => self.messages.remove(id),
            Event::MessageClaimed { id } => self.messages.set_claimed(id, true),
            Event::MessageWritten { id } => drop(self.messages.take_unwritten(id)),
            Event::MessageReleased { id } => self.messages.set_claimed(id, false),
            Event::OtpRepeat { id, repeat } => self.repeats.set(id, repeat),
            Event::PumpingSuspected { .. }
            | Event::OtpEarlier { .. }
            | Event::MessageQueued { .. }
            | Event::OtpTest { .. }
            | Event::OtpNoted { .. }
            | Event::OtpCaller { .. }
            | Event::OtpChain { .. }
            | Event::OtpTry { .. }
            | Event::OtpTryChanged { .. }
            | Event::OtpInbound { .. }
            | Event::OtpOpen { .. } => {
                self.play_rare(event);
            }
        }
    }

    pub(crate) fn count_send(&mut self, at: Timestamp, slot: OtpSlot) {
        self.advance(at);
        let otps = &self.otps;
        self.sends.push(self.now, slot, |slot| otps.at(slot).phone);
    }

    /// Changes the request `id` by an event about it.
    fn change(&mut self, id: RequestId, event: &Event) {
        let Some(otp) = self.otps.get_mut(id) else { return };
        match *event {
            Event::OtpSent { .. }
            | Event::OtpResent { .. }
            | Event::OtpEarlier { .. }
            | Event::WorkspaceDeleted
            | Event::MessageQueued { .. }
            | Event::MessageSettled { .. }
            | Event::MessageClaimed { .. }
            | Event::MessageReleased { .. }
            | Event::MessageWritten { .. }
            | Event::OtpRepeat { .. }
            | Event::OtpTest { .. }
            | Event::OtpNoted { .. }
            | Event::OtpCaller { .. }
            | Event::OtpChain { .. }
            | Event::OtpTry { .. }
            | Event::OtpTryChanged { .. }
            | Event::OtpInbound { .. }
            | Event::OtpOpen { .. }
            | Event::PumpingSuspected { .. } => {}
            Event::OtpMissed { attempts, .. } => {
                otp.attempts = attempts;
                if otp.attempts_remaining() == 0 {
                    otp.noted = OtpStatus::Invalidated;
                }
            }
            Event::OtpVerified { .. } => otp.noted = OtpStatus::Verified,
            Event::OtpExpired { .. } => otp.noted = OtpStatus::Expired,
            Event::OtpCancelled { .. } => otp.noted = OtpStatus::Cancelled,
            Event::OtpDelivery { delivery, .. } => {
                otp.unsettled = otp.unsettled.saturating_sub(1);
                // A report says more than the fact that it was sent.
                let reported = matches!(otp.delivery, Delivery::Delivered | Delivery::Read);
                if otp.unsettled == 0 && !reported {
                    otp.delivery = delivery;
                }
            }
            Event::OtpReported { delivery, .. } => otp.delivery = delivery,
        }
    }

    /// Moments later than `to` count as `to`: the clock that gave them was ahead. Doing it again
    /// changes nothing.
    pub(crate) fn rebase(&mut self, to: Timestamp) {
        self.now = self.now.min(to);
        self.otps.rebase(to);
        self.otps.chains.rebase(to);
        self.sends.rebase(to);
        self.callers.rebase(to);
        self.messages.rebase(to);
        self.prefixes.rebase(to);
        self.conversions.rebase(to);
        self.repeats.rebase(to);
    }

    /// Replays a section of a journal frame.
    ///
    /// # Errors
    /// [`EventDecodeError`] when the bytes are not events; the state is then of no use.
    pub fn replay(&mut self, events: &[u8]) -> Result<(), EventDecodeError> {
        for event in Event::decode_all(events) {
            self.play(&event?);
        }
        self.forget_ended();
        Ok(())
    }

    /// Appends the whole state, for a snapshot.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        out.push(SNAPSHOT_VERSION);
        out.extend_from_slice(&self.now.as_millis().to_be_bytes());
        out.extend_from_slice(&(self.otps.len() as u64).to_be_bytes());
        let mut ordinals = hashbrown::HashMap::with_capacity(self.otps.len());
        for (ordinal, (slot, otp)) in self.otps.iter().enumerate() {
            ordinals.insert(slot, ordinal as u32);
            postrider_domain::event::encode(otp, out);
        }
        let sends = self.sends.iter();
        out.extend_from_slice(&(sends.len() as u64).to_be_bytes());
        for (at, slot) in sends {
            // A send's request outlives it, so its ordinal is known.
            let ordinal = ordinals.get(&slot).copied().unwrap_or_default();
            out.extend_from_slice(&at.as_millis().to_be_bytes());
            out.extend_from_slice(&ordinal.to_be_bytes());
        }
        let messages = self.messages.iter();
        out.extend_from_slice(&(messages.len() as u64).to_be_bytes());
        for (id, unsent) in messages {
            out.extend_from_slice(id.as_bytes());
            out.extend_from_slice(&unsent.give_up_at.as_millis().to_be_bytes());
            out.push(unsent.claimed.into());
            let unwritten = self.messages.unwritten(id).unwrap_or_default();
            out.extend_from_slice(&(unwritten.len() as u32).to_be_bytes());
            out.extend_from_slice(unwritten);
        }
        self.repeats.encode_into(out);
        self.otps.earlier.encode_into(out);
        self.otps.encode_rebased_into(out);
        self.prefixes.encode_into(out);
        self.callers.encode_into(out);
        self.otps.extras.encode_into(out);
        self.otps.chains.encode_into(out);
        self.otps.extras.encode_inbound_into(out);
        self.otps.extras.encode_open_into(out);
        self.conversions.encode_into(self.now, out);
    }

    /// Reads the bytes of [`encode_into`](Self::encode_into).
    ///
    /// # Errors
    /// [`StateDecodeError`] when the bytes are not such a state.
    pub fn decode(bytes: &[u8]) -> Result<Self, StateDecodeError> {
        let (&version, rest) = bytes.split_first().ok_or(EventDecodeError)?;
        match version {
            SNAPSHOT_VERSION => Ok(Self::decode_rest(rest)?),
            0 => Err(EventDecodeError.into()),
            found => Err(StateDecodeError::Newer { found }),
        }
    }

    fn decode_rest(mut rest: &[u8]) -> Result<Self, EventDecodeError> {
        let now = Timestamp::from_millis(take_u64(&mut rest)?);
        let mut state = Self { now, ..Self::default() };
        let mut slots = Vec::new();
        for _ in 0..take_u64(&mut rest)? {
            let (otp, after) = postcard::take_from_bytes(rest).map_err(|_| EventDecodeError)?;
            slots.push(state.otps.insert(otp));
            rest = after;
        }
        let otps = &state.otps;
        for _ in 0..take_u64(&mut rest)? {
            let at = Timestamp::from_millis(take_u64(&mut rest)?);
            let (ordinal, after) = rest.split_first_chunk().ok_or(EventDecodeError)?;
            rest = after;
            let ordinal = u32::from_be_bytes(*ordinal) as usize;
            let slot = *slots.get(ordinal).ok_or(EventDecodeError)?;
            state.sends.push(at, slot, |slot| otps.at(slot).phone);
        }
        for _ in 0..take_u64(&mut rest)? {
            let (id, after) = rest.split_first_chunk().ok_or(EventDecodeError)?;
            rest = after;
            let give_up_at = Timestamp::from_millis(take_u64(&mut rest)?);
            let claimed = take_bool(&mut rest)?;
            let (bytes, after) = rest.split_first_chunk().ok_or(EventDecodeError)?;
            let bytes = u32::from_be_bytes(*bytes) as usize;
            let (unwritten, after) = after.split_at_checked(bytes).ok_or(EventDecodeError)?;
            rest = after;
            let unsent = Unsent { give_up_at, claimed };
            state.messages.insert(MessageId::from_bytes(*id), unsent, unwritten);
        }
        state.repeats = Repeats::take_from(&mut rest)?;
        state.otps.earlier = EarlierMessages::take_from(&mut rest)?;
        state.otps.take_rebased_from(&mut rest)?;
        state.prefixes = PrefixCounts::take_from(&mut rest)?;
        state.callers = CallerLog::take_from(&mut rest)?;
        state.otps.extras = Extras::take_from(&mut rest)?;
        state.otps.chains = Chains::take_from(&mut rest)?;
        state.otps.extras.take_inbound_from(&mut rest)?;
        state.otps.extras.take_open_from(&mut rest)?;
        state.conversions = ConversionCounts::take_from(&mut rest)?;
        if rest.is_empty() { Ok(state) } else { Err(EventDecodeError) }
    }

    /// Returns whether a code was sent to a phone in the last hour.
    pub(crate) fn had_code(&self, phone: postrider_domain::Phone) -> bool {
        self.phone_wait(phone, 1, Duration::from_secs(3600)).is_some()
    }

    /// Returns how long until one more one-time password to `phone` keeps the limit; `None`: now.
    pub(crate) fn phone_wait(
        &self,
        phone: postrider_domain::Phone,
        limit: u32,
        window: Duration,
    ) -> Option<Duration> {
        if limit == 0 {
            return None;
        }
        self.sends.wait_for_phone(self.now, phone, limit, window, |slot| self.otps.at(slot).phone)
    }
}

impl HotState {
    /// Adds a request whose code its person sends: it has no message to hand over.
    fn insert_inbound(&mut self, otp: Otp) {
        let slot = self.otps.insert(Otp { delivery: Delivery::Sent, unsettled: 0, ..otp });
        self.count_send(otp.id.timestamp(), slot);
    }

    /// Counts a code that the event is about to end.
    fn count_end(&mut self, event: &Event) {
        let (id, verified) = match *event {
            Event::OtpVerified { id } => (id, true),
            Event::OtpExpired { id } | Event::OtpCancelled { id } => (id, false),
            Event::OtpMissed { id, attempts } if attempts >= ATTEMPTS_MAX => (id, false),
            _ => return,
        };
        let Some(&Otp { phone, delivery, .. }) = self.otps.get(id) else { return };
        if self.otps.extras.is_uncounted(id) {
            return;
        }
        let sent_at = self.otps.sent_at(id);
        if verified {
            self.prefixes.verified(sent_at, calling_code(phone));
        }
        let chain = self.otps.chains.get(id);
        let to_phone = chain.map(Chain::best_to_phone);
        // Nothing went to the phone, so the outcome says nothing about the phone.
        if matches!(to_phone, Some(None | Some(TryStatus::Failed))) {
            return;
        }
        let delivery = to_phone.flatten().map_or(delivery, TryStatus::delivery);
        // Nobody can submit a code that did not arrive.
        let never_left = matches!(delivery, Delivery::Queued | Delivery::Failed);
        if verified || !never_left {
            let sends = chain.map_or_else(|| self.otps.earlier.newest(id), Chain::sent_to_phone);
            self.conversions.ended(sent_at, phone, (verified, sends.max(1)));
        }
    }

    /// Applies an event that changes more than one request of its own, or one of few.
    fn play_rare(&mut self, event: &Event) {
        match *event {
            Event::PumpingSuspected { calling_code, at } => {
                self.advance(at);
                self.prefixes.suspected(self.now(), calling_code);
            }
            Event::OtpEarlier { id, number, delivery, unsettled } => {
                self.otps.earlier.set(id, number, MessageStanding { delivery, unsettled });
            }
            Event::MessageQueued { id, give_up_at, claimed, ref unwritten } => {
                self.advance(id.timestamp());
                self.messages.insert(id, Unsent { give_up_at, claimed }, unwritten);
            }
            Event::OtpTest { id, phone, expiry, key_version } => {
                let otp = Otp::new(id, phone, expiry, CodeLength::default(), key_version);
                // It has no message to hand over.
                self.otps.insert(Otp { delivery: Delivery::Sent, unsettled: 0, ..otp });
                self.otps.extras.set_test(id);
            }
            Event::OtpInbound { id, phone, expiry, length, key_version } => {
                self.insert_inbound(Otp::new(id, phone, expiry, length, key_version));
                self.otps.extras.set_inbound(id, phone);
            }
            Event::OtpOpen { id, expiry, key_version, hash } => {
                let length = CodeLength::default();
                self.insert_inbound(Otp::new(id, Phone::ANYBODY, expiry, length, key_version));
                self.otps.extras.set_open(id, hash);
            }
            Event::OtpNoted { id, ref notes } if self.otps.find(id).is_some() => {
                self.otps.extras.set_notes(id, notes.clone());
            }
            Event::OtpChain { id, ref plan } => self.plan_chain(id, plan),
            Event::OtpTry { id, step, price, skipped, at } => {
                let status = if skipped { TryStatus::Skipped } else { TryStatus::Queued };
                let ended_at = skipped.then_some(at);
                let tried = Try { step, status, error: None, price, started_at: at, ended_at };
                let best = self.otps.chains.begin(id, tried);
                self.note_best(id, best);
            }
            Event::OtpTryChanged { id, number, status, error, at, ended } => {
                let change = TryChange { number, status, error, at, ended };
                let best = self.otps.chains.change(id, change);
                self.note_best(id, best);
            }
            Event::OtpCaller { caller, at } => {
                self.advance(at);
                self.callers.push(self.now(), caller);
            }
            _ => {}
        }
    }

    /// Sets the plan of a request over several channels; its chain has the state of its tries.
    fn plan_chain(&mut self, id: RequestId, plan: &ChainPlan) {
        let Some(&otp) = self.otps.get(id) else { return };
        let adopted = plan.adopts.map(|price| self.messages_so_far(&otp, price));
        if let Some(otp) = self.otps.get_mut(id) {
            otp.unsettled = 0;
        }
        self.otps.chains.plan(id, plan.clone());
        if let Some(tries) = adopted {
            self.otps.earlier.forget(id);
            self.repeats.set(id, None);
            let steps = vec![ChainStep { channel: OtpChannel::Messaging, timeout_seconds: 0 }];
            self.otps.chains.adopt(id, steps, tries);
        }
    }

    /// Returns the messages of a request that has had no chain so far, as tries.
    fn messages_so_far(&self, otp: &Otp, price: u64) -> Vec<Try> {
        let started_at = self.otps.sent_at(otp.id);
        let tried = |number| {
            let MessageStanding { delivery, unsettled } = self.otps.earlier.message(otp, number).is;
            let status = TryStatus::of(delivery);
            let paid = price.saturating_mul(unsettled.max(1).into());
            Try {
                step: ChainStep { channel: OtpChannel::Messaging, timeout_seconds: 0 },
                status,
                error: None,
                price: if status == TryStatus::Failed { 0 } else { paid },
                started_at,
                ended_at: Some(started_at),
            }
        };
        (1..=self.otps.earlier.newest(otp.id)).map(tried).collect()
    }

    fn note_best(&mut self, id: RequestId, best: Option<TryStatus>) {
        if let Some((otp, best)) = self.otps.get_mut(id).zip(best) {
            otp.delivery = best.delivery();
        }
    }
}

fn take_bool(bytes: &mut &[u8]) -> Result<bool, EventDecodeError> {
    let (byte, rest) = bytes.split_first().ok_or(EventDecodeError)?;
    *bytes = rest;
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(EventDecodeError),
    }
}

fn take_u64(bytes: &mut &[u8]) -> Result<u64, EventDecodeError> {
    let (word, rest) = bytes.split_first_chunk().ok_or(EventDecodeError)?;
    *bytes = rest;
    Ok(u64::from_be_bytes(*word))
}
