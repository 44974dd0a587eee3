//! One-time passwords are listed and counted, in memory and after that.

use serde_json::{Value, json};

use crate::otp::verify;
use crate::support::{Api, TestServer, eventually};

const LIST: &str = "/v1/otp";
const COUNTS: &str = "/v1/analytics/otp";
const DAY_SECONDS: u64 = 24 * 3600;

fn phone(number: u32) -> String {
    format!("+1555012{number:04}")
}

async fn send(server: &TestServer, api: &Api, number: u32) -> (String, String) {
    let sent = api.post("/v1/otp/send", json!({"phone": phone(number)})).await.ok();
    let id = sent["request_id"].as_str().unwrap().to_owned();
    (id, server.code(api, &phone(number)).await)
}

/// Returns all rows, by pages of `limit`.
async fn list(api: &Api, query: &str, limit: usize) -> Vec<Value> {
    let (mut rows, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = api.get(&format!("{LIST}?limit={limit}{query}{cursor}")).await.ok();
        let data = page["data"].as_array().unwrap();
        assert!(data.len() <= limit);
        rows.extend(data.iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return rows,
        }
    }
}

fn ids(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["request_id"].as_str().unwrap()).collect()
}

fn statuses(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["status"].as_str().unwrap()).collect()
}

/// Sends four codes: one verified, one invalidated, and two that nobody enters, the last sent
/// twice.
async fn four(server: &TestServer, api: &Api) -> [String; 4] {
    let (verified, code) = send(server, api, 1).await;
    verify(api, &verified, "000").await.ok();
    assert_eq!(verify(api, &verified, &code).await.ok()["verified"], true);
    let (wrong, _) = send(server, api, 2).await;
    for _ in 0..5 {
        verify(api, &wrong, "000").await;
    }
    let (active, _) = send(server, api, 3).await;
    let (twice, _) = send(server, api, 4).await;
    api.post("/v1/otp/resend", json!({"request_id": twice})).await.ok();
    [twice, active, wrong, verified]
}

const STATUSES: [&str; 4] = ["active", "active", "invalidated", "verified"];

#[tokio::test]
async fn codes_are_listed_newest_first_with_where_they_stand() {
    let mut server = TestServer::start().await;
    let (api, other) = (server.workspace("acme").await, server.workspace("other").await);
    assert_eq!(list(&api, "", 50).await, Vec::<Value>::new());
    let four = four(&server, &api).await;
    let sent = async || {
        let rows = list(&api, "", 50).await;
        rows.iter().all(|row| row["delivery_status"] == "sent").then_some(rows)
    };
    let rows = eventually("all are sent", sent).await;
    assert_eq!(
        (ids(&rows), statuses(&rows)),
        (four.each_ref().map(|id| &**id).into(), STATUSES.into())
    );
    let of = |row: &Value| {
        let number = |name: &str| row[name].as_u64().unwrap();
        (number("attempts_remaining"), number("sends"), row["verified_at"].is_string())
    };
    let facts: Vec<_> = rows.iter().map(of).collect();
    assert_eq!(facts, [(5, 2, false), (5, 1, false), (0, 1, false), (4, 1, true)]);
    let has_ended: Vec<_> = rows.iter().map(|row| row["ended_at"].is_string()).collect();
    assert_eq!(has_ended, [false, false, true, true]);
    assert_eq!(rows[3]["ended_at"], rows[3]["verified_at"]);
    assert_eq!(api.get("/v1/messaging/otp?limit=200").await.ok()["data"], json!(rows));
    for (row, number) in rows.iter().zip([4, 3, 2, 1]) {
        assert_eq!((&row["phone"], &row["country"]), (&json!(phone(number)), &json!("1")));
        assert_eq!(row.as_object().unwrap().len(), 21, "and no code: {row}");
        let one = api.get(&format!("{LIST}/{}", row["request_id"].as_str().unwrap())).await.ok();
        assert_eq!(*row, one);
    }
    for limit in [1, 2, 3] {
        assert_eq!(list(&api, "", limit).await, rows, "{limit}");
    }
    assert_eq!(list(&api, "&phone=%2B15550120002", 50).await, rows[2..3]);
    assert_eq!(list(&api, "&status=active", 1).await, rows[..2]);
    assert_eq!(list(&api, "&status=verified&phone=+15550120002", 1).await.len(), 0);
    let made = rows[2]["created_at"].as_str().unwrap();
    assert_eq!(list(&api, &format!("&from={made}"), 50).await, rows[..3]);
    assert_eq!(list(&api, &format!("&to={made}"), 50).await, rows[3..]);
    assert_eq!(list(&other, "", 50).await, Vec::<Value>::new());
    server.restart().await;
    assert_eq!(list(&api, "", 50).await, rows);
    for bad in ["status=pending", "phone=5", "from=x", "to=1", "cursor=AQ", "limit=0"] {
        api.get(&format!("{LIST}?{bad}")).await.check(400, "VALIDATION_ERROR");
    }
}

