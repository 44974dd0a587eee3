//! Pure: the requests for one-time passwords that a workspace holds in memory, and their messages.
//!
//! A request has a first message, and one for each resend of its code. The outcome of the newest is
//! stored with the request. `EarlierMessages` has the outcomes of the others, so that a report
//! about one of them is not taken for another's.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use postrider_domain::code::{ATTEMPTS_MAX, CodeLength, Expiry};
use postrider_domain::event::{Delivery, EventDecodeError, OtpStatus, encode};
use postrider_domain::{OtpCode, Phone, RequestId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::core::Core;
use crate::core::otp::compact_index::CompactIndex;
use crate::core::otp::extras::Extras;
use crate::core::otp::failover_state::Chains;
use crate::core::otp::types::VerifyOtpError;

/// The time for which an ended request is known after it would have expired.
pub(crate) const KEPT_AFTER_EXPIRY: Duration = Duration::from_secs(3600);

/// The number of requests in a chunk. Chunks keep growth from copying requests.
const CHUNK: usize = 1024;

/// A request's place in the table, until it is removed.
pub(crate) type OtpSlot = u32;

/// One request: 32 bytes. Its id has the time of its send, unless the clock was rebased since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Otp {
    pub(crate) id: RequestId,
    pub(crate) phone: Phone,
    pub(crate) expiry: Expiry,
    pub(crate) length: CodeLength,
    /// The version of the master key that its code is derived with.
    pub(crate) key_version: u8,
    /// Wrong codes so far.
    pub(crate) attempts: u8,
    /// The noted status; `Active` also while its time has passed and nobody has noted it.
    pub(crate) noted: OtpStatus,
    /// The delivery of its newest message.
    pub(crate) delivery: Delivery,
    /// The number of payments for that message without an answer of the channel.
    pub(crate) unsettled: u8,
}

impl Otp {
    /// Returns a request that was just accepted.
    pub(crate) const fn new(
        id: RequestId,
        phone: Phone,
        expiry: Expiry,
        length: CodeLength,
        key_version: u8,
    ) -> Self {
        Self {
            id,
            phone,
            expiry,
            length,
            key_version,
            attempts: 0,
            noted: OtpStatus::Active,
            delivery: Delivery::Queued,
            unsettled: 1,
        }
    }

    /// Returns the standing of its newest message.
    pub(crate) const fn standing(&self) -> MessageStanding {
        MessageStanding { delivery: self.delivery, unsettled: self.unsettled }
    }

    /// Returns whether its newest message was neither handed over nor given up.
    ///
    /// A code that was entered has arrived.
    pub(crate) fn is_unsent(&self) -> bool {
        self.standing().is_unsent() && self.is_of_use()
    }

    /// Returns whether unsent messages are still to be sent: the code is not entered or cancelled.
    pub(crate) const fn is_of_use(&self) -> bool {
        !matches!(self.noted, OtpStatus::Verified | OtpStatus::Cancelled)
    }

    /// Returns the number of wrong codes that are still allowed.
    pub(crate) const fn attempts_remaining(&self) -> u8 {
        ATTEMPTS_MAX.saturating_sub(self.attempts)
    }
}

/// The table: by slot, by id, and by the second in which something is due.
#[derive(Debug, Default)]
pub(crate) struct OtpTable {
    chunks: Vec<Vec<Otp>>,
    /// Slots to use again.
    free: Vec<OtpSlot>,
    /// Slots by request id.
    by_id: CompactIndex,
    /// The slots by the second (rounded up) in which they expire or are forgotten. Each slot is in
    /// exactly one list.
    due: BTreeMap<u64, Vec<OtpSlot>>,
    /// The messages of requests before the newest.
    pub(crate) earlier: EarlierMessages,
    /// The data that few requests have.
    pub(crate) extras: Extras,
    /// The chains of those that go over several channels.
    pub(crate) chains: Chains,
    /// The send times of requests whose ids are later than the moment of a rebase.
    rebased: BTreeMap<RequestId, Timestamp>,
    len: usize,
}

impl OtpTable {
    /// Returns the number of requests held.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Adds a request, whose id no other has.
    pub(crate) fn insert(&mut self, otp: Otp) -> OtpSlot {
        debug_assert!(self.find(otp.id).is_none(), "{} twice", otp.id);
        let slot = self.free.pop().unwrap_or_else(|| self.new_slot(otp));
        self.chunks[slot as usize / CHUNK][slot as usize % CHUNK] = otp;
        let chunks = &self.chunks;
        self.by_id.insert_new(&otp.id, slot, |slot| chunk_get(chunks, slot).id);
        self.due.entry(due_second(self.expires_at(&otp))).or_default().push(slot);
        self.len += 1;
        slot
    }

