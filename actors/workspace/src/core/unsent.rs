//! Pure: the messages that a workspace has accepted and that the channel has not answered for.
//!
//! It owns their claims too. A number claims a message durably before it dispatches it. A message
//! that is claimed and not settled after a crash may have been taken, so it is never dispatched
//! again.
//!
//! Most new messages have no records: they are here and in the journal, until their outcome is
//! known or their records are written before that. So most messages are written once.

use std::collections::BTreeMap;
use std::time::Duration;

use hashbrown::HashMap;
use postrider_domain::{Event, MessageId, NumberId, Timestamp};

use crate::core::Core;
use crate::core::effects::Effects;

/// The time after its life for which a message is left to its number, which may be sending it.
const GRACE: Duration = Duration::from_secs(3600);

/// The bytes of messages without records that a workspace has at most.
const UNWRITTEN_BYTES_MAX: usize = 512 * 1024;

/// The state of an unsent message in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unsent {
    /// The time after which the message is not worth sending.
    pub(crate) give_up_at: Timestamp,
    /// Set if the message was about to be handed over, so that it may have been.
    pub(crate) claimed: bool,
}

/// Unsent messages by id, and so by the moment they came.
#[derive(Debug, Default)]
pub(crate) struct UnsentMessages {
    by_id: BTreeMap<MessageId, Unsent>,
    /// The numbers of messages that were moved or recovered. Only of these may another number have
    /// a copy left.
    numbers: HashMap<MessageId, NumberId>,
    /// The messages without records, with their contents.
    unwritten: BTreeMap<MessageId, Box<[u8]>>,
    /// The bytes of these.
    unwritten_bytes: usize,
}

impl UnsentMessages {
    /// Returns the number of unsent messages.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns whether the message is unsent.
    pub(crate) fn contains(&self, id: MessageId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Returns the time after which an unsent message is not worth sending.
    pub(crate) fn give_up_at(&self, id: MessageId) -> Option<Timestamp> {
        self.by_id.get(&id).map(|unsent| unsent.give_up_at)
    }

    /// Returns whether the message may have been handed over.
    pub(crate) fn is_claimed(&self, id: MessageId) -> bool {
        self.by_id.get(&id).is_some_and(|unsent| unsent.claimed)
    }

    /// Returns all messages, oldest first.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (MessageId, Unsent)> {
        self.by_id.iter().map(|(id, unsent)| (*id, *unsent))
    }

    /// Returns the only number that may send the message, if known here. Otherwise just one has it.
    pub(crate) fn number(&self, id: MessageId) -> Option<NumberId> {
        self.numbers.get(&id).copied()
    }

    /// Moves the message to this number; changes nothing if it is settled.
    pub(crate) fn set_number(&mut self, id: MessageId, number: NumberId) {
        if self.contains(id) {
            self.numbers.insert(id, number);
        }
    }

    /// Adds a message: with its bytes if it has no records, otherwise with none.
    pub(crate) fn insert(&mut self, id: MessageId, unsent: Unsent, unwritten: &[u8]) {
        self.take_unwritten(id);
        self.by_id.insert(id, unsent);
        if !unwritten.is_empty() {
            self.unwritten_bytes += unwritten.len();
            self.unwritten.insert(id, unwritten.into());
        }
    }

    /// Returns the bytes of a message that has no records.
    pub(crate) fn unwritten(&self, id: MessageId) -> Option<&[u8]> {
        self.unwritten.get(&id).map(|bytes| &**bytes)
    }

    /// Removes and returns the bytes of a message, which has its records from now on.
    pub(crate) fn take_unwritten(&mut self, id: MessageId) -> Option<Box<[u8]>> {
        let bytes = self.unwritten.remove(&id)?;
        self.unwritten_bytes -= bytes.len();
        Some(bytes)
    }

    /// Returns the messages without records, oldest first.
    pub(crate) fn all_unwritten(&self) -> impl Iterator<Item = MessageId> {
        self.unwritten.keys().copied()
    }

    /// Returns those that were accepted before this moment, and those that are ahead of `now`: the
    /// clock was rebased.
    pub(crate) fn old_unwritten(
        &self,
        before: Timestamp,
        now: Timestamp,
    ) -> impl Iterator<Item = MessageId> {
        let [before, ahead] =
            [before, now.plus(Duration::from_millis(1))].map(|at| MessageId::from_parts(at, 0));
        let old = self.unwritten.range(..before).chain(self.unwritten.range(ahead..));
        old.map(|(id, _)| *id)
    }

    /// Returns whether a message has no records.
    pub(crate) fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Returns whether one more message of so many bytes may go without records.
    pub(crate) const fn has_room_for(&self, unwritten: usize) -> bool {
        self.unwritten_bytes + unwritten <= UNWRITTEN_BYTES_MAX
    }

    /// Notes whether the message may have been handed over; changes nothing if it is settled.
    pub(crate) fn set_claimed(&mut self, id: MessageId, claimed: bool) {
        if let Some(unsent) = self.by_id.get_mut(&id) {
            unsent.claimed = claimed;
        }
    }

    pub(crate) fn remove(&mut self, id: MessageId) {
        self.by_id.remove(&id);
        self.numbers.remove(&id);
        self.take_unwritten(id);
    }

