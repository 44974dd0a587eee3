//! Rebasing the clock of data: the records with a moment from a clock that was ahead.
//!
//! A wait for such a moment would last as long as the clock was ahead. Examples are the retry of a
//! delivery or a mail, and the end of a service window or an idempotency key. Another is a decision
//! after the last one. Their moments are rewritten. Moments that are only shown or sorted by stay
//! as they are.

use std::ops::ControlFlow;

use postrider_domain::Timestamp;
use postrider_store::{Change, Direction, StoreError, Table, View};

use crate::core::portfolio;
use crate::idempotency;

/// Returns the rewritten record if it has a moment later than this one.
type Rebased = fn(&[u8], Timestamp) -> Option<Vec<u8>>;

/// A kind of records to rebase, by their table and their key.
///
/// `begins` is the first byte behind the workspace. `follows` is a number of further bytes, and the
/// byte behind those. `rebased` rewrites the record.
struct RebasedKind {
    table: Table,
    begins: Option<u8>,
    follows: Option<(usize, u8)>,
    rebased: Rebased,
}

const fn kind(table: Table, begins: Option<u8>, rebased: Rebased) -> RebasedKind {
    RebasedKind { table, begins, follows: None, rebased }
}

static KINDS: [RebasedKind; 8] = [
    // The time of a person's last message.
    kind(Table::Windows, None, begins_with_moment),
    // The times of the last decision about a person, and of their last choice.
    kind(Table::Suppressions, Some(b'w'), begins_with_moment),
    kind(Table::Suppressions, Some(b'c'), begins_with_moment),
    // The times of a contact's deletion, and of the loss of a name.
    kind(Table::Aliases, Some(b'd'), begins_with_moment),
    kind(Table::Aliases, Some(b't'), begins_with_moment),
    kind(Table::Idempotency, Some(b'k'), idempotency::rebased),
    // Waiting deliveries: they are behind the endpoint's id.
    RebasedKind {
        follows: Some((16, b'w')),
        ..kind(Table::Webhooks, Some(b's'), waiting_delivery)
    },
    kind(Table::MailQueue, None, waiting_mail),
];

impl RebasedKind {
    fn has(&self, own_key: &[u8]) -> bool {
        let begins = self.begins.is_none_or(|byte| own_key.first() == Some(&byte));
        let follows =
            self.follows.is_none_or(|(bytes, byte)| own_key.get(1 + bytes) == Some(&byte));
        begins && follows
    }
}

/// Returns the changes that replace moments later than `to` by it.
///
/// # Errors
/// Those of [`View::scan`]. An unreadable record stays as it is.
pub fn changes(store: &dyn View, to: Timestamp) -> Result<Vec<Change>, StoreError> {
    let mut changes = Vec::new();
    for kind in &KINDS {
        store.scan(kind.table, &[], None, Direction::Forward, &mut |key, value| {
            let own = key.iter().position(|byte| *byte == 0).map(|end| &key[end + 1..]);
            if own.is_some_and(|own| kind.has(own))
                && let Some(value) = (kind.rebased)(value, to)
            {
                changes.push(Change::put(kind.table, key, value));
            }
            ControlFlow::Continue(())
        })?;
    }
    // The recipients that count towards a budget have the moment in the key, too.
    let rows = portfolio::rebased(store, to)?.into_iter();
    changes.extend(rows.map(|(key, value)| match value {
        Some(value) => Change::put(Table::Portfolios, key, value),
        None => Change::delete(Table::Portfolios, key),
    }));
    Ok(changes)
}

/// Rebases a moment in milliseconds (u64, big endian), whatever follows.
fn begins_with_moment(value: &[u8], to: Timestamp) -> Option<Vec<u8>> {
    let (at, rest) = value.split_first_chunk()?;
    let is_later = u64::from_be_bytes(*at) > to.as_millis();
    is_later.then(|| [&to.as_millis().to_be_bytes()[..], rest].concat())
}

fn waiting_delivery(json: &[u8], to: Timestamp) -> Option<Vec<u8>> {
    field(json, "at", to)
}