/// Checks that each of these rows is read as it is listed.
async fn check_read(api: &Api, rows: &[Value]) {
    for row in rows {
        let path = format!("/v1/otp/{}", row["request_id"].as_str().unwrap());
        let read = api.get(&path).await.ok();
        for same in ["status", "phone", "delivery_status", "channel", "mode", "expires_at"] {
            assert_eq!(read[same], row[same], "{same}");
        }
    }
    let made = rows[0]["created_at"].as_str().unwrap();
    let wrong = format!("/v1/otp?since={made}&until=2020-01-01T00:00:00.000Z");
    api.get(&wrong).await.check(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn codes_are_known_after_their_request_is_forgotten() {
    let mut server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let four = four(&server, &api).await;
    let before = list(&api, "", 50).await;
    // They are removed from memory an hour after their end, and still found in the log.
    server.advance(300 + 3600 + 60).await;
    let forgotten = json!({"request_id": four[0]});
    api.post("/v1/otp/resend", forgotten).await.check(404, "NOT_FOUND");
    let ended = ["expired", "expired", "invalidated", "verified"];
    let all = async || {
        let rows = list(&api, "", 50).await;
        (statuses(&rows) == ended).then_some(rows)
    };
    let after = eventually("their records", all).await;
    for (then, now) in before.iter().zip(&after) {
        for same in [
            "request_id",
            "phone",
            "attempts_remaining",
            "sends",
            "verified_at",
            "channel",
            "created_at",
            "expires_at",
        ] {
            assert_eq!(then[same], now[same], "{same}");
        }
    }
    let end = |row: &Value| row["ended_at"].clone();
    assert!(before[2..].iter().map(end).eq(after[2..].iter().map(end)));
    // They are older than the search in the log: only their records find them.
    server.advance(3600).await;
    let (young, _) = send(&server, &api, 5).await;
    for limit in [1, 2, 50] {
        let rows = list(&api, "", limit).await;
        assert_eq!((ids(&rows)[0], &rows[1..]), (&*young, &after[..]), "{limit}");
    }
    assert_eq!(list(&api, "&status=expired", 1).await, after[..2]);
    assert_eq!(list(&api, "&phone=%2B15550120001", 1).await, after[3..]);
    let made = after[2]["created_at"].as_str().unwrap();
    assert_eq!(list(&api, &format!("&to={made}"), 50).await, after[3..]);
    assert_eq!(list(&api, &format!("&from={made}&status=invalidated"), 50).await, after[2..3]);
    server.crash().await;
    server.restart().await;
    assert_eq!(list(&api, "&status=verified", 50).await, after[3..]);
    check_read(&api, &after).await;
    // They are kept for 30 days.
    server.advance(40 * DAY_SECONDS).await;
    let path = format!("/v1/otp/{}", four[0]);
    api.get(&path).await.check(404, "NOT_FOUND");
    let about = format!("/v1/events?about={}", four[0]);
    let trimmed = async || api.get(&about).await.ok()["data"] == json!([]);
    eventually("their events are gone", async || trimmed().await.then_some(())).await;
    // The removal runs once an hour.
    server.advance(2 * 3600).await;
    let removed = async || list(&api, "", 50).await.is_empty().then_some(());
    eventually("their records are gone", removed).await;
}

#[tokio::test]
async fn counts_are_those_of_the_event_log() {
    let mut server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let start = server.demo().get("/v1/sandbox/clock").await.ok();
    let seconds = crate::support::millis(start["now"].as_str().unwrap()) / 1000 % DAY_SECONDS;
    server.advance(DAY_SECONDS - seconds).await;
    let zero = json!({"sent": 0, "delivered": 0, "verified": 0, "wrong": 0, "expired": 0,
        "failed": 0, "refused": 0});
    assert_eq!(api.get(COUNTS).await.ok(), json!({"data": [], "totals": zero}));
    four(&server, &api).await;
    let german = json!({"phone": "+4915112345678"});
    api.post("/v1/otp/send", german.clone()).await.ok();
    let destinations = "/admin/v1/workspaces/acme/destinations";
    server.admin().put(destinations, json!({"allow": ["1"], "deny": []})).await.ok();
    for _ in 0..3 {
        api.post("/v1/otp/send", german.clone()).await.check(422, "UNPROCESSABLE");
    }
    server.advance(301).await;
    let expired = async || {
        let found = api.get(COUNTS).await.ok();
        (found["totals"]["expired"] == 3 && found["totals"]["refused"] == 3).then_some(found)
    };
    let found = eventually("what expired is counted", expired).await;
    let totals = json!({"sent": 5, "delivered": 0, "verified": 1, "wrong": 6, "expired": 3,
        "failed": 1, "refused": 3});
    assert_eq!(found["totals"], totals);
    let events = api.get("/v1/events?limit=200").await.ok();
    let emitted = |kind: &str| {
        let rows = events["data"].as_array().unwrap().iter();
        rows.filter(|row| row["type"] == kind && row["data"]["resend"] != true).count()
    };
    for (name, kind) in [
        ("sent", "otp.sent"),
        ("verified", "otp.verified"),
        ("expired", "otp.expired"),
        ("failed", "otp.failed"),
    ] {
        assert_eq!(totals[name], emitted(kind), "{kind}");
    }
    let by = async |query: &str| api.get(&format!("{COUNTS}?{query}")).await.ok();
    assert_eq!(found["data"].as_array().unwrap().len(), 1);
    let day = found["data"][0]["day"].as_str().unwrap().to_owned();
    assert_eq!(found["data"][0]["sent"], 5);
    let german = json!({"country": "49", "sent": 1, "delivered": 0, "verified": 0, "wrong": 0,
        "expired": 1, "failed": 0, "refused": 3});
    let countries = by("group_by=country").await;
    assert_eq!((&countries["data"][0]["country"], &countries["data"][1]), (&json!("1"), &german));
    assert_eq!(countries["totals"], totals);
    let by_day = async |query: &str| by(query).await["totals"]["sent"].as_u64().unwrap();
    assert_eq!((by_day("").await, by_day(&format!("to={day}")).await), (5, 5));
    go_on(&mut server, &api, &day).await;
}

/// Checks that counts continue after a crash, and start over with the day.
async fn go_on(server: &mut TestServer, api: &Api, day: &str) {
    let by = async |query: &str| api.get(&format!("{COUNTS}?{query}")).await.ok();
    server.crash().await;
    server.restart().await;
    send(server, api, 6).await;
    assert_eq!(by("").await["totals"]["sent"], 6, "a restart goes on where it was");
    server.advance(DAY_SECONDS).await;
    send(server, api, 7).await;
    let days = by("").await;
    let sent: Vec<_> = days["data"].as_array().unwrap().iter().map(|row| &row["sent"]).collect();
    assert_eq!(sent, [6, 1]);
    assert_eq!(by(&format!("to={day}")).await["totals"]["sent"], 6);
    let bad = api.get(&format!("{COUNTS}?group_by=phone")).await;
    bad.check(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn a_listed_one_shows_what_is_read_of_it_then_and_later() {
    let mut server = TestServer::start().await;
    let (api, admin) = (server.workspace("acme").await, server.admin());
    admin.put("/admin/v1/workspaces/acme/sms", json!({"kind": "sandbox"})).await.ok();
    four(&server, &api).await;
    let refused = json!({"to": "*", "channel": "messaging", "outcome": "failed"});
    api.post("/v1/sandbox/outcomes", refused).await.ok();
    let chained = json!({"phone": phone(5), "channels": ["messaging", "sms"], "language": "en"});
    api.post("/v1/otp/send", chained).await.ok();
    api.post("/v1/otp/send", json!({"phone": phone(6), "mode": "inbound"})).await.ok();
    let has_fallen_back = async || {
        let rows = list(&api, "", 200).await;
        rows.iter().any(|row| row["tries"].as_array().unwrap().len() == 2).then_some(())
    };
    eventually("the second step", has_fallen_back).await;
    for hours in [0, 1, 2] {
        server.advance(hours * 3600).await;
        if hours == 2 {
            server.crash().await;
        }
        let rows = list(&api, "", 200).await;
        assert_eq!(rows.len(), 6);
        for row in rows {
            let read = api.get(&format!("{LIST}/{}", row["request_id"].as_str().unwrap())).await;
            for (name, value) in read.ok().as_object().unwrap() {
                assert_eq!(&row[name], value, "{name} after {hours} hours of {row}");
            }
        }
    }
}
