//! Tests of earlier names of people: former ids, late messages, notices in any order.

use postrider_channel::callback::{
    Callback, IdentityChange, Inbound, MarketingChoice, Progress, StatusUpdate,
};
use postrider_channel::{Origin, callback::IgnoredItems, callback::IgnoredReason};
use postrider_domain::{ContactId, MessageId, NumberId, PartyId, PartyNames, PublicEvent, UserId};
use postrider_workspace::whole_contacts;

use super::support::messages::wrote;
use super::*;
use crate::{Contact, ContactChange};

pub(super) struct Rig {
    engine: Engine,
    pub(super) acme: Workspace,
    pub(super) line: NumberId,
    store: CrashingStore,
}

pub(super) fn user(number: u32) -> UserId {
    format!("US.{number}").parse().unwrap()
}

/// Returns names by the numbers of a phone and of an id.
pub(super) fn names(phone: Option<u32>, id: Option<u32>) -> PartyNames {
    PartyNames { phone: phone.map(super::phone), user_id: id.map(user) }
}

pub(super) fn second(second: u64) -> Timestamp {
    START.plus(Duration::from_secs(second))
}

impl Rig {
    pub(super) async fn new() -> Self {
        let store = CrashingStore::new();
        let engine = engine(&store, second(3600)).await;
        let acme = workspace(&engine, "acme", 100).await;
        let line = engine.admin().numbers(&id("acme")).await.unwrap()[0].id;
        Self { engine, acme, line, store }
    }

    pub(super) async fn wrote(&self, by: PartyNames, id: &str, at: u64) -> ContactId {
        self.says(by, id, "Hello", at).await
    }

    /// Receives a message from a person; returns the contact that it is assigned to.
    pub(super) async fn says(&self, by: PartyNames, id: &str, text: &str, at: u64) -> ContactId {
        let inbound = wrote(phone(0), id, second(at)).inbound.remove(0);
        let (from, user_id) = (by.phone, by.user_id);
        let inbound = vec![Inbound { from, user_id, text: text.into(), ..inbound }];
        self.acme.receive(self.line, Callback { inbound, ..Callback::default() }).await.unwrap();
        let emitted = data(&log(&self.acme).await, "message.received").pop().unwrap();
        emitted["contact_id"].as_str().unwrap().parse().unwrap()
    }

    /// Receives a report that a person has other names.
    pub(super) async fn changed(&self, id: &str, old: PartyNames, new: PartyNames, at: u64) {
        let at = Some(second(at));
        let identity_changes = vec![IdentityChange { provider_id: id.into(), old, new, at }];
        let callback = Callback { identity_changes, ..Callback::default() };
        self.acme.receive(self.line, callback).await.unwrap();
    }

    pub(super) async fn contact(&self, id: ContactId) -> Contact {
        self.acme.contact(id).await.unwrap()
    }

    fn contacts(&self) -> Vec<Contact> {
        whole_contacts(&self.store, &id("acme"))
    }

    pub(super) async fn out(&self) -> Vec<PartyId> {
        let page = self.acme.suppressions(0, 100).await.unwrap();
        page.suppressions.into_iter().map(|it| it.party).collect()
    }
}

