//! Golden bytes of a broadcast's record, audience, outcomes and reports.

use expect_test::expect;
use postrider_domain::day::Day;
use postrider_domain::golden::{AT, Sheet, UNIQUE};
use postrider_domain::template::{TemplateCategory, TemplateName};
use postrider_domain::{BroadcastId, NumberId, Phone, SenderNotes, WorkspaceId};
use postrider_store::{Change, Group, MemoryStore, Store};
use serde_json::json;

use super::audience::{Audience, ByPhone, Segment, place_of};
use super::daily_counts::{self, Counter, DayCounts};
use super::outcomes::{Failed, Mark, Report, Reports, Window};
use super::record::*;

fn workspace() -> WorkspaceId {
    "acme".parse().unwrap()
}

fn id() -> BroadcastId {
    BroadcastId::from_parts(AT, UNIQUE)
}

fn record() -> Record {
    Record {
        id: id(),
        name: "Spring".into(),
        template: TemplateName { name: "offer".into(), language: "en_US".into() },
        category: TemplateCategory::Marketing,
        policy: BroadcastPolicy::AtLeastOnce,
        status: BroadcastStatus::Completed,
        reason: Some("too_many_failures".into()),
        total: 10,
        sendable: 9,
        price: 2,
        number: NumberId::from_parts(AT, UNIQUE + 1),
        definition: vec![json!({"type": "BODY", "text": "Hi {{1}}"})],
        components: vec![json!({"type": "body", "parameters": []})],
        personal: true,
        created_at: AT,
        schedule_at: Some(AT),
        started_at: Some(AT),
        finished_at: None,
        retry_of: Some(BroadcastId::from_parts(AT, UNIQUE + 2)),
        retried_by: Some(BroadcastId::from_parts(AT, UNIQUE + 3)),
        settled: true,
        recipients_dropped: false,
        notes: SenderNotes::default(),
        beside: Vec::new(),
        from: Vec::new(),
    }
}

