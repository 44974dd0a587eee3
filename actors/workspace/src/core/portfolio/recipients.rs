//! Pure: the unique recipients of a portfolio within a moving 24 hours.
//!
//! It owns the hash of each recipient, the moment since which it counts, and a mark of the message
//! for which it was counted. A recipient counts for 24 hours, never shorter and at most four
//! seconds longer. A further message within that time prolongs nothing. Two recipients whose hashes
//! have the same 48 bits count as one, so an error lets a message pass. With 100,000 recipients a
//! day that happens once in a hundred years.

use std::collections::VecDeque;

use hashbrown::HashTable;
use postrider_domain::Timestamp;

/// The milliseconds of a step, in which moments are kept.
const STEP_MILLIS: u64 = 4000;
/// The time for which a recipient counts.
const DAY_MILLIS: u64 = 24 * 3600 * 1000;
const DAY_STEPS: u32 = (DAY_MILLIS / STEP_MILLIS) as u32;
/// Marks an entry that no failure gives back: more than one message relies on it.
const FIXED: u32 = 1 << 31;

/// The bits of a hash that distinguish recipients.
const HASH_BITS: u64 = (1 << 48) - 1;
/// Spreads them over a table that looks at the first and the last of 64.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A mark that distinguishes a message from others to the same recipient.
///
/// So only the failure of the message for which a recipient was counted gives the place back.
/// Another message has the same mark once in 65,536.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MessageMark(u16);

impl MessageMark {
    /// Returns the mark of a message with this id, or of a broadcast's message to its recipient.
    #[must_use]
    pub const fn of(id: &[u8; 16]) -> Self {
        Self(u16::from_be_bytes([id[14], id[15]]))
    }

    /// Returns the mark of one of the messages of a request for a code.
    pub(crate) const fn of_code(request: &[u8; 16], message: u8) -> Self {
        Self(Self::of(request).0.wrapping_add(message as u16))
    }
}

/// A recipient: the bits of its hash, the mark, and its step, perhaps with [`FIXED`]. Three words,
/// because a `u64` would be aligned to eight bytes.
#[derive(Debug, Clone, Copy)]
struct RecipientEntry([u32; 3]);

impl RecipientEntry {
    const fn new(hash: u64, mark: MessageMark, step: u32) -> Self {
        let upper = (hash & HASH_BITS) >> 32;
        Self([hash as u32, (upper as u32) << 16 | mark.0 as u32, step])
    }

    /// Returns whether it is the recipient of this hash.
    const fn is_of(&self, hash: u64) -> bool {
        self.id() == hash & HASH_BITS
    }

    const fn id(&self) -> u64 {
        ((self.0[1] >> 16) as u64) << 32 | self.0[0] as u64
    }

    /// Returns the position in a table.
    const fn place(&self) -> u64 {
        place(self.id())
    }

    const fn mark(&self) -> MessageMark {
        MessageMark(self.0[1] as u16)
    }

    const fn step(&self) -> u32 {
        self.0[2] & !FIXED
    }

    const fn is_fixed(&self) -> bool {
        self.0[2] & FIXED != 0
    }

    const fn is_over(&self, now: u32) -> bool {
        self.step() + DAY_STEPS <= now
    }
}

/// Returns the position of the recipient of a hash in a table.
const fn place(hash: u64) -> u64 {
    (hash & HASH_BITS).wrapping_mul(SPREAD)
}

/// The recipients that count.
#[derive(Debug, Default)]
pub struct UniqueRecipients {
    entries: HashTable<RecipientEntry>,
    /// The number of recipients that count since each step, oldest first.
    steps: VecDeque<(u32, u32)>,
    used: u32,
    /// The latest moment that was seen, in whole steps.
    now: u32,
}

/// Returns the step at or after a moment.
pub(crate) fn step_of(at: Timestamp) -> u32 {
    u32::try_from(at.as_millis().div_ceil(STEP_MILLIS)).unwrap_or(FIXED - 1).min(FIXED - 1)
}

