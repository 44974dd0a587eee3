//! Tests the owner of a phone that the channel hides: only the channel's own reports prove it.

use postrider_channel::Origin;
use postrider_channel::callback::{Callback, MarketingChoice, Progress, StatusUpdate};
use postrider_domain::event::OtpStatus;
use postrider_domain::{ContactId, MessageId, PartyId, PartyNames, RequestId};

use super::identity::{Rig, data, names, own, second, user};
use super::*;
use crate::{ContactChange, SendOtp};

/// A user of the workspace writes a phone into a contact.
async fn edit(rig: &Rig, contact: ContactId, to: Option<Phone>) {
    let name = rig.contact(contact).await.name;
    let change =
        ContactChange { name, phone: Some(to), email: None, tags: None, custom_fields: None };
    rig.acme.update_contact(contact, change).await.unwrap();
}

/// Returns the phone from which the next message of a person is reported to come.
async fn from(rig: &Rig, by: PartyNames, id: &str, at: u64) -> Option<Phone> {
    rig.wrote(by, id, at).await;
    let emitted = data(&log(&rig.acme).await, "message.received").pop().unwrap();
    emitted["from"].as_str().map(|phone| phone.parse().unwrap())
}

/// Returns a report of a message to a phone, which names the id of its person.
fn report(to: u32, id: u32, at: u64) -> Callback {
    let report = StatusUpdate {
        origin: Origin::Message(MessageId::from_parts(second(at), 1)),
        provider_id: "wamid".into(),
        status: Progress::Delivered,
        at: second(at),
        to: None,
        known_as: Some(phone(to)),
        user_id: Some(user(id)),
    };
    Callback { statuses: vec![report], ..Callback::default() }
}

fn choice(parties: Vec<PartyId>, wanted: bool, at: u64) -> Callback {
    let choices = vec![MarketingChoice { parties, wanted, at: second(at) }];
    Callback { choices, ..Callback::default() }
}

/// Starts a request whose code a certain phone, or any phone, is to send.
async fn asked(rig: &Rig, of: Option<Phone>) -> (RequestId, String) {
    let mut send = SendOtp::from_anybody();
    send.phone = of.unwrap_or(send.phone);
    let id = rig.acme.send_otp(send).await.unwrap().request_id;
    (id, rig.acme.otp(id).await.unwrap().inbound_code.unwrap().reveal())
}

async fn status(rig: &Rig, id: RequestId) -> (OtpStatus, Option<Phone>) {
    let state = rig.acme.otp(id).await.unwrap();
    (state.status, state.phone)
}

#[tokio::test(start_paused = true)]
async fn an_edited_contact_verifies_nobody() {
    let rig = Rig::new().await;
    let (victim, stranger) = (phone(9), names(None, Some(1)));
    let contact = rig.wrote(stranger.clone(), "a", 1).await;
    edit(&rig, contact, Some(victim)).await;
    let (of_victim, code) = asked(&rig, Some(victim)).await;
    let (open, open_code) = asked(&rig, None).await;
    rig.says(stranger.clone(), "b", &format!("{code} {open_code}"), 3600).await;
    assert_eq!(status(&rig, of_victim).await, (OtpStatus::Active, Some(victim)));
    assert_eq!(status(&rig, open).await, (OtpStatus::Verified, None), "nobody's phone");
    // Another person reports that the phone and another id are theirs.
    rig.wrote(names(Some(9), Some(2)), "c", 3600).await;
    rig.says(stranger, "d", &code, 3600).await;
    assert_eq!(status(&rig, of_victim).await.0, OtpStatus::Active);
    rig.says(names(None, Some(2)), "e", &code, 3600).await;
    assert_eq!(status(&rig, of_victim).await, (OtpStatus::Verified, Some(victim)));
}

