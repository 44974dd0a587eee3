//! Tests arbitrary reports of the channel on people, in any order, against a simple model.
//!
//! No message is lost, nobody has two contacts once all their names were reported together, and an
//! opt-out follows the person.

use proptest::prelude::*;

use postrider_channel::callback::{Callback, IdentityChange, Inbound, MarketingChoice};
use postrider_domain::{NumberId, PartyNames, UserId};
use postrider_workspace::whole_contacts;

use super::support::messages::wrote;
use super::*;
use crate::{Contact, ContactChange};

/// The number of people of a case.
const PEOPLE: usize = 3;
/// The maximum number of places by which an event may arrive late.
const DELAY_MAX: usize = 5;

/// An event of a person.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// They write, by the phone, the id, or both.
    Write(bool, bool, Word),
    /// They choose in the app, and both names are reported.
    Choose(bool),
    /// They have another phone, and another id with it.
    Phone,
    /// They have another id; the phone stays.
    Id,
    /// A user edits their contact, if there is one.
    Edit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    None,
    Stop,
    Start,
}

/// An event of a person, the number of places by which it is late, and whether it comes twice.
type Step = (usize, Event, usize, bool);

fn event() -> impl Strategy<Value = Event> {
    let word = prop_oneof![5 => Just(Word::None), 1 => Just(Word::Stop), 1 => Just(Word::Start)];
    prop_oneof![
        8 => (any::<bool>(), any::<bool>(), word).prop_map(|(phone, id, word)| {
            Event::Write(phone || !id, id, word)
        }),
        1 => any::<bool>().prop_map(Event::Choose),
        2 => Just(Event::Phone),
        2 => Just(Event::Id),
        1 => Just(Event::Edit),
    ]
}

fn steps() -> impl Strategy<Value = (Vec<Step>, Vec<usize>)> {
    let step = (0..PEOPLE, event(), 0..=DELAY_MAX, any::<bool>());
    (prop::collection::vec(step, 1..40), prop::collection::vec(1..6_usize, 1..20))
}

/// A person of the model.
struct Person {
    phone: u32,
    id: u32,
    /// The last word and the last choice in the app opted out.
    out: [bool; 2],
    /// They have opted out in the app at any time.
    was_out: bool,
}

impl Person {
    fn names(&self) -> PartyNames {
        PartyNames { phone: Some(phone(self.phone)), user_id: Some(user(self.id)) }
    }
}

fn user(number: u32) -> UserId {
    format!("US.{number}").parse().unwrap()
}

/// A report from the channel, or an edit by hand.
enum Reported {
    Callback(Callback),
    Edit(PartyNames),
}

/// Returns the events in order, as the model sees them, and their reports.
fn reported(steps: &[Step]) -> (Vec<Person>, Vec<(usize, Reported)>, Vec<String>) {
    let person = |number| Person { phone: number, id: number, out: [false; 2], was_out: false };
    let mut people: Vec<_> = (0..PEOPLE as u32).map(|number| person(number * 1000)).collect();
    let (mut all, mut texts) = (Vec::new(), Vec::new());
    for (place, (whose, event, delay, twice)) in steps.iter().enumerate() {
        let at = START.plus(Duration::from_secs(place as u64 + 1));
        let person = &mut people[*whose];
        let due = place + delay;
        let callback = match event {
            Event::Write(by_phone, by_id, word) => {
                let now = person.names();
                let text = match word {
                    Word::None => format!("text {place}"),
                    Word::Stop => "STOP".to_owned(),
                    Word::Start => "START".to_owned(),
                };
                match word {
                    Word::None => {}
                    Word::Stop => person.out[0] = true,
                    Word::Start => person.out = [false; 2],
                }
                person.was_out |= *word == Word::Stop;
                texts.push(text.clone());
                let inbound = wrote(phone(0), &place.to_string(), at).inbound.remove(0);
                let from = now.phone.filter(|_| *by_phone);
                let user_id = now.user_id.filter(|_| *by_id);
                let inbound = vec![Inbound { from, user_id, text: text.into(), ..inbound }];
                Callback { inbound, ..Callback::default() }
            }
            Event::Choose(wanted) => {
                let parties = person.names().parties();
                // A choice in the app does not undo a word.
                person.out[1] = !wanted;
                person.was_out |= !wanted;
                let choices = vec![MarketingChoice { parties, wanted: *wanted, at }];
                Callback { choices, ..Callback::default() }
            }
            Event::Phone | Event::Id => {
                let old = person.names();
                person.id += 1;
                person.phone += u32::from(matches!(event, Event::Phone));
                let (provider_id, new) = (format!("notice {place}").into(), person.names());
                let change = IdentityChange { provider_id, old, new, at: Some(at) };
                Callback { identity_changes: vec![change], ..Callback::default() }
            }
            Event::Edit => {
                all.push((due, Reported::Edit(person.names())));
                continue;
            }
        };
        if *twice {
            all.push((due + 2, Reported::Callback(callback.clone())));
        }
        all.push((due, Reported::Callback(callback)));
    }
    all.sort_by_key(|(due, _)| *due);
    (people, all, texts)
}

