//! Tests of the list against a model, and of its reads of the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postrider_broadcast::audience::ByPhone;
use postrider_broadcast::record::{BroadcastPolicy, BroadcastStatus, Record, record_key};
use postrider_broadcast::{Audience, Variables};
use postrider_domain::SenderNotes;
use postrider_domain::template::{TemplateCategory, TemplateName};
use postrider_store::hooked::{Hook, Hooked};
use postrider_store::{Change, Group, MemoryStore, Store};

use super::*;

const START: u64 = 1_700_000_000_000;

fn workspace() -> WorkspaceId {
    "acme".parse().unwrap()
}

fn phone(number: u64) -> Phone {
    Phone::from_digits(15_550_100_000 + number).unwrap()
}

/// Returns the single message of this number: one a second, to one of so many phones.
fn single(number: u64, phones: u64) -> MessageState {
    let at = Timestamp::from_millis(START + number * 1_000);
    let reference = (number.is_multiple_of(5)).then(|| format!("order-{}", number % 3));
    MessageState {
        message_id: MessageId::from_parts(at, number.into()),
        to: phone(number % phones).into(),
        kind: if number.is_multiple_of(2) { MessageKind::Text } else { MessageKind::Template },
        template: None,
        status: [MessageStatus::Sent, MessageStatus::Failed][usize::from(number.is_multiple_of(7))],
        error: None,
        number: NumberId::from_bytes([u8::from(!number.is_multiple_of(2)); 16]),
        price: 1,
        created_at: at,
        give_up_at: at,
        unknown_at: None,
        held_at: None,
        sent_at: None,
        delivered_at: None,
        read_at: None,
        failed_at: None,
        notes: SenderNotes { reference, ..SenderNotes::default() },
        pinned: false,
        answers: None,
        provider_id: None,
        media: None,
        broadcast: None,
        of_several: false,
    }
}

fn write(store: &MemoryStore, state: &MessageState) {
    let key = MessageState::key(&workspace(), state.message_id);
    let mut changes = vec![
        Change::put(Table::Messages, [&*key, b"c"].concat(), *b"{}"),
        Change::put(Table::Messages, key, state.encode()),
    ];
    let keys = index::entry_keys(&workspace(), state);
    changes.extend(keys.map(|key| Change::put(Table::MessageIndex, key, [])));
    store.commit(Group::new(None, &changes)).unwrap();
}

/// Writes a broadcast to the first phones, nothing of which is sent yet; returns its messages.
fn broadcast(store: &MemoryStore, second: u64, recipients: u64) -> Vec<MessageState> {
    let at = Timestamp::from_millis(START + second * 1_000 + 500);
    let id = BroadcastId::from_parts(at, u128::from(second) << 64);
    let mut audience = Audience::new();
    (0..recipients).for_each(|number| audience.add(phone(number), Variables::default()));
    let count = u32::try_from(recipients).unwrap();
    let record = Record {
        id,
        name: "Sale".into(),
        template: TemplateName { name: "sale".into(), language: "en".into() },
        category: TemplateCategory::Marketing,
        policy: BroadcastPolicy::AtMostOnce,
        status: BroadcastStatus::Sending,
        reason: None,
        total: count,
        sendable: count,
        price: 1,
        number: NumberId::from_bytes([0; 16]),
        definition: Vec::new(),
        components: Vec::new(),
        personal: false,
        created_at: at,
        schedule_at: None,
        started_at: None,
        finished_at: None,
        retry_of: None,
        retried_by: None,
        settled: false,
        recipients_dropped: false,
        notes: SenderNotes::default(),
        beside: Vec::new(),
        from: Vec::new(),
    };
    let mut changes = audience.segment(&workspace(), id, 0);
    changes.extend(ByPhone::of(&audience.phones).changes(&workspace(), id, &audience.phones));
    let json = serde_json::to_vec(&record).unwrap();
    changes.push(Change::put(Table::Broadcasts, record_key(&workspace(), id), json));
    store.commit(Group::new(None, &changes)).unwrap();
    let workspace = workspace();
    let of = MessagesOf::read(store, &workspace, id).unwrap().unwrap();
    (0..count).map(|index| of.message(index).unwrap().unwrap()).collect()
}

