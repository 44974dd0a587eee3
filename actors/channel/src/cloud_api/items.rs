//! Pure: counts the items of callbacks by their field and by outcome.

use std::sync::atomic::{AtomicU64, Ordering};

use postrider_domain::Timestamp;

use crate::callback::{IgnoredItems, IgnoredReason};

/// The fields of callbacks that the provider documents, and `other` for every other one.
pub const FIELDS: [&str; 18] = [
    "messages",
    "user_preferences",
    "message_template_status_update",
    "template_category_update",
    "message_template_quality_update",
    "message_template_components_update",
    "phone_number_quality_update",
    "phone_number_name_update",
    "business_capability_update",
    "account_update",
    "account_alerts",
    "account_review_update",
    "security",
    "user_id_update",
    "smb_message_echoes",
    "history",
    "smb_app_state_sync",
    "other",
];

/// The names of the outcomes of items, in the order of [`ItemOutcome`].
pub const OUTCOMES: [&str; 5] = ["taken", "repeated", "ignored", "unknown", "unreadable"];

/// The reason why an item is ignored; `None` if it is known and of no use.
pub(super) type PassedOver = Option<IgnoredReason>;

/// The outcome of an item of a callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ItemOutcome {
    /// The item was accepted.
    Taken,
    /// The item has brought nothing new.
    ///
    /// It arrived before, or later than its successor, or concerns a message that is not known any
    /// more.
    Repeated,
    /// The item is known and of no use, or concerns a resource of another party.
    Ignored,
    /// The field, type or status of the item is not known.
    Unknown,
    /// The item lacks a part that an item of its type must have.
    Unreadable,
}

impl ItemOutcome {
    /// Returns the outcome of an ignored item.
    const fn of(why: PassedOver) -> Self {
        match why {
            None => Self::Ignored,
            Some(IgnoredReason::UnknownField | IgnoredReason::UnknownType) => Self::Unknown,
            Some(IgnoredReason::Unreadable | IgnoredReason::NoSender) => Self::Unreadable,
        }
    }
}

/// The counts of items of callbacks, by [`FIELDS`] and [`OUTCOMES`].
#[derive(Debug, Default)]
pub struct ItemCounts([[AtomicU64; OUTCOMES.len()]; FIELDS.len()]);

/// The index of a field among [`FIELDS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FieldNumber(usize);

/// The time of the last item of each field, in milliseconds; 0 for never.
#[derive(Debug, Default)]
pub struct FieldTimes([AtomicU64; FIELDS.len()]);

impl FieldTimes {
    /// Records that an item of a field arrived at this moment.
    pub fn note(&self, field: FieldNumber, at: Timestamp) {
        if let Some(last) = self.0.get(field.0) {
            last.fetch_max(at.as_millis(), Ordering::Relaxed);
        }
    }

    /// Returns the fields with arrived items, each with the time of its last item.
    pub fn read(&self) -> impl Iterator<Item = (&'static str, Timestamp)> {
        let times = self.0.iter().map(|last| last.load(Ordering::Relaxed));
        let seen = FIELDS.into_iter().zip(times).filter(|(_, at)| *at > 0);
        seen.map(|(field, at)| (field, Timestamp::from_millis(at)))
    }
}

/// Counts the items of one change of a field.
///
/// Parsed items are counted later, once their addressee is known.
pub(super) struct FieldTally<'a> {
    counts: &'a ItemCounts,
    field: FieldNumber,
    parsed: u64,
    ignored: Vec<IgnoredItems>,
}

