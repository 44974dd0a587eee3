//! The records of webhook endpoints and of their deliveries' outcomes.

use expect_test::expect;
use postrider_domain::golden::{AT, Sheet, UNIQUE};
use postrider_domain::{EventId, EventKind, PublicEvent, WebhookId, WorkspaceId};

use super::delivery::EventBatch;
use super::endpoint::{Endpoint, WebhookSettings};
use super::queue::OrderingKey;
use super::records::*;
use super::retry_schedule::DisabledReason;

fn id() -> WebhookId {
    WebhookId::from_parts(AT, UNIQUE)
}

#[test]
fn keys_are_as_ever() {
    let (workspace, mut sheet): (WorkspaceId, _) = ("acme".parse().unwrap(), Sheet::default());
    sheet.text("endpoints", &endpoints_key(&workspace));
    sheet.text("cursor", &cursor_key(&workspace, id()));
    sheet.text("waiting", &waiting_key(&workspace, id(), 0x0102));
    sheet.text("tries", &tries_key(&workspace, id(), 0x0304));
    sheet.is(expect![[r#"
        endpoints: acme\x00e
        cursor: acme\x00s\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\nc
        waiting: acme\x00s\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\nw\x00\x00\x00\x00\x00\x00\x01\x02
        tries: acme\x00s\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\nd\x00\x00\x00\x00\x00\x00\x03\x04
    "#]]);
}

#[test]
fn an_endpoint_is_stored_as_ever() {
    let sealed = |text: &str| {
        serde_json::from_value(serde_json::json!({"key_version": 1, "text": text})).unwrap()
    };
    let settings = WebhookSettings {
        url: "https://example.com/hook".into(),
        events: vec!["otp.sent".into(), "message.read".into()],
        description: Some("shop".into()),
        enabled: true,
        rate_limit_per_second: std::num::NonZeroU32::new(5),
        ordered: true,
        batch: false,
    };
    let endpoint = Endpoint {
        id: id(),
        settings,
        disabled_reason: None,
        created_at: AT,
        updated_at: AT,
        enabled_at: AT,
        secret: sealed("AAAA"),
        previous_secrets: vec![(sealed("BBBB"), AT)],
    };
    let mut sheet = Sheet::default();
    sheet.json("endpoints", &vec![endpoint]);
    use DisabledReason::{Administrator, Failing, Gone};
    sheet.json("reasons", &[Gone, Failing, Administrator]);
    sheet.is(expect![[r#"
        endpoints: [{"id":"whk_01hf7yat3v041061050r3gg28a","settings":{"url":"https://example.com/hook","events":["otp.sent","message.read"],"description":"shop","enabled":true,"rate_limit_per_second":5,"ordered":true,"batch":false},"disabled_reason":null,"created_at":1700000000123,"updated_at":1700000000123,"enabled_at":1700000000123,"secret":{"key_version":1,"text":"AAAA"},"previous_secrets":[[{"key_version":1,"text":"BBBB"},1700000000123]]}]
        reasons: ["gone","failing","administrator"]
    "#]]);
}

#[test]
fn what_follows_a_delivery_is_stored_as_ever() {
    let data = r#"{"phone":"+15550123456"}"#.into();
    let lane = OrderingKey::of(&PublicEvent::Other { kind: EventKind::ContactOptedIn, data });
    let batch = EventBatch::of([7, 8, 9, 12]);
    let open = |lane, batch, is_replay| OpenDelivery {
        first: 7,
        last: 12,
        failures: 3,
        lane,
        batch,
        is_replay,
    };
    let waiting = |at, lane, batch, is_replay| WaitingDelivery {
        last: 12,
        failures: 3,
        at,
        lane,
        batch,
        is_replay,
    };
    let cursor = Cursor {
        after: 99,
        open: vec![open(None, None, false), open(Some(lane), Some(batch.clone()), true)],
        failing_since: Some(AT),
        replay: Some((3, 9)),
    };
    let mut sheet = Sheet::default();
    sheet.bytes("cursor", &cursor.encode());
    sheet.postcard("its fields", &cursor);
    sheet.bytes("cursor at rest", &Cursor { after: 99, ..Cursor::default() }.encode());
    sheet.json("waiting", &waiting(Some(AT), Some(lane), Some(batch), true));
    sheet.json("given up", &waiting(None, None, None, false));
    sheet.is(expect![[r#"
        cursor: 016302070c03000000070c0301d181f99ab9dca49efd01010207030c010101fbd095ffbc31010309
        its fields: 6302070c03000000070c0301d181f99ab9dca49efd01010207030c010101fbd095ffbc31010309
        cursor at rest: 0163000000
        waiting: {"last":12,"failures":3,"at":1700000000123,"lane":18247621296326066385,"batch":[[7,3],[12,1]],"again":true}
        given up: {"last":12,"failures":3,"at":null}
    "#]]);
}

#[test]
fn tries_are_stored_as_ever() {
    let event = |number| EventId::from_parts(AT, UNIQUE + number);
    let tried = DeliveryAttempt {
        event_id: Some(event(0)),
        batch_event_ids: vec![event(1), event(2)],
        forgotten: None,
        kind: "batch".into(),
        attempt: 2,
        status: Some(503),
        error: Some("timeout".into()),
        latency_ms: 20_000,
        response: Some("late".into()),
        at: AT,
        next_retry_at: Some(AT),
    };
    let forgotten = DeliveryAttempt {
        event_id: None,
        batch_event_ids: Vec::new(),
        forgotten: Some((3, 9)),
        kind: "forgotten".into(),
        status: None,
        error: None,
        response: None,
        next_retry_at: None,
        ..tried.clone()
    };
    let mut sheet = Sheet::default();
    let tries = vec![tried, forgotten];
    let record = encode_attempts(&tries);
    assert_eq!(decode_attempts(&record).as_ref(), Ok(&tries));
    for damaged in
        [&[][..], &record[1..], &record[..record.len() - 1], &[&record[..], &[0]].concat()]
    {
        assert!(decode_attempts(damaged).is_err(), "{damaged:02x?}");
    }
    sheet.bytes("tries", &record);
    sheet.postcard("their fields", &tries);
    sheet.is(expect![[r#"
        tries:
            01020110018bcfe5687b0102030405060708090a0210018bcfe5687b0102030405060708090b1001
            8bcfe5687b0102030405060708090c000562617463680201f703010774696d656f7574a09c010104
            6c617465fbd095ffbc3101fbd095ffbc31000001030909666f72676f7474656e020000a09c0100fb
            d095ffbc3100
        their fields:
            020110018bcfe5687b0102030405060708090a0210018bcfe5687b0102030405060708090b10018b
            cfe5687b0102030405060708090c000562617463680201f703010774696d656f7574a09c0101046c
            617465fbd095ffbc3101fbd095ffbc31000001030909666f72676f7474656e020000a09c0100fbd0
            95ffbc3100
    "#]]);
}