#[tokio::test(start_paused = true)]
async fn what_the_channel_reports_proves_a_phone_until_it_takes_it_back() {
    let hidden = || names(None, Some(1));
    for proof in ["message", "report", "choice", "notice"] {
        for held in [false, true] {
            let rig = Rig::new().await;
            if held {
                let contact = rig.wrote(hidden(), "first", 1).await;
                edit(&rig, contact, Some(phone(9))).await;
            }
            match proof {
                "message" => drop(rig.wrote(names(Some(1), Some(1)), "both", 2).await),
                "notice" => {
                    let (old, new) = (names(Some(7), Some(7)), names(Some(1), Some(1)));
                    rig.changed("notice", old, new, 2).await;
                }
                _ => {
                    let both = names(Some(1), Some(1)).parties();
                    let reported =
                        if proof == "report" { report(1, 1, 2) } else { choice(both, false, 2) };
                    rig.acme.receive(rig.line, reported).await.unwrap();
                }
            }
            let known = from(&rig, hidden(), "known", 3).await;
            assert_eq!(known, Some(phone(1)), "{proof} {held}");
            let contact = rig.wrote(hidden(), "again", 4).await;
            edit(&rig, contact, Some(phone(8))).await;
            let known = from(&rig, hidden(), "edited", 5).await;
            assert_eq!(known, Some(phone(1)), "{proof} {held}");
            // A changed id, with no phone and then with one.
            rig.changed("gone", hidden(), names(None, Some(2)), 6).await;
            let known = from(&rig, names(None, Some(2)), "gone", 7).await;
            assert_eq!(known, None, "{proof} {held}");
            rig.changed("back", names(None, Some(2)), names(Some(3), Some(3)), 8).await;
            let known = from(&rig, names(None, Some(3)), "back", 9).await;
            assert_eq!(known, Some(phone(3)), "{proof} {held}");
            rig.acme.delete_contact(rig.wrote(names(None, Some(3)), "it", 9).await).await.unwrap();
            let known = from(&rig, names(None, Some(3)), "deleted", 3601).await;
            assert_eq!(known, None, "{proof} {held}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_edited_contact_opts_nobody_in_again() {
    let victim = PartyId::from(phone(9));
    for by_choice in [false, true] {
        let rig = Rig::new().await;
        rig.wrote(names(Some(9), None), "victim", 1).await;
        if by_choice {
            let chosen = choice(names(Some(9), None).parties(), false, 2);
            rig.acme.receive(rig.line, chosen).await.unwrap();
        } else {
            rig.says(names(Some(9), None), "stop", "STOP", 2).await;
        }
        let theirs = rig.wrote(names(Some(9), None), "whose", 3).await;
        edit(&rig, theirs, None).await;
        let contact = rig.wrote(names(None, Some(1)), "a", 4).await;
        edit(&rig, contact, Some(phone(9))).await;
        let says = async |id: &str, wanted: bool, at| {
            if by_choice {
                let chosen = choice(names(None, Some(1)).parties(), wanted, at);
                rig.acme.receive(rig.line, chosen).await.unwrap();
            } else {
                let word = if wanted { "START" } else { "STOP" };
                rig.says(names(None, Some(1)), id, word, at).await;
            }
        };
        says("out", false, 5).await;
        assert_eq!(rig.out().await.len(), 2, "out for all names: {by_choice}");
        says("in", true, 6).await;
        assert_eq!(
            rig.out().await,
            std::slice::from_ref(&victim),
            "in for their own only: {by_choice}"
        );
        // The victim's own word opts their phone in, and their own id too.
        rig.wrote(names(Some(9), Some(2)), "both", 7).await;
        rig.says(names(None, Some(2)), "stop again", "STOP", 8).await;
        rig.says(names(Some(9), None), "start", "START", 9).await;
        let out = rig.out().await;
        assert!(!out.contains(&victim) && !out.contains(&user(2).into()), "{out:?}");
    }
}

/// The number of one person becomes another's.
#[tokio::test(start_paused = true)]
async fn a_phone_is_proven_for_who_was_named_with_it_last() {
    let former = || names(None, Some(1));
    for way in ["message", "notice", "choice", "report"] {
        let rig = Rig::new().await;
        rig.wrote(names(Some(1), Some(1)), "former", 1).await;
        assert_eq!(from(&rig, former(), "hidden", 2).await, Some(phone(1)));
        let both = names(Some(1), Some(2));
        match way {
            "message" => drop(rig.wrote(both, "latter", 3).await),
            "notice" => rig.changed("moves", names(Some(7), Some(7)), both, 3).await,
            "choice" => rig.acme.receive(rig.line, choice(both.parties(), false, 3)).await.unwrap(),
            _ => rig.acme.receive(rig.line, report(1, 2, 3)).await.unwrap(),
        }
        assert_eq!(from(&rig, former(), "former again", 4).await, None, "{way}");
        // The former owner has no part in the phone's later requests.
        rig.changed("gone", names(Some(1), None), names(Some(3), None), 5).await;
        let (of_new, code) = asked(&rig, Some(phone(3))).await;
        rig.says(former(), "tries", &code, 3600).await;
        assert_eq!(status(&rig, of_new).await.0, OtpStatus::Active, "{way}");
        // A late message does not restore it, a new one does.
        rig.wrote(names(Some(1), Some(1)), "late", 2).await;
        assert_eq!(from(&rig, former(), "after the late one", 6).await, None, "{way}");
        rig.wrote(names(Some(1), Some(1)), "anew", 7).await;
        assert_eq!(from(&rig, former(), "after the new one", 8).await, Some(phone(1)), "{way}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_dated_in_the_future_proves_no_longer_than_what_comes_then() {
    let rig = Rig::new().await;
    rig.wrote(names(Some(1), Some(1)), "future", 90_000).await;
    rig.wrote(names(Some(2), Some(1)), "now", 3600).await;
    assert_eq!(from(&rig, names(None, Some(1)), "hidden", 3600).await, Some(phone(2)));
}

#[tokio::test(start_paused = true)]
async fn a_phone_that_was_written_into_a_contact_goes_to_whom_the_channel_names() {
    let rig = Rig::new().await;
    let stranger = rig.wrote(names(None, Some(1)), "a", 1).await;
    edit(&rig, stranger, Some(phone(9))).await;
    let owner = rig.wrote(names(Some(9), Some(2)), "b", 2).await;
    assert_ne!(owner, stranger, "two people");
    assert_eq!(own(&rig.contact(stranger).await), (None, Some(user(1))));
    assert_eq!(own(&rig.contact(owner).await), (Some(phone(9)), Some(user(2))));
    assert_eq!(rig.wrote(names(None, Some(1)), "c", 3).await, stranger);
}

#[tokio::test(start_paused = true)]
async fn a_code_is_sent_from_either_form_of_a_phone() {
    let rig = Rig::new().await;
    let as_known = report(2, 1, 1);
    let (of_one, code) = asked(&rig, Some(phone(1))).await;
    let (of_other, other) = asked(&rig, Some(phone(2))).await;
    let sent = rig.acme.send_otp(SendOtp::to(phone(1))).await.unwrap().request_id;
    let origin = Origin::Otp { request_id: sent, number: 1 };
    let known = StatusUpdate { origin, user_id: None, ..as_known.statuses[0].clone() };
    let known = Callback { statuses: vec![known], ..Callback::default() };
    rig.acme.receive(rig.line, known).await.unwrap();
    rig.says(names(Some(2), None), "both", &format!("{code} {other}"), 3600).await;
    assert_eq!(status(&rig, of_one).await, (OtpStatus::Verified, Some(phone(1))));
    assert_eq!(status(&rig, of_other).await, (OtpStatus::Verified, Some(phone(2))));
}