/// Returns the first step since which a recipient may count at this moment.
pub(crate) fn oldest_step(now: Timestamp) -> u32 {
    let step = now.as_millis().saturating_sub(DAY_MILLIS) / STEP_MILLIS;
    u32::try_from(step).unwrap_or(FIXED - 1)
}

/// Returns whether a recipient that counts since this step counts no more.
pub(crate) fn is_over(step: u32, now: Timestamp) -> bool {
    u64::from(step) * STEP_MILLIS + DAY_MILLIS <= now.as_millis()
}

impl UniqueRecipients {
    /// Restores recipients that were counted before, each since its step.
    ///
    /// A recipient that is given more than once counts since the last. A step of the future counts
    /// as now: a clock was ahead.
    pub(crate) fn of(counted: impl Iterator<Item = (u64, u32)>, now: Timestamp) -> Self {
        let latest = step_of(now);
        let mut all: Vec<_> = counted.map(|(hash, step)| (step.min(latest), hash)).collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        let mut recipients = Self::default();
        recipients.advance(now);
        let mut known = hashbrown::HashSet::new();
        all.retain(|(step, hash)| {
            let is_current =
                !RecipientEntry::new(*hash, MessageMark::default(), *step).is_over(recipients.now);
            is_current && known.insert(*hash & HASH_BITS)
        });
        for (step, hash) in all.into_iter().rev() {
            recipients.insert(RecipientEntry::new(hash, MessageMark::default(), step | FIXED));
        }
        recipients
    }

    /// Moves to a moment: recipients that were counted 24 hours before count no more.
    pub fn advance(&mut self, now: Timestamp) {
        let now = u32::try_from(now.as_millis() / STEP_MILLIS).unwrap_or(FIXED - 1);
        self.now = self.now.max(now.min(FIXED - 1 - DAY_STEPS));
        while let Some((step, count)) = self.steps.front().copied()
            && step + DAY_STEPS <= self.now
        {
            self.steps.pop_front();
            self.used -= count;
        }
        if self.steps.is_empty() {
            *self = Self { now: self.now, ..Self::default() };
        }
    }

    /// Returns the number of recipients that count.
    #[must_use]
    pub const fn used(&self) -> u32 {
        self.used
    }

    /// Returns whether a recipient counts.
    pub(crate) fn is_counted(&self, hash: u64) -> bool {
        self.find(hash).is_some_and(|entry| !entry.is_over(self.now))
    }

    /// Counts a recipient for a message, unless it counts already. Returns the step since which it
    /// counts.
    pub fn count(&mut self, hash: u64, mark: MessageMark, at: Timestamp) -> u32 {
        if let Some(step) = self.keep(hash) {
            return step;
        }
        let last = self.steps.back().map_or(0, |(step, _)| *step);
        let step = step_of(at).max(last).min(FIXED - 1 - DAY_STEPS);
        self.insert(RecipientEntry::new(hash, mark, step));
        step
    }

    /// Keeps a recipient that counts whatever becomes of its message, as another one relies on it.
    ///
    /// Returns the step since which it counts.
    pub(crate) fn keep(&mut self, hash: u64) -> Option<u32> {
        let now = self.now;
        let is_it = |entry: &RecipientEntry| entry.is_of(hash) && !entry.is_over(now);
        let entry = self.entries.find_mut(place(hash), is_it)?;
        entry.0[2] |= FIXED;
        Some(entry.step())
    }

    /// Gives a recipient back whose only message was surely not sent.
    ///
    /// Returns whether it counted for that message alone.
    pub(crate) fn give_back(&mut self, hash: u64, mark: MessageMark) -> bool {
        let now = self.now;
        let counts = |entry: &RecipientEntry| !entry.is_over(now) && !entry.is_fixed();
        let is_it =
            |entry: &RecipientEntry| entry.is_of(hash) && entry.mark() == mark && counts(entry);
        let Ok(found) = self.entries.find_entry(place(hash), is_it) else { return false };
        let (entry, _) = found.remove();
        let at = self.steps.partition_point(|(step, _)| *step < entry.step());
        if let Some((_, count)) = self.steps.get_mut(at) {
            *count -= 1;
            self.used -= 1;
        }
        true
    }