    fn new_slot(&mut self, otp: Otp) -> OtpSlot {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            // The first chunk grows with need: most workspaces are small.
            let capacity = if self.chunks.is_empty() { 0 } else { CHUNK };
            self.chunks.push(Vec::with_capacity(capacity));
        }
        let full_chunks = self.chunks.len() - 1;
        let chunk = &mut self.chunks[full_chunks];
        chunk.push(otp);
        (full_chunks * CHUNK + chunk.len() - 1) as OtpSlot
    }

    /// Returns the time at which a request counts as sent.
    pub(crate) fn sent_at(&self, id: RequestId) -> Timestamp {
        self.rebased.get(&id).copied().unwrap_or_else(|| id.timestamp())
    }

    /// Returns the time at which a request's code expires.
    pub(crate) fn expires_at(&self, otp: &Otp) -> Timestamp {
        self.sent_at(otp.id).plus(Duration::from_secs(otp.expiry.as_seconds().into()))
    }

    /// Returns the time at which a request is forgotten.
    pub(crate) fn forgotten_at(&self, otp: &Otp) -> Timestamp {
        self.expires_at(otp).plus(KEPT_AFTER_EXPIRY)
    }

    /// Returns a request's status at `now`.
    pub(crate) fn status(&self, otp: &Otp, now: Timestamp) -> OtpStatus {
        match otp.noted {
            OtpStatus::Active if now >= self.expires_at(otp) => OtpStatus::Expired,
            noted => noted,
        }
    }

    /// Dates requests that were sent after `to` back to that moment.
    pub(crate) fn rebase(&mut self, to: Timestamp) {
        let later = self.iter().map(|(_, otp)| otp.id).filter(|id| self.sent_at(*id) > to);
        let later: Vec<_> = later.map(|id| (id, to)).collect();
        self.rebased.extend(later);
        self.list_again();
    }

    /// Lists every request for the second in which it expires.
    ///
    /// When that second comes, a request that has ended is listed for the second in which it is
    /// forgotten.
    fn list_again(&mut self) {
        for slot in std::mem::take(&mut self.due).into_values().flatten() {
            let second = due_second(self.expires_at(self.at(slot)));
            self.due.entry(second).or_default().push(slot);
        }
    }

    /// Appends the moments that a rebase has given to requests, for a snapshot.
    pub(crate) fn encode_rebased_into(&self, out: &mut Vec<u8>) {
        let rebased: Vec<_> = self.rebased.iter().collect();
        encode(&rebased, out);
    }

    /// Reads the bytes of [`encode_rebased_into`](Self::encode_rebased_into), for held requests.
    pub(crate) fn take_rebased_from(&mut self, bytes: &mut &[u8]) -> Result<(), EventDecodeError> {
        let (rebased, rest) = postcard::take_from_bytes::<Vec<(RequestId, Timestamp)>>(bytes)
            .map_err(|_| EventDecodeError)?;
        *bytes = rest;
        self.rebased = rebased.into_iter().filter(|(id, _)| self.find(*id).is_some()).collect();
        if !self.rebased.is_empty() {
            self.list_again();
        }
        Ok(())
    }

    /// Returns the request in a slot that is in use.
    pub(crate) fn at(&self, slot: OtpSlot) -> &Otp {
        chunk_get(&self.chunks, slot)
    }

    /// Returns the slot of a request.
    pub(crate) fn find(&self, id: RequestId) -> Option<OtpSlot> {
        self.by_id.get(&id, |slot| self.at(slot).id)
    }

    /// Returns the request with this id.
    pub(crate) fn get(&self, id: RequestId) -> Option<&Otp> {
        self.find(id).map(|slot| self.at(slot))
    }

    /// Returns the request with this id, to change its mutable fields.
    pub(crate) fn get_mut(&mut self, id: RequestId) -> Option<&mut Otp> {
        let slot = self.find(id)? as usize;
        Some(&mut self.chunks[slot / CHUNK][slot % CHUNK])
    }

    /// Notes that the code of the request in a slot is sent once more, as its newest message.
    pub(crate) fn send_again(&mut self, slot: OtpSlot) {
        let otp = &mut self.chunks[slot as usize / CHUNK][slot as usize % CHUNK];
        let unanswered = if self.earlier.push(otp.id, otp.standing()) { 0 } else { otp.unsettled };
        otp.delivery = Delivery::Queued;
        otp.unsettled = unanswered.saturating_add(1);
    }

    /// Returns whether the expiry or removal of a request is due.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        self.due.first_key_value().is_some_and(|(second, _)| *second <= now.as_secs())
    }

    /// Returns the requests before one, newest first, that were dated back.
    pub(crate) fn dated_back(&self, before: Option<RequestId>) -> impl Iterator<Item = RequestId> {
        let before = before.map_or(Bound::Unbounded, Bound::Excluded);
        self.rebased.range((Bound::Unbounded, before)).rev().map(|(id, _)| *id)
    }

    /// Takes one slot whose expiry or removal is due. The caller puts it back with
    /// [`list_until_forgotten`](Self::list_until_forgotten) or [`remove`](Self::remove)s it.
    pub(crate) fn take_due(&mut self, now: Timestamp) -> Option<OtpSlot> {
        let mut first = self.due.first_entry()?;
        if *first.key() > now.as_secs() {
            return None;
        }
        let slot = first.get_mut().pop();
        if first.get().is_empty() {
            first.remove();
        }
        slot
    }

    /// Lists a slot that [`take_due`](Self::take_due) gave for the moment it is forgotten.
    pub(crate) fn list_until_forgotten(&mut self, slot: OtpSlot) {
        let forgotten_at = self.forgotten_at(self.at(slot));
        self.due.entry(due_second(forgotten_at)).or_default().push(slot);
    }

    /// Frees a slot that [`take_due`](Self::take_due) gave.
    pub(crate) fn remove(&mut self, slot: OtpSlot) {
        let id = self.at(slot).id;
        self.by_id.remove(&id, slot);
        self.earlier.forget(id);
        self.extras.forget(id);
        self.chains.forget(id);
        self.rebased.remove(&id);
        self.len -= 1;
        if self.len == 0 {
            // Gives the memory of a busy hour back.
            *self = Self::default();
        } else {
            self.free.push(slot);
        }
    }

    /// Returns whether one of a request's messages was neither handed over nor given up.
    pub(crate) fn owes(&self, otp: &Otp) -> bool {
        let earlier = otp.is_of_use() && self.earlier.any_unsent(otp.id);
        earlier || otp.is_unsent() || self.chains.owes(otp.id)
    }

    /// Forgets, for a replay, the requests that its events ended an hour ago.
    ///
    /// Requests that have still to be reported or paid back stay for a tick.
    pub(crate) fn forget_ended(&mut self, now: Timestamp) {
        let past = now.minus(KEPT_AFTER_EXPIRY).as_secs();
        let mut kept = Vec::new();
        while let Some(first) = self.due.first_entry()
            && *first.key() < past
        {
            for slot in first.remove() {
                let otp = self.at(slot);
                if otp.noted == OtpStatus::Active || self.owes(otp) {
                    kept.push(slot);
                } else {
                    self.remove(slot);
                }
            }
        }
        if !kept.is_empty() {
            // Long overdue: looked at again once a second of the journal, not once a frame.
            self.due.entry(past).or_default().append(&mut kept);
        }
    }

    /// Returns every request, in no particular order, with its slot.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (OtpSlot, &Otp)> {
        self.due.values().flatten().map(|slot| (*slot, self.at(*slot)))
    }
}