async fn edit(acme: &Workspace, names: &PartyNames) {
    let contacts = acme.contacts(crate::ContactFilter::default(), 0, 100).await.unwrap().contacts;
    let is_theirs = |it: &&Contact| it.phone == names.phone || it.user_id == names.user_id;
    if let Some(contact) = contacts.iter().find(is_theirs) {
        let name = "Edited".parse_name();
        let change =
            ContactChange { name, phone: None, email: None, tags: None, custom_fields: None };
        acme.update_contact(contact.id, change).await.unwrap();
    }
}

trait ParseName {
    fn parse_name(&self) -> postrider_domain::ContactName;
}

impl ParseName for str {
    fn parse_name(&self) -> postrider_domain::ContactName {
        postrider_domain::ContactName::new(self).unwrap()
    }
}

/// Passes all reports to the workspace, several to a callback, and checks the result.
async fn run(steps: Vec<Step>, sizes: Vec<usize>) {
    let store = CrashingStore::new();
    let engine = engine(&store, START.plus(Duration::from_secs(3600))).await;
    let acme = workspace(&engine, "acme", 10).await;
    let line = engine.admin().numbers(&id("acme")).await.unwrap()[0].id;
    let (people, reported, mut texts) = reported(&steps);
    let (mut sizes, mut batch, mut size) = (sizes.into_iter().cycle(), Vec::new(), 0);
    for (_, reported) in reported {
        match reported {
            Reported::Callback(callback) => {
                batch.push((None, callback));
                size += 1;
            }
            Reported::Edit(names) => edit(&acme, &names).await,
        }
        if size >= sizes.next().unwrap() {
            acme.receive_parts(line, std::mem::take(&mut batch)).await.unwrap();
            size = 0;
        }
    }
    acme.receive_parts(line, batch).await.unwrap();
    for (number, person) in people.iter().enumerate() {
        texts.push(format!("last {number}"));
        join(&acme, line, person, number).await;
    }
    let contacts = whole_contacts(&store, &id("acme"));
    assert_eq!(contacts.len(), PEOPLE, "{contacts:?}");
    for person in &people {
        let theirs = contacts.iter().find(|it| it.phone == Some(phone(person.phone))).unwrap();
        assert_eq!(theirs.user_id, Some(user(person.id)));
        let out = acme.suppressions(0, 1000).await.unwrap().suppressions;
        for name in person.names().parties() {
            let is_out = out.iter().any(|it| it.party == name);
            assert!(is_out || person.out == [false; 2], "{name} has opted out");
            assert!(!is_out || person.was_out, "{name} has never opted out");
        }
    }
    read(&acme, texts).await;
}

/// Receives a message by both names, later than everything.
async fn join(acme: &Workspace, line: NumberId, person: &Person, number: usize) {
    let PartyNames { phone: from, user_id } = person.names();
    let at = START.plus(Duration::from_secs(1000));
    let inbound = wrote(phone(0), &format!("last {number}"), at).inbound.remove(0);
    let text = format!("last {number}").into();
    let inbound = vec![Inbound { from, user_id, text, ..inbound }];
    acme.receive(line, Callback { inbound, ..Callback::default() }).await.unwrap();
}

/// Checks that every text is in a conversation, once.
async fn read(acme: &Workspace, mut texts: Vec<String>) {
    let mut found = Vec::new();
    let all = acme.conversations(crate::ConversationFilter::default(), 0, 1000).await.unwrap();
    for row in all.conversations {
        let page = acme.conversation_messages(row.0.id, 0, 1000).await.unwrap();
        found.extend(page.messages.into_iter().map(|message| message.text));
    }
    found.sort();
    texts.sort();
    assert_eq!(found, texts, "no message is lost, and none is there twice");
}

#[tokio::test(start_paused = true)]
async fn a_choice_goes_along_with_a_change_after_it_that_comes_with_it_or_first() {
    let steps = |delay| vec![(1, Event::Choose(false), delay, false), (1, Event::Phone, 0, false)];
    run(steps(0), vec![2]).await;
    run(steps(3), vec![1]).await;
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(48),
        max_shrink_iters: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn people_are_one_contact_whatever_is_reported_first((steps, sizes) in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(run(steps, sizes));
    }
}