    /// Returns when `fewer` recipients less count than now; `None` if there are not so many.
    pub(crate) fn frees_at(&self, fewer: u32) -> Option<Timestamp> {
        let mut freed = 0;
        let step = self.steps.iter().find(|(_, count)| {
            freed += count;
            *count > 0 && freed >= fewer
        });
        step.map(|(step, _)| Timestamp::from_millis(u64::from(*step) * STEP_MILLIS + DAY_MILLIS))
    }

    fn find(&self, hash: u64) -> Option<&RecipientEntry> {
        self.entries.find(place(hash), |entry| entry.is_of(hash))
    }

    /// Adds an entry whose hash does not count, and whose step is not before the last.
    fn insert(&mut self, entry: RecipientEntry) {
        let (id, step, now) = (entry.id(), entry.step(), self.now);
        if let Some(over) = self.entries.find_mut(entry.place(), |known| known.is_of(id)) {
            *over = entry;
        } else {
            let over = self.entries.len() - self.used as usize;
            // Rarely: each time an eighth of all entries is removed.
            if self.entries.len() == self.entries.capacity() && over * 8 > self.entries.len() {
                self.entries.retain(|entry| !entry.is_over(now));
            }
            self.entries.insert_unique(entry.place(), entry, RecipientEntry::place);
        }
        self.used += 1;
        match self.steps.back_mut() {
            Some((last, count)) if *last == step => *count += 1,
            _ => self.steps.push_back((step, 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + seconds * 1000)
    }

    const DAY: u64 = 24 * 3600;
    const MARK: MessageMark = MessageMark(7);

    #[test]
    fn a_recipient_counts_for_a_day_and_a_further_message_prolongs_nothing() {
        let mut recipients = UniqueRecipients::default();
        recipients.advance(at(0));
        recipients.count(7, MARK, at(0));
        recipients.advance(at(3600));
        recipients.count(7, MARK, at(3600));
        recipients.count(8, MARK, at(3600));
        assert_eq!((recipients.used(), recipients.frees_at(1)), (2, Some(at(DAY))));
        assert_eq!(recipients.frees_at(2), Some(at(DAY + 3600)));
        assert_eq!(recipients.frees_at(3), None);
        recipients.advance(at(DAY - 1));
        assert!(recipients.is_counted(7));
        recipients.advance(at(DAY));
        assert!(!recipients.is_counted(7) && recipients.is_counted(8));
        recipients.count(7, MARK, at(DAY));
        assert_eq!((recipients.used(), recipients.frees_at(2)), (2, Some(at(2 * DAY))));
    }

    #[test]
    fn who_another_message_relies_on_is_not_given_back() {
        let mut recipients = UniqueRecipients::default();
        recipients.advance(at(0));
        recipients.count(1, MARK, at(0));
        recipients.count(2, MARK, at(0));
        recipients.count(2, MARK, at(1));
        assert!(recipients.give_back(1, MARK) && !recipients.give_back(1, MARK));
        assert!(!recipients.give_back(2, MARK));
        assert_eq!((recipients.used(), recipients.frees_at(1)), (1, Some(at(DAY))));
    }

    #[test]
    fn only_the_message_that_somebody_was_counted_for_gives_the_place_back() {
        let mut recipients = UniqueRecipients::default();
        recipients.advance(at(0));
        let marks = [1, 2].map(|last| {
            let mut id = [9; 16];
            id[15] = last;
            (MessageMark::of(&id), MessageMark::of_code(&id, 1))
        });
        recipients.count(1, marks[1].0, at(0));
        assert!(!recipients.give_back(1, marks[0].0), "it went in an open window, and counted not");
        assert_eq!((recipients.used(), marks[0].1), (1, marks[1].0));
        assert!(recipients.give_back(1, marks[1].0) && !recipients.is_counted(1));
        // Recipients are distinguished by all of these bits.
        for bit in 0..48 {
            recipients.count(1 << bit, MARK, at(0));
        }
        assert_eq!(recipients.used(), 48);
        assert!((0..48).all(|bit| recipients.give_back(1 << bit, MARK)));
    }

    #[test]
    fn what_was_counted_before_counts_since_then_and_not_since_the_future() {
        let [first, last] = [at(0), at(3600)].map(step_of);
        let counted = [(1, first), (2, last), (1, first), (3, last + 99), (4, first - DAY_STEPS)];
        let mut recipients = UniqueRecipients::of(counted.into_iter(), at(3600));
        assert_eq!((recipients.used(), recipients.frees_at(1)), (3, Some(at(DAY))));
        assert_eq!(recipients.frees_at(3), Some(at(DAY + 3600)));
        assert!(!recipients.give_back(1, MARK), "it is not known what relies on it");
    }

    /// Returns the bytes held for so many recipients, of which each second brings some.
    fn bytes(recipients: u32, a_second: u32) -> usize {
        let mut all = UniqueRecipients::default();
        for of in 0..recipients {
            let hash = u64::from(of + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            all.count(hash, MARK, at(u64::from(of / a_second)));
        }
        assert_eq!(all.used(), recipients);
        let table = all.entries.allocation_size();
        table + all.steps.capacity() * size_of::<(u32, u32)>()
    }

    #[test]
    fn a_recipient_of_a_hundred_thousand_costs_at_most_24_bytes() {
        // All at once, and spread over the day as far as possible.
        for a_second in [100_000, 80, 2] {
            let bytes = bytes(100_000, a_second);
            assert!(bytes <= 24 * 100_000, "{bytes}");
        }
    }

    proptest! {
        #[test]
        fn it_counts_as_a_naive_model_does(
            steps in prop::collection::vec((0_u8..5, 0_u64..40, 0_u64..30_000), 1..300),
        ) {
            let mut recipients = UniqueRecipients::default();
            // The time since which each counts, and whether several messages rely on that.
            let mut model = BTreeMap::<u64, (u64, bool)>::new();
            let mut now = 0;
            for (kind, who, passes) in steps {
                // In steps, so that nothing is rounded.
                now += passes / 4 * 4;
                recipients.advance(at(now));
                model.retain(|_, (since, _)| *since + DAY > now);
                let hash = who.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                match kind {
                    0..3 => {
                        recipients.count(hash, MARK, at(now));
                        model.entry(who).and_modify(|(_, kept)| *kept = true)
                            .or_insert((now, false));
                    }
                    3 => {
                        let removed = model.get(&who).is_some_and(|(_, kept)| !kept);
                        prop_assert_eq!(recipients.give_back(hash, MARK), removed);
                        if removed {
                            model.remove(&who);
                        }
                    }
                    _ => {
                        let counted = model.iter().map(|(who, (since, _))| {
                            (who.wrapping_mul(0x9e37_79b9_7f4a_7c15), step_of(at(*since)))
                        });
                        recipients = UniqueRecipients::of(counted.collect::<Vec<_>>().into_iter(), at(now));
                        model.values_mut().for_each(|(_, kept)| *kept = true);
                    }
                }
                prop_assert_eq!(recipients.used() as usize, model.len());
                prop_assert_eq!(recipients.is_counted(hash), model.contains_key(&who));
                let mut since: Vec<_> = model.values().map(|(since, _)| *since).collect();
                since.sort_unstable();
                for fewer in 1..=since.len() {
                    let expected = at(since[fewer - 1] + DAY);
                    prop_assert_eq!(recipients.frees_at(fewer as u32), Some(expected));
                }
            }
        }
    }
}