/// Returns the payloads of all events of a type.
pub(super) fn data(log: &[EventEntry], kind: &str) -> Vec<serde_json::Value> {
    let data = log.iter().filter_map(|entry| match &entry.event {
        PublicEvent::Other { kind: of, data } if of.as_str() == kind => Some(data),
        _ => None,
    });
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

pub(super) fn own(contact: &Contact) -> (Option<Phone>, Option<UserId>) {
    (contact.phone, contact.user_id.clone())
}

#[tokio::test(start_paused = true)]
async fn a_message_by_a_former_id_reaches_the_same_contact() {
    let rig = Rig::new().await;
    let contact = rig.wrote(names(None, Some(1)), "a", 1).await;
    for next in 2..=12 {
        rig.changed(&next.to_string(), names(None, Some(next - 1)), names(None, Some(next)), 10)
            .await;
    }
    // The last eight of them are known, and the current one stays.
    for known in [4, 11, 12] {
        let by = rig.wrote(names(None, Some(known)), &format!("late {known}"), 20).await;
        assert_eq!(by, contact, "{known}");
    }
    assert_eq!(rig.contact(contact).await.user_id, Some(user(12)));
    let former: Vec<_> = (4..12).map(user).collect();
    assert_eq!(rig.contact(contact).await.former_ids, former);
    assert_ne!(rig.wrote(names(None, Some(3)), "long ago", 20).await, contact);
    // A choice made by a former id applies to all.
    rig.says(names(None, Some(11)), "stop", "STOP", 30).await;
    let out = rig.out().await;
    assert!((4..=12).all(|id| out.contains(&user(id).into())), "{out:?}");
    // All its ids are deleted with the contact.
    rig.acme.delete_contact(contact).await.unwrap();
    assert_ne!(rig.wrote(names(None, Some(11)), "anew", 40).await, contact);
    assert_eq!(rig.contacts().len(), 2);
}

/// A person has one id in each portfolio of the workspace's numbers.
#[tokio::test(start_paused = true)]
async fn ids_of_two_portfolios_are_one_contacts() {
    let rig = Rig::new().await;
    let contact = rig.wrote(names(Some(1), Some(1)), "a", 1).await;
    assert_eq!(rig.wrote(names(Some(1), Some(2)), "b", 2).await, contact);
    let before = log(&rig.acme).await.len();
    for (at, id) in [1, 2, 1, 2].into_iter().enumerate() {
        for phone in [None, Some(1)] {
            let message = format!("{at} {phone:?}");
            assert_eq!(rig.wrote(names(phone, Some(id)), &message, 3).await, contact);
        }
    }
    let log = log(&rig.acme).await;
    assert!(!kinds(&log[before..]).contains(&"contact.updated"), "nothing is news");
    assert_eq!(rig.contacts().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn names_reported_together_are_learned_whoever_is_known() {
    for (known, choice) in [(0, false), (0, true), (1, false), (1, true), (2, false), (2, true)] {
        let rig = Rig::new().await;
        match known {
            0 => None,
            1 => Some(rig.wrote(names(Some(1), None), "a", 1).await),
            _ => Some(rig.wrote(names(None, Some(1)), "a", 1).await),
        };
        // The time is after the message.
        let at = second(3700);
        let callback = if choice {
            let parties = names(Some(1), Some(1)).parties();
            let choices = vec![MarketingChoice { parties, wanted: false, at }];
            Callback { choices, ..Callback::default() }
        } else {
            let report = StatusUpdate {
                origin: Origin::Message(MessageId::from_parts(at, 1)),
                provider_id: "wamid".into(),
                status: Progress::Delivered,
                at,
                to: None,
                known_as: Some(phone(1)),
                user_id: Some(user(1)),
            };
            Callback { statuses: vec![report], ..Callback::default() }
        };
        rig.acme.receive(rig.line, callback).await.unwrap();
        rig.acme.suppress(phone(1), None).await.unwrap();
        if known == 0 {
            assert_eq!(rig.contacts(), [], "nobody is made of a report");
            assert!(rig.acme.unsuppress(user(1)).await.is_ok(), "the phone is the same person's");
        }
        let by_id = rig.wrote(names(None, Some(1)), "b", 3701).await;
        assert_eq!(own(&rig.contact(by_id).await), (Some(phone(1)), Some(user(1))), "{known}");
        assert_eq!(rig.wrote(names(Some(1), None), "c", 3702).await, by_id);
        assert_eq!(rig.contacts().len(), 1);
        let emitted = data(&log(&rig.acme).await, "message.received");
        assert_eq!(emitted.last().unwrap()["from"], phone(1).to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn notices_count_by_their_moment_whichever_comes_first() {
    let steps = [
        ("one", names(Some(1), Some(1)), names(Some(2), Some(2)), 10),
        ("two", names(Some(2), Some(2)), names(Some(3), Some(3)), 20),
        ("three", names(None, Some(3)), names(None, Some(4)), 30),
    ];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let rig = Rig::new().await;
        let contact = rig.says(names(Some(1), Some(1)), "a", "STOP", 1).await;
        for at in order.into_iter().chain(order) {
            let (id, old, new, at) = steps[at].clone();
            rig.changed(id, old, new, at).await;
        }
        let changed = rig.contact(contact).await;
        assert_eq!(changed.user_id, Some(user(4)), "{order:?}");
        assert!(![Some(phone(1)), Some(phone(2))].contains(&changed.phone), "{order:?}");
        // An older notice arrives late, under another id.
        rig.changed("late", names(Some(1), Some(1)), names(Some(9), Some(9)), 5).await;
        assert_eq!(rig.contact(contact).await, changed, "{order:?}");
        // A message from before a change arrives after it.
        for (at, by) in [(5, names(Some(1), None)), (15, names(Some(2), Some(2)))] {
            assert_eq!(rig.wrote(by, &format!("late {at}"), at).await, contact, "{order:?}");
        }
        assert_eq!(own(&rig.contact(contact).await), own(&changed), "{order:?}");
        let out = rig.out().await;
        assert!(out.contains(&user(4).into()), "{order:?}: {out:?}");
        // The person who has the number later is another one.
        assert_ne!(rig.wrote(names(Some(1), None), "new", 40).await, contact, "{order:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_back_is_taken_and_its_repetition_is_not() {
    let rig = Rig::new().await;
    let contact = rig.wrote(names(None, Some(1)), "a", 1).await;
    rig.changed("there", names(None, Some(1)), names(None, Some(2)), 10).await;
    rig.changed("back", names(None, Some(2)), names(None, Some(1)), 20).await;
    // Another partner forwards the first one.
    rig.changed("there again", names(None, Some(1)), names(None, Some(2)), 10).await;
    assert_eq!(rig.contact(contact).await.user_id, Some(user(1)));
    assert_eq!(rig.contact(contact).await.former_ids, [user(2)]);
}

#[tokio::test(start_paused = true)]
async fn merged_contacts_keep_all_their_ids() {
    let rig = Rig::new().await;
    let stays = rig.wrote(names(Some(1), Some(1)), "a", 1).await;
    rig.wrote(names(None, Some(2)), "b", 2).await;
    rig.changed("c", names(None, Some(2)), names(None, Some(3)), 3).await;
    // The former id of one is reported with the phone of the other.
    assert_eq!(rig.wrote(names(Some(1), Some(2)), "d", 3).await, stays);
    assert_eq!(own(&rig.contact(stays).await), (Some(phone(1)), Some(user(3))));
    for known in [1, 2, 3] {
        let by = rig.wrote(names(None, Some(known)), &format!("late {known}"), 4).await;
        assert_eq!(by, stays);
    }
    // A phone set by hand: the rules of ids apply to it.
    rig.says(names(None, Some(1)), "e", "STOP", 5).await;
    let name = rig.contact(stays).await.name;
    let change = ContactChange {
        name,
        phone: Some(Some(phone(7))),
        email: None,
        tags: None,
        custom_fields: None,
    };
    rig.acme.update_contact(stays, change).await.unwrap();
    assert!(rig.out().await.contains(&phone(7).into()));
    assert_eq!(rig.contacts().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_passed_over_is_reported_once_a_minute() {
    let rig = Rig::new().await;
    let pass_over = async |count| {
        let reason = IgnoredReason::NoSender;
        let ignored = vec![IgnoredItems { field: "messages", reason, count }];
        let callback = Callback { ignored, ..Callback::default() };
        rig.acme.receive(rig.line, callback).await.unwrap();
    };
    for _ in 0..1000 {
        pass_over(2).await;
    }
    rig.engine.clock().advance(Duration::from_secs(60));
    pass_over(1).await;
    let emitted = data(&log(&rig.acme).await, "channel.ignored");
    let counts: Vec<_> = emitted.iter().map(|emitted| emitted["count"].as_u64().unwrap()).collect();
    assert_eq!(counts, [2, 1999]);
    let expected = serde_json::json!({
        "number_id": rig.line, "field": "messages", "reason": "no_sender", "count": 2,
    });
    assert_eq!(emitted[0], expected);
}
