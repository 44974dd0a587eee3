//! Parts of the event log: newest first, by type, and about somebody.

use serde_json::{Value, json};

use crate::support::{Api, TestServer};

const EVENTS: &str = "/v1/events";
const ANA: &str = "+15550123456";
const BO: &str = "+15550123457";

async fn page(api: &Api, query: &str) -> (Vec<Value>, Option<String>) {
    let page = api.get(&format!("{EVENTS}?{query}")).await.ok();
    let cursor = page["next_cursor"].as_str().map(str::to_owned);
    (page["data"].as_array().unwrap().clone(), cursor)
}

async fn all(api: &Api, query: &str) -> Vec<Value> {
    page(api, &format!("{query}&limit=200")).await.0
}

#[tokio::test]
async fn the_log_is_read_from_its_end_and_by_what_it_is_about() {
    let server = TestServer::start().await;
    let (api, other) = (server.workspace("acme").await, server.workspace("other").await);
    assert_eq!(page(&api, "order=desc").await, (Vec::new(), None));
    let mut requests = Vec::new();
    for phone in [ANA, BO] {
        let sent = api.post("/v1/otp/send", json!({"phone": phone})).await.ok();
        requests.push(sent["request_id"].as_str().unwrap().to_owned());
        api.post("/v1/sandbox/inbound", json!({"from": phone, "text": phone})).await.ok();
    }
    let forwards = all(&api, "order=asc").await;
    let mut backwards = forwards.clone();
    backwards.reverse();
    assert!(forwards.len() >= 8, "{forwards:?}");
    assert_eq!(all(&api, "").await, forwards);
    for limit in [1, 3, 200] {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let (rows, next) = page(&api, &format!("order=desc&limit={limit}{cursor}")).await;
            assert!(!rows.is_empty(), "a page without a filter has events");
            seen.extend(rows);
            let Some(next) = next else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(seen, backwards, "{limit}");
    }
    let of = |fits: &dyn Fn(&Value) -> bool| {
        backwards.iter().filter(|event| fits(event)).cloned().collect::<Vec<_>>()
    };
    let types = ["otp.sent", "message.received"];
    let wanted = of(&|event| types.iter().any(|kind| event["type"] == *kind));
    assert_eq!(wanted.len(), 4);
    assert_eq!(all(&api, "order=desc&types=otp.sent,%20message.received").await, wanted);
    assert_eq!(all(&api, "order=desc&type=otp.sent").await.len(), 2);
    let about = of(&|event| event["data"]["phone"] == BO || event["data"]["from"] == BO);
    assert_eq!(about.len(), 4);
    for query in ["about=%2B15550123457", "about=+15550123457"] {
        assert_eq!(all(&api, &format!("order=desc&{query}")).await, about);
    }
    of_one_event((&api, &other), &requests[0], (&forwards, &backwards)).await;
    refusals(&api).await;
}

/// Checks the queries about one event, and the read of that event.
async fn of_one_event(
    (api, other): (&Api, &Api),
    id: &str,
    (forwards, backwards): (&[Value], &[Value]),
) {
    let of = |fits: &dyn Fn(&Value) -> bool| {
        backwards.iter().filter(|event| fits(event)).cloned().collect::<Vec<_>>()
    };
    let request = format!("about={id}");
    let own = of(&|event| event["data"]["request_id"] == id);
    assert_eq!((own.len(), all(api, &format!("order=desc&{request}")).await), (1, own.clone()));
    assert_eq!(all(api, &format!("{request}&types=otp.verified")).await.len(), 0);
    // A part of a value is no subject.
    assert_eq!(all(api, "about=%2B1555012345").await.len(), 0);
    for event in [&forwards[0], &backwards[0]] {
        let path = format!("{EVENTS}/{}", event["id"].as_str().unwrap());
        assert_eq!(api.get(&path).await.ok(), *event);
        other.get(&path).await.check(404, "NOT_FOUND");
    }
    let none = format!("{EVENTS}/evt_01jd3v0x5n8m7k2q4r6s8t0w2y");
    api.get(&none).await.check(404, "NOT_FOUND");
}

async fn refusals(api: &Api) {
    for bad in [
        "order=newest",
        "types=otp.sent,x",
        "types=",
        "type=otp.sent&types=otp.sent",
        "about=",
        "order=desc&cursor=x",
    ] {
        api.get(&format!("{EVENTS}?{bad}")).await.check(400, "VALIDATION_ERROR");
    }
    let long = format!("{EVENTS}?about={}", "x".repeat(201));
    api.get(&long).await.check(400, "VALIDATION_ERROR");
}
