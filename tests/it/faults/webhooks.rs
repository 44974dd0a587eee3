//! `kill -9` while webhooks are delivered, with a receiver that records every delivery.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::support::{Received, Sink, at_size, eventually};

use super::check::Lost;
use super::client::{Answer, Client, Outcome};
use super::load::Story;
use super::process::Process;

/// The deliveries of one endpoint that a crash may find under way, or ended and not recorded yet.
const AT_RISK_MAX: usize = UNDER_WAY_MAX + 256;
/// The maximum number of deliveries of one endpoint that are under way.
const UNDER_WAY_MAX: usize = 64;

/// The paths of endpoints, and the types that each takes; none: all.
const ENDPOINTS: [(&str, &[&str]); 3] =
    [("/all", &[]), ("/verified", &["otp.verified"]), ("/ordered", &["otp.sent", "otp.verified"])];

async fn register(demo: &mut Client, sink: &Sink) {
    for (path, kinds) in ENDPOINTS {
        let body = json!({"url": sink.url(path), "events": kinds, "ordered": path == "/ordered"});
        let made = demo.post("/v1/webhooks", &body).await;
        assert!(matches!(&made, Outcome::Answered(Answer { status: 201, .. })), "{made:?}");
    }
}

/// Returns the whole event log.
async fn log(demo: &mut Client) -> Vec<Value> {
    let (mut events, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = demo.fetch(&format!("/v1/events?limit=200{cursor}")).await;
        let data = page["data"].as_array().unwrap();
        if data.is_empty() {
            return events;
        }
        events.extend_from_slice(data);
        cursor = format!("&cursor={}", page["next_cursor"].as_str().unwrap());
    }
}

/// Checks that every delivery is in the log, and came twice only if a kill found it under way.
/// `kills` contains the number of deliveries at each kill.
fn check(received: &[Received], log: &[&Value], kills: &[usize]) {
    let by_id: HashMap<_, _> =
        log.iter().map(|event| (event["id"].as_str().unwrap(), *event)).collect();
    let mut first: HashMap<&str, usize> = HashMap::new();
    for (place, it) in received.iter().enumerate() {
        let event = by_id.get(it.id()).unwrap_or_else(|| panic!("not in the log: {it:?}"));
        assert_eq!(it.json(), **event, "another body under the same id");
        let Some(before) = first.insert(it.id(), place) else { continue };
        // A delivery that was under way at the kill comes a little later.
        let at_risk = |kill: &usize| {
            *kill <= place
                && (kill.saturating_sub(AT_RISK_MAX)..=kill + UNDER_WAY_MAX).contains(&before)
        };
        assert!(kills.iter().any(at_risk), "{} came at {before} and {place}: {kills:?}", it.id());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_the_log_is_delivered_through_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let sink = Sink::start();
    let mut story = Story::new();
    let mut process = Process::start(dir.path());
    register(&mut process.demo(), &sink).await;
    let mut kills = vec![Vec::new(); ENDPOINTS.len()];
    for _ in 0..at_size(2, 6) {
        story.until_killed(process, at_size(300..400, 100..400)).await;
        for (kills, (path, _)) in kills.iter_mut().zip(ENDPOINTS) {
            kills.push(sink.received(path).len());
        }
        process = Process::start(dir.path());
        story.check(&process, Lost::MayBeThere).await;
    }
    let log = log(&mut process.demo()).await;
    for ((path, kinds), kills) in ENDPOINTS.into_iter().zip(kills) {
        let takes =
            |event: &&Value| kinds.is_empty() || kinds.iter().any(|it| event["type"] == *it);
        let expected: Vec<_> = log.iter().filter(takes).collect();
        assert!(expected.len() >= 50, "only {} events", expected.len());
        let all_came = async || {
            let received = sink.received(path);
            let ids: HashSet<_> = received.iter().map(Received::id).collect();
            (ids.len() >= expected.len()).then_some(())
        };
        eventually(&format!("every event at {path}"), all_came).await;
        let received = sink.received(path);
        check(&received, &expected, &kills);
        let twice = received.len() - expected.len();
        eprintln!("{path}: {} events, {twice} of them twice, kills at {kills:?}", expected.len());
    }
}