fn chunk_get(chunks: &[Vec<Otp>], slot: OtpSlot) -> &Otp {
    &chunks[slot as usize / CHUNK][slot as usize % CHUNK]
}

/// Returns the first whole second that is not before `at`.
fn due_second(at: Timestamp) -> u64 {
    at.as_millis().div_ceil(1000)
}

/// The greatest number of a message; all messages from there on share it.
const NUMBER_MAX: u8 = u8::MAX;

/// One of a request's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OtpMessage {
    /// The number of the message: 1 is the first.
    pub(crate) number: u8,
    /// Set if no message came after it.
    pub(crate) is_newest: bool,
    pub(crate) is: MessageStanding,
}

/// The standing of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MessageStanding {
    /// The delivery of the message.
    pub(crate) delivery: Delivery,
    /// The number of payments for it without an answer of the channel.
    pub(crate) unsettled: u8,
}

impl MessageStanding {
    /// Returns whether the message was neither handed over nor given up.
    pub(crate) fn is_unsent(self) -> bool {
        self.unsettled > 0 && self.delivery == Delivery::Queued
    }
}

/// The messages that have a newer one, by request, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct EarlierMessages(BTreeMap<RequestId, Vec<MessageStanding>>);

impl EarlierMessages {
    fn of(&self, id: RequestId) -> &[MessageStanding] {
        self.0.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of the request's newest message.
    pub(crate) fn newest(&self, id: RequestId) -> u8 {
        u8::try_from(self.of(id).len() + 1).unwrap_or(NUMBER_MAX)
    }

    /// Returns the request's message of this number, or the newest if there is none of it.
    pub(crate) fn message(&self, otp: &Otp, number: u8) -> OtpMessage {
        let place = usize::from(number).checked_sub(1);
        match place.and_then(|place| self.of(otp.id).get(place)) {
            Some(is) => OtpMessage { number, is_newest: false, is: *is },
            None => OtpMessage { number: self.newest(otp.id), is_newest: true, is: otp.standing() },
        }
    }

    /// Returns whether an earlier message of the request was neither handed over nor given up.
    pub(crate) fn any_unsent(&self, id: RequestId) -> bool {
        self.of(id).iter().any(|it| it.is_unsent())
    }

    /// Adds the replaced newest message; returns whether there was room.
    pub(crate) fn push(&mut self, id: RequestId, newest: MessageStanding) -> bool {
        let room = self.newest(id) < NUMBER_MAX;
        if room {
            self.0.entry(id).or_default().push(newest);
        }
        room
    }

    /// Sets the standing of a message.
    pub(crate) fn set(&mut self, id: RequestId, number: u8, standing: MessageStanding) {
        let all = self.0.get_mut(&id);
        let place = usize::from(number).checked_sub(1);
        if let Some(it) = all.zip(place).and_then(|(all, place)| all.get_mut(place)) {
            *it = standing;
        }
    }

    /// Forgets the request's.
    pub(crate) fn forget(&mut self, id: RequestId) {
        self.0.remove(&id);
    }

    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        let all: Vec<_> = self.0.iter().collect();
        encode(&all, out);
    }

