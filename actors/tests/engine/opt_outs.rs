//! Opt-outs by message, in any order of the messages.

use postrider_channel::callback::{Callback, Progress, StatusUpdate};
use postrider_channel::{Failure, FailureClass, Origin};
use postrider_domain::{NumberId, PublicEvent};

use super::support::messages::said;
use super::*;

async fn number(engine: &Engine) -> NumberId {
    engine.admin().numbers(&id("acme")).await.unwrap()[0].id
}

/// Returns the events of opting out and in, each with whether it has the contact's id.
async fn emitted(acme: &Workspace) -> Vec<(String, bool)> {
    let page = acme.events(0, 1000, None).await.unwrap();
    let opted = page.entries.iter().filter_map(|entry| match &entry.event {
        PublicEvent::Other { kind, data } if kind.as_str().starts_with("contact.opted") => {
            let data: serde_json::Value = serde_json::from_str(data).unwrap();
            Some((kind.as_str().to_owned(), data["contact_id"].is_string()))
        }
        _ => None,
    });
    opted.collect()
}

#[tokio::test(start_paused = true)]
async fn the_last_word_counts_whichever_comes_last() {
    let store = CrashingStore::new();
    let engine = engine(&store, START.plus(Duration::from_secs(3600))).await;
    let acme = workspace(&engine, "acme", 1).await;
    let number = number(&engine).await;
    let mut written = 0;
    let mut write = async |from: u32, text: &str, second: u64| {
        written += 1;
        let at = START.plus(Duration::from_secs(second));
        let callback = said(phone(from), &format!("wamid.{written}"), text, at);
        acme.receive(number, callback).await.unwrap();
    };
    let out = async || {
        let page = acme.suppressions(0, 100).await.unwrap();
        assert_eq!(page.total, page.suppressions.len());
        page.suppressions.iter().filter_map(|it| it.party.phone()).collect::<Vec<_>>()
    };
    // The words in the order in which they come, each with its second, and the phone's final state.
    for (number, (words, is_out)) in [
        (&[("STOP", 10)][..], true),
        (&[("STOP", 10), ("START", 9)], true),
        (&[("START", 9), ("STOP", 10)], true),
        (&[("START", 10), ("STOP", 9)], false),
        (&[("STOP", 10), ("START", 20), ("STOP", 15)], false),
        // Within the same second, only the order of arrival counts.
        (&[("STOP", 10), ("START", 10)], false),
        (&[("STOP", 10), ("hello", 99), ("START", 9)], true),
    ]
    .into_iter()
    .enumerate()
    {
        let before = out().await;
        for (word, second) in words {
            write(number as u32, word, *second).await;
        }
        let added = out().await.len() - before.len();
        assert_eq!(added == 1, is_out, "{words:?}");
    }
    // The workspace's own decision counts too.
    acme.unsuppress(phone(0)).await.unwrap();
    write(0, "STOP", 3000).await;
    assert!(!out().await.contains(&phone(0)));
    acme.suppress(phone(9), None).await.unwrap();
    write(9, "START", 3000).await;
    assert!(out().await.contains(&phone(9)));
}

#[tokio::test(start_paused = true)]
async fn opting_out_and_in_is_reported_once() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let acme = workspace(&engine, "acme", 1).await;
    for _ in 0..2 {
        acme.suppress(phone(1), Some("asked".to_owned())).await.unwrap();
    }
    acme.unsuppress(phone(1)).await.unwrap();
    assert!(acme.unsuppress(phone(1)).await.is_err());
    let (number, at) = (number(&engine).await, START);
    for (provider_id, text) in [("a", "STOP"), ("b", "stop"), ("b", "stop"), ("c", "START")] {
        let callback = said(phone(2), provider_id, text, at);
        acme.receive(number, callback).await.unwrap();
    }
    let [out, back] = ["contact.opted_out", "contact.opted_in"].map(str::to_owned);
    let expected = [(out.clone(), false), (back.clone(), false), (out, true), (back, true)];
    assert_eq!(emitted(&acme).await, expected);
    assert_eq!(acme.suppressions(0, 10).await.unwrap().total, 0);
}

/// A late report of the channel counts by its moment: only later messages can undo it.
#[tokio::test(start_paused = true)]
async fn what_the_channel_reports_late_is_decided_by_its_moment() {
    use super::support::broadcasts::{becomes, broadcast_to, create, with_template};
    let class = FailureClass::OptedOut;
    let failure = Failure { class, ..Failure::permanent(Some(131_050)) };
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = with_template(&engine).await;
    let number = number(&engine).await;
    let sale = create(&acme, broadcast_to(4)).await;
    becomes(&acme, sale, postrider_actors::BroadcastStatus::Completed).await;
    engine.pass(Duration::from_secs(7200)).await;
    let second = |second| START.plus(Duration::from_secs(second));
    let report = async |index: u32, at: Timestamp| {
        let report = StatusUpdate {
            origin: Origin::Broadcast { broadcast: sale, index },
            provider_id: "wamid".into(),
            status: Progress::Failed(failure.clone()),
            at,
            to: Some(phone(index)),
            known_as: None,
            user_id: None,
        };
        let callback = Callback { statuses: vec![report], ..Callback::default() };
        acme.receive(number, callback).await.unwrap();
    };
    let write = async |from: u32, text: &str, at: Timestamp| {
        let callback = said(phone(from), &format!("{from}{text}"), text, at);
        acme.receive(number, callback).await.unwrap();
    };
    write(0, "START", second(60)).await;
    report(0, second(0)).await;
    write(1, "START", second(60)).await;
    report(1, second(120)).await;
    // Another opt-out repeats the first one, and only then the contact opts in.
    write(2, "STOP", second(30)).await;
    report(2, second(120)).await;
    write(2, "START", second(60)).await;
    // The provider's clock may be ahead.
    report(3, second(9999)).await;
    write(3, "START", second(7200)).await;
    let page = acme.suppressions(0, 9).await.unwrap();
    let out: Vec<_> =
        page.suppressions.iter().map(|it| (it.party.phone().unwrap(), it.created_at)).collect();
    assert_eq!(out, [(phone(1), second(120)), (phone(2), second(30))]);
}