/// Returns all pages of a list.
fn pages(store: &dyn View, filter: &MessageFilter, limit: usize) -> Vec<MessageState> {
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let page = list(store, &workspace(), filter, after, limit).unwrap();
        assert!(page.messages.len() <= limit);
        rows.extend(page.messages);
        assert!(page.next.is_none() || page.next < after || after.is_none());
        match page.next {
            Some(next) => after = Some(next),
            None => return rows,
        }
    }
}

#[test]
fn it_has_what_a_look_at_everything_finds_in_pages_of_any_size() {
    let store = MemoryStore::new();
    let mut all: Vec<_> = (0..60).map(|number| single(number, 4)).collect();
    all.iter().for_each(|state| write(&store, state));
    let broadcasts = [(5, 3), (20, 700), (40, 2)];
    for (second, recipients) in broadcasts {
        all.extend(broadcast(&store, second, recipients));
    }
    all.sort_by_key(|state| std::cmp::Reverse(state.message_id));
    let of_large = all.iter().find(|state| state.created_at.as_millis() == START + 20_500);
    let large = of_large.and_then(|state| state.broadcast);
    let at = |second: u64| Some(Timestamp::from_millis(START + second * 1_000));
    let every = MessageFilter::default;
    let to = || MessageFilter { to: Some(phone(1).into()), ..every() };
    let filters = [
        every(),
        to(),
        MessageFilter { since: at(10), until: at(41), ..to() },
        MessageFilter { until: at(12), ..to() },
        MessageFilter { kind: Some(MessageKind::Text), ..to() },
        MessageFilter { status: Some(MessageStatus::Failed), ..every() },
        MessageFilter { number: Some(NumberId::from_bytes([1; 16])), ..every() },
        MessageFilter { broadcast: large, ..every() },
        MessageFilter { broadcast: large, ..to() },
        MessageFilter { to: Some(phone(9_999).into()), ..every() },
        MessageFilter { reference: Some("order-1".to_owned()), ..every() },
    ];
    for filter in filters {
        let with_broadcasts = filter.to.is_some() || filter.broadcast.is_some();
        let wanted = |state: &&MessageState| {
            (with_broadcasts || state.broadcast.is_none())
                && (filter.broadcast.is_none() || filter.broadcast == state.broadcast)
                && filter.takes(state)
        };
        let expected: Vec<_> = all.iter().filter(wanted).cloned().collect();
        for limit in [1, 3, 50, 200] {
            assert!(pages(&store, &filter, limit) == expected, "{limit} {filter:?}");
        }
    }
}

/// Counts the reads.
#[derive(Debug, Clone, Default)]
struct Reads(Arc<AtomicUsize>);

impl Hook for Reads {
    fn before_get(&self, _: Table, _: &[u8]) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn before_scan(&self, table: Table, _: &[u8], from: Option<&[u8]>) {
        assert!(table != Table::Messages || from.is_some(), "all messages are looked at");
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_recipient_is_found_without_looking_at_others() {
    let store: Hooked<Reads> = Hooked::default();
    (0..5_000).for_each(|number| write(&store.inner, &single(number, 1_000)));
    let filter = MessageFilter { to: Some(phone(7).into()), ..MessageFilter::default() };
    for (limit, rows, reads_max) in [(2, 2, 9), (50, 5, 12)] {
        store.hook.0.store(0, Ordering::Relaxed);
        let page = list(&store, &workspace(), &filter, None, limit).unwrap();
        assert_eq!(page.messages.len(), rows);
        let reads = store.hook.0.load(Ordering::Relaxed);
        assert!(reads <= reads_max, "{limit}: {reads}");
    }
}