    pub(crate) fn take_from(bytes: &mut &[u8]) -> Result<Self, EventDecodeError> {
        let (all, rest) =
            postcard::take_from_bytes::<Vec<(RequestId, Vec<MessageStanding>)>>(bytes)
                .map_err(|_| EventDecodeError)?;
        *bytes = rest;
        Ok(Self(all.into_iter().collect()))
    }
}

impl Core {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn otp(at_ms: u64, unique: u128) -> Otp {
        Otp {
            id: RequestId::from_parts(Timestamp::from_millis(at_ms), unique),
            phone: "+15550123456".parse().unwrap(),
            expiry: Expiry::from_seconds(60).unwrap(),
            length: CodeLength::default(),
            key_version: 1,
            attempts: 0,
            noted: OtpStatus::Active,
            delivery: Delivery::Queued,
            unsettled: 1,
        }
    }

    #[test]
    fn a_request_is_small() {
        assert_eq!(size_of::<Otp>(), 32);
    }

    #[test]
    fn slots_are_found_freed_and_used_again() {
        let mut table = OtpTable::default();
        for unique in 0..5_000 {
            table.insert(otp(1_000, unique));
        }
        assert_eq!(table.len(), 5_000);
        assert_eq!(table.take_due(Timestamp::from_millis(60_999)), None);
        let mut seen = 0;
        while let Some(slot) = table.take_due(Timestamp::from_millis(61_000)) {
            seen += 1;
            if table.at(slot).id == otp(1_000, 17).id {
                table.list_until_forgotten(slot);
            } else {
                table.remove(slot);
            }
        }
        assert_eq!((seen, table.len()), (5_000, 1));
        assert!(table.get(otp(1_000, 17).id).is_some());
        assert!(table.get(otp(1_000, 18).id).is_none());
        let slot = table.insert(otp(2_000, 1));
        assert!(slot < 5_000, "a freed slot is used again");
        assert_eq!(table.iter().count(), 2);
    }

    #[test]
    fn a_replay_forgets_only_what_is_an_hour_past_its_expiry() {
        let ended = |at_ms, unique| Otp { noted: OtpStatus::Verified, ..otp(at_ms, unique) };
        let mut table = OtpTable::default();
        table.insert(ended(0, 1));
        table.insert(ended(10_000, 2));
        table.forget_ended(Timestamp::from_millis(3_660_000));
        assert_eq!(table.len(), 2);
        table.forget_ended(Timestamp::from_millis(3_661_000));
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn a_replay_keeps_what_was_not_brought_to_an_end() {
        let long_after = Timestamp::from_millis(9_000_000);
        let mut table = OtpTable::default();
        table.insert(otp(0, 1));
        table.insert(Otp { noted: OtpStatus::Expired, ..otp(0, 2) });
        table.insert(Otp { noted: OtpStatus::Expired, delivery: Delivery::Sent, ..otp(0, 3) });
        for later in 0..3 {
            table.forget_ended(long_after.plus(Duration::from_secs(later)));
            assert_eq!(table.len(), 2);
        }
        assert!(table.find(otp(0, 3).id).is_none());
        assert_eq!(table.iter().count(), 2);
        assert!(table.take_due(long_after).is_some() && table.take_due(long_after).is_some());
    }
}
