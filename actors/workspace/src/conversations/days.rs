//! Counts of the events in conversations, by day.
//!
//! [`Table::Analytics`] has the counts under `workspace ‖ 0 ‖ i ‖ day`: the version (1) and four
//! numbers of eight bytes. Each count is committed with its event.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::Workspace;
use crate::core::command::Context;
use crate::core::view::unreadable;
use postrider_domain::WorkspaceId;
use postrider_domain::day::Day;
use postrider_domain::unavailable::Unavailable;
use postrider_store::{Direction, StoreError, Table};

/// The letter of the keys.
pub(crate) const DAYS: u8 = b'i';
const VERSION: u8 = 1;
const COUNTS: usize = 4;
const BYTES: usize = 1 + COUNTS * 8;

/// The counts of the events in conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InboxCounts {
    /// Messages from contacts.
    pub received: u64,
    /// Messages to contacts in their conversation.
    pub sent: u64,
    /// Conversations that a contact opened, for the first time or again.
    pub opened: u64,
    /// Conversations that were resolved.
    pub resolved: u64,
}

/// The counts of the events in conversations on some days.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InboxDays {
    /// The counts by day, oldest first, of the days that have any.
    pub days: BTreeMap<Day, InboxCounts>,
    /// The counts of all together.
    pub totals: InboxCounts,
}

impl InboxCounts {
    /// Counts a message from a contact, which may have opened the conversation.
    pub(crate) fn one_received(opens: bool) -> Self {
        Self { received: 1, opened: u64::from(opens), ..Self::default() }
    }

    /// Counts a message to a contact.
    pub(crate) fn one_sent() -> Self {
        Self { sent: 1, ..Self::default() }
    }

    /// Counts a resolved conversation.
    pub(crate) fn one_resolved() -> Self {
        Self { resolved: 1, ..Self::default() }
    }

    const fn numbers(&self) -> [u64; COUNTS] {
        let Self { received, sent, opened, resolved } = *self;
        [received, sent, opened, resolved]
    }

    const fn of_numbers([received, sent, opened, resolved]: [u64; COUNTS]) -> Self {
        Self { received, sent, opened, resolved }
    }

    fn plus(&self, other: &Self) -> Self {
        let mut sums = self.numbers();
        for (sum, more) in sums.iter_mut().zip(other.numbers()) {
            *sum = sum.saturating_add(more);
        }
        Self::of_numbers(sums)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend(self.numbers().iter().flat_map(|number| number.to_be_bytes()));
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let damaged = || StoreError::Damaged("counts of conversations".into());
        let bytes: [u8; BYTES] = bytes.try_into().map_err(|_| damaged())?;
        let (numbers, _) = bytes[1..].as_chunks();
        let numbers = std::array::from_fn(|at| u64::from_be_bytes(numbers[at]));
        (bytes[0] == VERSION).then_some(Self::of_numbers(numbers)).ok_or_else(damaged)
    }
}

fn key(workspace: &WorkspaceId, day: Option<Day>) -> Vec<u8> {
    let mut key = [workspace.as_str().as_bytes(), &[0, DAYS]].concat();
    key.extend(day.into_iter().flat_map(|day| day.number().to_be_bytes()));
    key
}

/// The new counts of today, to be written with the event.
#[must_use]
pub(crate) struct InboxNote(Vec<u8>, InboxCounts);

/// Counts an event of today. This can fail, so it comes before the event.
///
/// # Errors
/// [`Unavailable`]: the store cannot be read.
pub(crate) fn note_inbox(
    context: &Context<'_>,
    happened: &InboxCounts,
) -> Result<InboxNote, Unavailable> {
    let key = key(&context.core.id, Some(Day::of(context.now())));
    let stored = context.get(Table::Analytics, &key)?;
    let stored = stored.map(|bytes| InboxCounts::decode(&bytes)).transpose().map_err(unreadable)?;
    Ok(InboxNote(key, stored.unwrap_or_default().plus(happened)))
}

impl InboxNote {
    pub(crate) fn write(self, context: &mut Context<'_>) {
        let Self(key, counts) = self;
        context.put(Table::Analytics, key, counts.encode());
    }
}

impl Workspace {
    /// Returns the counts of conversations from one day to another, both included.
    ///
    /// # Errors
    /// [`Unavailable`]: the store cannot be read.
    pub async fn inbox_days(&self, from: Day, to: Day) -> Result<InboxDays, Unavailable> {
        self.scan(move |store, workspace| {
            let (mut found, mut damage) = (InboxDays::default(), None);
            let (prefix, first) = (key(workspace, None), key(workspace, Some(from)));
            let direction = Direction::Forward;
            store.scan(Table::Analytics, &prefix, Some(&first), direction, &mut |key, value| {
                let Some(day) = key[prefix.len()..].first_chunk() else {
                    return ControlFlow::Continue(());
                };
                let day = Day::from_number(u32::from_be_bytes(*day));
                if day > to {
                    return ControlFlow::Break(());
                }
                match InboxCounts::decode(value) {
                    Ok(counts) => {
                        found.totals = found.totals.plus(&counts);
                        found.days.insert(day, counts);
                    }
                    Err(error) => damage = Some(error),
                }
                ControlFlow::Continue(())
            })?;
            damage.map_or(Ok(found), Err)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use postrider_domain::golden::{AT, Sheet};

    #[test]
    fn what_happened_on_a_day_is_stored_as_ever() {
        let counts = InboxCounts { received: 1, sent: 2, opened: 3, resolved: 260 };
        let mut sheet = Sheet::default();
        sheet.text("key", &key(&"acme".parse().unwrap(), Some(Day::of(AT))));
        sheet.bytes("counts", &counts.encode());
        sheet.is(expect![[r#"
            key: acme\x00i\x00\x00L\xdb
            counts: 010000000000000001000000000000000200000000000000030000000000000104
        "#]]);
        assert_eq!(InboxCounts::decode(&counts.encode()), Ok(counts));
        assert!(InboxCounts::decode(&[2; BYTES]).is_err() && InboxCounts::decode(&[]).is_err());
    }
}