#[test]
fn a_broadcast_is_stored_as_ever() {
    let mut sheet = Sheet::default();
    sheet.json("record", &record());
    let [one, two] = [4, 5].map(|more| NumberId::from_parts(AT, UNIQUE + more));
    let of_several = Record { beside: vec![one], from: vec![two], ..record() };
    let mut of_several = serde_json::to_value(of_several).unwrap();
    of_several.as_object_mut().unwrap().retain(|name, _| ["beside", "from"].contains(&&**name));
    sheet.json("of several numbers", &of_several);
    use BroadcastStatus::{Cancelled, Completed, Failed, Paused, Queued, Scheduled, Sending};
    sheet.json("statuses", &[Scheduled, Queued, Sending, Paused, Completed, Cancelled, Failed]);
    sheet.json("policies", &[BroadcastPolicy::AtMostOnce, BroadcastPolicy::AtLeastOnce]);
    sheet.is(expect![[r#"
        record: {"id":"brd_01hf7yat3v041061050r3gg28a","name":"Spring","template":{"name":"offer","language":"en_US"},"category":"marketing","policy":"at_least_once","status":"completed","reason":"too_many_failures","total":10,"sendable":9,"price":2,"number":"num_01hf7yat3v041061050r3gg28b","definition":[{"text":"Hi {{1}}","type":"BODY"}],"components":[{"parameters":[],"type":"body"}],"personal":true,"created_at":1700000000123,"schedule_at":1700000000123,"started_at":1700000000123,"finished_at":null,"retry_of":"brd_01hf7yat3v041061050r3gg28c","retried_by":"brd_01hf7yat3v041061050r3gg28d","settled":true}
        of several numbers: {"beside":["num_01hf7yat3v041061050r3gg28e"],"from":["num_01hf7yat3v041061050r3gg28f"]}
        statuses: ["scheduled","queued","sending","paused","completed","cancelled","failed"]
        policies: ["at_most_once","at_least_once"]
    "#]]);
}

#[test]
fn keys_are_as_ever() {
    let (workspace, mut sheet) = (workspace(), Sheet::default());
    sheet.text("records", &records_prefix(&workspace));
    sheet.text("record", &record_key(&workspace, id()));
    sheet.text("draft", &draft_key(&workspace, id()));
    sheet.text("counts", &counts_key(&workspace, id()));
    sheet.text("parts", &parts_prefix(&workspace, id()));
    let segment = |part| segment_key(&workspace, id(), 0x0102, part);
    sheet.text("phones of a segment", &segment(SegmentPart::Phones));
    sheet.text("variables of a segment", &segment(SegmentPart::Variables));
    sheet.text("by phone", &phones_key(&workspace, id(), 15_550_123_456));
    sheet.text("window", &window_key(&workspace, id(), 0x0304));
    let day = Day::of(AT);
    sheet.text("day", &daily_counts::key(&workspace, day, id(), Counter::FanOut));
    sheet.text(
        "day of the workspace",
        &daily_counts::key(&workspace, day, id(), Counter::Workspace),
    );
    sheet.text("message", message_id(id(), 0x0506).to_string().as_bytes());
    sheet.is(expect![[r#"
        records: acme\x00b
        record: acme\x00b\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        draft: acme\x00d\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        counts: acme\x00c\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        parts: acme\x00\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        phones of a segment: acme\x00\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x00\x00\x01\x02\x00
        variables of a segment: acme\x00\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x00\x00\x01\x02\x01
        by phone: acme\x00\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x00\x00\x00\x03\x9e\xdc\r\xc0
        window: acme\x00\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x00\x00\x03\x04
        day: acme\x00c\x00\x00L\xdb\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x00
        day of the workspace: acme\x00c\x00\x00L\xdb\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x01
        message: msg_01hf7yat3v041061050r000186
    "#]]);
    let key = daily_counts::key(&workspace, day, id(), Counter::FanOut);
    let rest = key.strip_prefix(&*daily_counts::prefix(&workspace)).unwrap();
    assert_eq!(daily_counts::read_key(rest), Some((day, id())));
    let (key, index) = of_message(&workspace, message_id(id(), 0x0506));
    assert!(record_key(&workspace, id()).starts_with(&key) && index == 0x0506);
    assert_eq!((SEGMENT, WINDOW), (8000, 500));
}

#[test]
fn an_audience_is_stored_as_ever() {
    let (workspace, store, mut sheet) = (workspace(), MemoryStore::new(), Sheet::default());
    let mut audience = Audience::new();
    let phones = ["+15550123456", "+4915112345678", "+15550123455"];
    for (phone, variables) in phones.iter().zip([&["Ann", "é"][..], &[], &["Bo"]]) {
        let variables = variables.iter().map(|text| (*text).into()).collect();
        audience.add(phone.parse().unwrap(), variables);
    }
    let mut changes = audience.segment(&workspace, id(), 0);
    changes.extend(ByPhone::of(&audience.phones).changes(&workspace, id(), &audience.phones));
    for Change { table, key, value } in &changes {
        let kind = &key[key.len() - 8..];
        let name = format!("{} … {}", table.name(), kind.escape_ascii());
        sheet.bytes(&name, value.as_deref().unwrap());
    }
    sheet.is(expect![[r#"
        broadcast_audience … \x08\t\n\x00\x00\x00\x00\x00: 000000039edc0dc0000004786386804e000000039edc0dbf
        broadcast_audience … \x08\t\n\x00\x00\x00\x00\x01: 030203416e6e02c3a9000102426f
        broadcast_phones … \x00\x00\x00\x03\x9e\xdc\r\xbf: 000000039edc0dbf00000002000000039edc0dc000000000000004786386804e00000001
    "#]]);
    store.commit(Group::new(None, &changes)).unwrap();
    let segment = Segment::read(&store, &workspace, id(), 0, true).unwrap();
    for (index, phone) in (0..).zip(phones) {
        let phone: Phone = phone.parse().unwrap();
        assert_eq!(segment.recipient(index).unwrap().0, phone);
        assert_eq!(place_of(&store, &workspace, id(), phone).unwrap(), Some(index));
    }
    let (_, variables) = segment.recipient(0).unwrap();
    assert_eq!(variables, [Box::from("Ann"), Box::from("é")]);
}

#[test]
fn outcomes_reports_and_days_are_stored_as_ever() {
    let failed = Failed { refused: true, code: Some(131_026), details: "no".into() };
    let mut sheet = Sheet::default();
    let mut window = Window::claimed(8);
    let marks = [Mark::Claimed, Mark::Retry, Mark::Sent, Mark::Failed, Mark::Unknown];
    for (at, mark) in marks.into_iter().chain([Mark::OptedOut]).enumerate() {
        window.set(at, mark);
    }
    window.set_failed(6, failed.clone());
    window.set(7, Mark::Held);
    sheet.bytes("outcomes", &window.encode());
    assert_eq!(Window::decode(&window.encode()), Ok(window));
    let mut reports = Reports::default();
    let all = [Report::Sent, Report::Delivered, Report::Read, Report::Failed];
    for (at, report) in all.into_iter().enumerate() {
        let failed = (report == Report::Failed).then(|| failed.clone());
        assert!(reports.take(at, report, failed));
    }
    assert!(reports.reply(1) && reports.reply(499));
    sheet.bytes("reports", &reports.encode());
    assert_eq!(Reports::decode(&reports.encode()), Ok(reports));
    let name = "Spring".into();
    let day = DayCounts { name, sent: 300, delivered: 4, read: 3, failed: 2, replied: 1 };
    sheet.bytes("day", &day.encode());
    assert_eq!(DayCounts::decode(&day.encode()), Ok(day));
    sheet.is(expect![[r#"
        outcomes: 08000102030405030601060101d2ff07026e6f
        reports:
            f4030182030400000000000000000000000000000000000000000000000000000000000000000000
            00000000000000000000000000000000000000000000000000000000000000000000000000000000
            00000000000000000000000000000000000000000000000000000000000000000000000000000000
            00000000000000000000000000000000000000000000000000000000000000000000000000000000
            00000000000000000000000000000000000000000000000000000000000000000000000000000000
            00000000000000000000000000000000000000000000000000000000000000000000000000000000
            00000000000000000000000000000000000000000000000000000000000000000000000000000000
            00000000000000000000000000000000000000000000000000000000000000000000000000000000
            00000000000000000000000000000000000000000000000000000000000000000000000000000000
            00000000000000000000000000000000000000000000000000000000000000000000000000000000
            00000000000000000000000000000000000000000000000000000000000000000000000000000000
            00000000000000000000000000000000000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000008001030101d2ff07026e6f
        day: 06537072696e67ac0204030201
    "#]]);
}