    /// Messages that came after `to` count as come then, so that their lives end earlier.
    pub(crate) fn rebase(&mut self, to: Timestamp) {
        for (id, unsent) in &mut self.by_id {
            let life = unsent.give_up_at.since(id.timestamp());
            // A message whose life ends before its id's moment was rebased before.
            if !life.is_zero() {
                unsent.give_up_at = unsent.give_up_at.min(to.plus(life));
            }
        }
    }

    /// Returns up to `max` of the oldest whose life has been over so long that no number has them.
    pub(crate) fn overdue(&self, now: Timestamp, max: usize) -> Vec<MessageId> {
        // A message that came later ends later, or is found a little later.
        let overdue = |(_, unsent): &(MessageId, Unsent)| unsent.give_up_at.plus(GRACE) <= now;
        self.iter().take_while(overdue).take(max).map(|(id, _)| id).collect()
    }
}

/// Releases the claims of `released`, which were surely not taken.
pub(crate) fn release(core: &mut Core, released: &[MessageId], effects: &mut Effects) {
    for id in released.iter().copied() {
        if core.hot.messages.is_claimed(id) {
            core.perform(Event::MessageReleased { id }, effects);
        }
    }
}

/// Claims `asked` for a number. Returns the messages that it may hand over once that is durable.
///
/// These are all that are not settled yet and that no other number has taken over.
pub(crate) fn claim(
    core: &mut Core,
    number: NumberId,
    mut asked: Vec<MessageId>,
    effects: &mut Effects,
) -> Vec<MessageId> {
    let messages = &core.hot.messages;
    asked.retain(|id| {
        messages.contains(*id) && messages.number(*id).is_none_or(|own| own == number)
    });
    for id in asked.iter().copied() {
        if !core.hot.messages.is_claimed(id) {
            core.perform(Event::MessageClaimed { id }, effects);
        }
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_overdue_is_found_oldest_first() {
        let at = |seconds: u64| Timestamp::from_millis(seconds * 1000);
        let id = |seconds| MessageId::from_parts(at(seconds), 0);
        let mut unsent = UnsentMessages::default();
        for seconds in [3, 1, 2] {
            let give_up_at = at(seconds + 10);
            unsent.insert(id(seconds), Unsent { give_up_at, claimed: false }, &[]);
        }
        assert_eq!(unsent.overdue(at(3610), 9), []);
        assert_eq!(unsent.overdue(at(3612), 9), [id(1), id(2)]);
        assert_eq!(unsent.overdue(at(9999), 2), [id(1), id(2)]);
        unsent.remove(id(1));
        assert!(!unsent.contains(id(1)) && unsent.contains(id(2)));
        assert_eq!(unsent.overdue(at(9999), 1), [id(2)]);
    }

    #[test]
    fn a_rebase_leaves_a_message_its_life_and_is_the_same_twice() {
        let at = |seconds: u64| Timestamp::from_millis(seconds * 1000);
        let id = |seconds| MessageId::from_parts(at(seconds), 0);
        let mut unsent = UnsentMessages::default();
        for seconds in [90, 500] {
            unsent.insert(
                id(seconds),
                Unsent { give_up_at: at(seconds + 30), claimed: false },
                &[],
            );
        }
        for _ in 0..2 {
            unsent.rebase(at(100));
            assert_eq!(unsent.give_up_at(id(90)), Some(at(120)));
            assert_eq!(unsent.give_up_at(id(500)), Some(at(130)));
        }
    }

    #[test]
    fn old_messages_without_records_are_found_also_after_a_rebase() {
        let at = |seconds: u64| Timestamp::from_millis(seconds * 1000);
        let id = |seconds| MessageId::from_parts(at(seconds), u128::MAX);
        let mut unsent = UnsentMessages::default();
        for seconds in [5, 7, 9, 11] {
            unsent.insert(id(seconds), Unsent { give_up_at: at(99), claimed: false }, b"message");
        }
        let old = |before, now| -> Vec<_> { unsent.old_unwritten(at(before), at(now)).collect() };
        assert_eq!(old(4, 5), [id(7), id(9), id(11)], "they are ahead of the clock");
        assert_eq!(old(6, 7), [id(5), id(9), id(11)]);
        assert_eq!(old(10, 11), [id(5), id(7), id(9)]);
        assert_eq!(old(12, 13), [id(5), id(7), id(9), id(11)]);
        assert_eq!(unsent.all_unwritten().count(), 4);
        unsent.take_unwritten(id(5));
        unsent.remove(id(7));
        assert_eq!((unsent.all_unwritten().count(), unsent.unwritten_bytes), (2, 14));
    }

    #[test]
    fn a_claim_holds_until_it_is_released() {
        let (one, none) = (MessageId::from_bytes([1; 16]), MessageId::from_bytes([2; 16]));
        let mut unsent = UnsentMessages::default();
        let give_up_at = Timestamp::from_millis(5);
        unsent.insert(one, Unsent { give_up_at, claimed: false }, &[]);
        for (claimed, of) in [(true, one), (true, none), (false, one)] {
            unsent.set_claimed(of, claimed);
            assert_eq!(unsent.is_claimed(of), claimed && of == one);
        }
        assert_eq!(unsent.len(), 1);
    }
}