impl FieldTally<'_> {
    /// Counts an item. Returns it if it can be parsed.
    pub(super) fn take<T>(&mut self, item: Result<T, PassedOver>) -> Option<T> {
        match item {
            Ok(item) => {
                self.parsed += 1;
                Some(item)
            }
            Err(why) => {
                let outcome = ItemOutcome::of(why);
                self.counts.add(self.field, outcome, 1);
                if let Some(reason) = why {
                    self.ignore(reason);
                }
                None
            }
        }
    }

    fn ignore(&mut self, reason: IgnoredReason) {
        match self.ignored.iter_mut().find(|known| known.reason == reason) {
            Some(known) => known.count += 1,
            None => {
                let field = FIELDS[self.field.0];
                self.ignored.push(IgnoredItems { field, reason, count: 1 });
            }
        }
    }

    /// Returns the items that were ignored since the last call.
    pub(super) fn ignored(&mut self) -> Vec<IgnoredItems> {
        std::mem::take(&mut self.ignored)
    }

    /// Returns the field, and the number of its parsed items.
    pub(super) const fn parsed(&self) -> (FieldNumber, u64) {
        (self.field, self.parsed)
    }
}

impl ItemCounts {
    /// Starts to count the items of a change of this field.
    pub(super) fn tally(&self, field: &str) -> FieldTally<'_> {
        let of = FIELDS.iter().position(|known| *known == field).unwrap_or(FIELDS.len() - 1);
        FieldTally { counts: self, field: FieldNumber(of), parsed: 0, ignored: Vec::new() }
    }

    /// Counts items of a field.
    pub fn add(&self, field: FieldNumber, outcome: ItemOutcome, items: u64) {
        if let Some(count) = self.0.get(field.0).and_then(|counts| counts.get(outcome as usize)) {
            count.fetch_add(items, Ordering::Relaxed);
        }
    }

    /// Counts an ignored change of a field.
    pub(super) fn pass_over(&self, field: &str) -> Vec<IgnoredItems> {
        let is_known = FIELDS[..FIELDS.len() - 1].contains(&field);
        let mut tally = self.tally(field);
        tally.take::<()>(Err((!is_known).then_some(IgnoredReason::UnknownField)));
        tally.ignored()
    }

    /// Returns field, outcome and count of each, in the order of [`FIELDS`] and then [`OUTCOMES`].
    pub fn read(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let named =
            FIELDS.iter().flat_map(|field| OUTCOMES.iter().map(move |outcome| (field, outcome)));
        let counts = self.0.iter().flatten().map(|count| count.load(Ordering::Relaxed));
        named.zip(counts).map(|((field, outcome), count)| (*field, *outcome, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_counted_under_its_field_and_outcome() {
        let counts = ItemCounts::default();
        let mut tally = counts.tally("messages");
        assert_eq!(tally.take(Ok(7)), Some(7));
        assert_eq!(tally.take::<()>(Err(Some(IgnoredReason::NoSender))), None);
        let ignored = IgnoredItems { field: "messages", reason: IgnoredReason::NoSender, count: 1 };
        assert_eq!(tally.ignored(), [ignored]);
        let (field, parsed) = tally.parsed();
        counts.add(field, ItemOutcome::Taken, parsed);
        assert_eq!(counts.pass_over("history"), []);
        for field in ["something_new", "other"] {
            let reason = IgnoredReason::UnknownField;
            assert_eq!(
                counts.pass_over(field),
                [IgnoredItems { field: "other", reason, count: 1 }]
            );
        }
        let found: Vec<_> = counts.read().filter(|(.., count)| *count > 0).collect();
        let expected = [
            ("messages", "taken", 1),
            ("messages", "unreadable", 1),
            ("history", "ignored", 1),
            ("other", "unknown", 2),
        ];
        assert_eq!(found, expected);
        assert_eq!(counts.read().count(), FIELDS.len() * OUTCOMES.len());
    }

    #[test]
    fn the_last_time_of_each_field_is_kept() {
        let times = FieldTimes::default();
        let [messages, other] = ["messages", "new"].map(|it| ItemCounts::default().tally(it).field);
        for (field, at) in [(messages, 5), (messages, 3), (other, 7)] {
            times.note(field, Timestamp::from_millis(at));
        }
        let at = Timestamp::from_millis;
        assert_eq!(times.read().collect::<Vec<_>>(), [("messages", at(5)), ("other", at(7))]);
    }
}