fn waiting_mail(json: &[u8], to: Timestamp) -> Option<Vec<u8>> {
    field(json, "next_at", to)
}

/// Rebases the field of a JSON record, whose other fields stay.
fn field(json: &[u8], name: &str, to: Timestamp) -> Option<Vec<u8>> {
    let mut record: serde_json::Value = serde_json::from_slice(json).ok()?;
    let at = record.get_mut(name)?;
    if at.as_u64()? <= to.as_millis() {
        return None;
    }
    *at = to.as_millis().into();
    serde_json::to_vec(&record).ok()
}

#[cfg(test)]
mod tests {
    use postrider_domain::{MessageId, WebhookId};
    use postrider_store::{Group, MemoryStore, Store as _};
    use postrider_webhook::records::waiting_key;

    use super::*;

    const TO: Timestamp = Timestamp::from_millis(1_700_000_000_000);
    const LATER: Timestamp = Timestamp::from_millis(1_700_000_000_001);

    fn moment(at: Timestamp) -> Vec<u8> {
        at.as_millis().to_be_bytes().to_vec()
    }

    #[test]
    fn later_moments_become_it_and_others_stay() {
        let workspace = "acme".parse().unwrap();
        let webhook = waiting_key(&workspace, WebhookId::from_parts(TO, 1), 7);
        let mail = [b"acme\0".as_slice(), MessageId::from_parts(TO, 1).as_bytes()].concat();
        let records = |at: Timestamp| {
            let ms = at.as_millis();
            let delivery = format!(r#"{{"last":7,"failures":1,"at":{ms},"new":[1]}}"#);
            let queued = format!(r#"{{"handed":false,"next_at":{ms},"failures":1}}"#);
            [
                (Table::Windows, b"acme\0line+phone".to_vec(), moment(at)),
                (Table::Suppressions, b"acme\0w+1".to_vec(), moment(at)),
                (Table::Suppressions, b"acme\0c+1".to_vec(), [&moment(at)[..], &[2]].concat()),
                (Table::Aliases, b"acme\0dhash".to_vec(), moment(at)),
                (Table::Webhooks, webhook.clone(), delivery.into_bytes()),
                (Table::MailQueue, mail.clone(), queued.into_bytes()),
            ]
        };
        let stored = |at| {
            let store = MemoryStore::new();
            // The others are a count, another name of a phone, and a delivery that was given up.
            let others = [
                (Table::Suppressions, b"acme\0n".to_vec(), moment(LATER)),
                (Table::Aliases, b"acme\0\0name".to_vec(), moment(LATER)),
                (Table::Webhooks, [&webhook[..], b"x"].concat(), b"{\"at\":null}".to_vec()),
            ];
            let all = records(at).into_iter().chain(others);
            let all: Vec<_> =
                all.map(|(table, key, value)| Change::put(table, key, value)).collect();
            store.commit(Group::new(None, &all)).unwrap();
            store
        };
        assert_eq!(changes(&stored(TO), TO).unwrap(), []);
        let changed = changes(&stored(LATER), TO).unwrap();
        let expected = records(TO);
        assert_eq!(changed.len(), expected.len(), "{changed:?}");
        for (change, (table, key, value)) in changed.iter().zip(&expected) {
            assert_eq!((change.table, &change.key), (*table, key));
            let json = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).ok();
            let written = change.value.as_ref().unwrap();
            assert!(written == value || json(written) == json(value), "{change:?}");
        }
    }

    #[test]
    fn who_counts_towards_a_budget_counts_since_then() {
        let row = |step: u32| {
            let key = [b"acme\0c107\0".as_slice(), &step.to_be_bytes(), &[0; 8]].concat();
            Change::put(Table::Portfolios, key, [1])
        };
        let store = MemoryStore::new();
        let step = u32::try_from(TO.as_millis() / 4000).unwrap();
        store.commit(Group::new(None, &[row(step + 9)])).unwrap();
        let deleted = Change::delete(Table::Portfolios, row(step + 9).key);
        assert_eq!(changes(&store, TO).unwrap(), [deleted, row(step)]);
    }
}
