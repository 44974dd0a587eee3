//! Pure: golden bytes of every journal event and every entry of the event log.

use expect_test::expect;

use super::*;
use crate::code::{CodeLength, Expiry};
use crate::fuzz::edited;
use crate::golden::{AT, Sheet, UNIQUE};
use crate::{MessageId, Phone};
use message::tests::steps;

fn request() -> RequestId {
    RequestId::from_parts(AT, UNIQUE)
}

fn phone() -> Phone {
    "+15550123456".parse().unwrap()
}

/// Returns the name of a journal event. A new event must be named here and added to `journal`.
fn journal_name(event: &Event) -> &'static str {
    match event {
        Event::OtpSent { .. } => "OtpSent",
        Event::OtpResent { .. } => "OtpResent",
        Event::OtpMissed { .. } => "OtpMissed",
        Event::OtpVerified { .. } => "OtpVerified",
        Event::OtpExpired { .. } => "OtpExpired",
        Event::OtpDelivery { .. } => "OtpDelivery",
        Event::OtpReported { .. } => "OtpReported",
        Event::PumpingSuspected { .. } => "PumpingSuspected",
        Event::MessageQueued { .. } => "MessageQueued",
        Event::MessageSettled { .. } => "MessageSettled",
        Event::MessageClaimed { .. } => "MessageClaimed",
        Event::MessageReleased { .. } => "MessageReleased",
        Event::OtpRepeat { .. } => "OtpRepeat",
        Event::OtpEarlier { .. } => "OtpEarlier",
        Event::WorkspaceDeleted => "WorkspaceDeleted",
        Event::OtpCancelled { .. } => "OtpCancelled",
        Event::OtpTest { .. } => "OtpTest",
        Event::OtpNoted { .. } => "OtpNoted",
        Event::OtpCaller { .. } => "OtpCaller",
        Event::OtpChain { .. } => "OtpChain",
        Event::OtpTry { .. } => "OtpTry",
        Event::OtpTryChanged { .. } => "OtpTryChanged",
        Event::OtpInbound { .. } => "OtpInbound",
        Event::OtpOpen { .. } => "OtpOpen",
        Event::MessageWritten { .. } => "MessageWritten",
    }
}

/// Returns one event of each kind, in the order of their numbers on disk, which are their first
/// byte.
fn journal() -> Vec<Event> {
    let (id, message) = (request(), MessageId::from_parts(AT, UNIQUE));
    let expiry = Expiry::from_seconds(600).unwrap();
    let length = CodeLength::from_digits(8).unwrap();
    let step = chain::ChainStep { channel: chain::OtpChannel::Sms, timeout_seconds: 30 };
    let plan = chain::ChainPlan {
        steps: vec![step],
        email: Some("a@b.c".into()),
        only: false,
        adopts: Some(300),
    };
    vec![
        Event::OtpSent { id, phone: phone(), expiry, length, key_version: 3 },
        Event::OtpResent { id, at: AT },
        Event::OtpMissed { id, attempts: 4 },
        Event::OtpVerified { id },
        Event::OtpExpired { id },
        Event::OtpDelivery { id, delivery: Delivery::Failed },
        Event::OtpReported { id, delivery: Delivery::Read },
        Event::PumpingSuspected { calling_code: 971, at: AT },
        Event::MessageQueued {
            id: message,
            give_up_at: AT,
            claimed: true,
            unwritten: (*b"message").into(),
        },
        Event::MessageSettled { id: message },
        Event::MessageClaimed { id: message },
        Event::MessageReleased { id: message },
        Event::OtpRepeat { id, repeat: Some(Repeat { count: 2, due: Some(AT) }) },
        Event::OtpEarlier { id, number: 1, delivery: Delivery::Unknown, unsettled: 2 },
        Event::OtpRepeat { id, repeat: Some(Repeat { count: 1, due: None }) },
        Event::OtpRepeat { id, repeat: None },
        Event::WorkspaceDeleted,
        Event::OtpCancelled { id },
        Event::OtpTest { id, phone: phone(), expiry, key_version: 3 },
        Event::OtpNoted { id, notes: r#"{"reference":"é"}"#.into() },
        Event::OtpCaller { caller: [7; 16], at: AT },
        Event::OtpChain { id, plan: Box::new(plan) },
        Event::OtpTry { id, step, price: 300, skipped: false, at: AT },
        Event::OtpTryChanged {
            id,
            number: 2,
            status: chain::TryStatus::Failed,
            error: Some(30007),
            at: AT,
            ended: true,
        },
        Event::OtpInbound { id, phone: phone(), expiry, length, key_version: 3 },
        Event::OtpOpen { id, expiry, key_version: 3, hash: [7; 16] },
        Event::MessageWritten { id: message },
    ]
}

#[test]
fn journal_events_are_written_and_read_as_ever() {
    let (mut sheet, mut all) = (Sheet::default(), Vec::new());
    for event in journal() {
        let mut bytes = Vec::new();
        event.encode_into(&mut bytes);
        assert_eq!(Event::decode_all(&bytes).collect::<Vec<_>>(), [Ok(event.clone())]);
        sheet.bytes(journal_name(&event), &bytes);
        all.extend(bytes);
    }
    let read: Vec<_> = Event::decode_all(&all).map(Result::unwrap).collect();
    assert_eq!(read, journal());
    sheet.is(expect![[r#"
        OtpSent: 0010018bcfe5687b0102030405060708090ac09bf0f639d8040803
        OtpResent: 0110018bcfe5687b0102030405060708090afbd095ffbc31
        OtpMissed: 0210018bcfe5687b0102030405060708090a04
        OtpVerified: 0310018bcfe5687b0102030405060708090a
        OtpExpired: 0410018bcfe5687b0102030405060708090a
        OtpDelivery: 0510018bcfe5687b0102030405060708090a02
        OtpReported: 0610018bcfe5687b0102030405060708090a05
        PumpingSuspected: 07cb07fbd095ffbc31
        MessageQueued: 0810018bcfe5687b0102030405060708090afbd095ffbc3101076d657373616765
        MessageSettled: 0910018bcfe5687b0102030405060708090a
        MessageClaimed: 0a10018bcfe5687b0102030405060708090a
        MessageReleased: 0b10018bcfe5687b0102030405060708090a
        OtpRepeat: 0c10018bcfe5687b0102030405060708090a010201fbd095ffbc31
        OtpEarlier: 0d10018bcfe5687b0102030405060708090a010302
        OtpRepeat: 0c10018bcfe5687b0102030405060708090a010100
        OtpRepeat: 0c10018bcfe5687b0102030405060708090a00
        WorkspaceDeleted: 0e
        OtpCancelled: 0f10018bcfe5687b0102030405060708090a
        OtpTest: 1010018bcfe5687b0102030405060708090ac09bf0f639d80403
        OtpNoted: 1110018bcfe5687b0102030405060708090a127b227265666572656e6365223a22c3a9227d
        OtpCaller: 1207070707070707070707070707070707fbd095ffbc31
        OtpChain: 1310018bcfe5687b0102030405060708090a01011e01056140622e630001ac02
        OtpTry: 1410018bcfe5687b0102030405060708090a011eac0200fbd095ffbc31
        OtpTryChanged: 1510018bcfe5687b0102030405060708090a020401b7ea01fbd095ffbc3101
        OtpInbound: 1610018bcfe5687b0102030405060708090ac09bf0f639d8040803
        OtpOpen: 1710018bcfe5687b0102030405060708090ad8040307070707070707070707070707070707
        MessageWritten: 1810018bcfe5687b0102030405060708090a
    "#]]);
}

fn entries() -> Vec<(&'static str, PublicEvent)> {
    let (request_id, phone) = (request(), phone());
    let noted = |event| {
        let notes = r#"{"reference":"é"}"#.into();
        PublicEvent::Noted { event: Box::new(event), notes }
    };
    let failed = |reason| PublicEvent::OtpFailed { request_id, phone, reason };
    let other = PublicEvent::Other { kind: EventKind::WebhookTest, data: r#"{"a":"é"}"#.into() };
    let codes = vec![
        ("sent", PublicEvent::OtpSent { request_id, phone, expires_at: AT, resend: false }),
        ("sent again", PublicEvent::OtpSent { request_id, phone, expires_at: AT, resend: true }),
        ("verified", PublicEvent::OtpVerified { request_id, phone }),
        ("expired", PublicEvent::OtpExpired { request_id, phone }),
        ("attempts", failed(OtpFailure::MaxAttempts)),
        ("refused", failed(OtpFailure::Channel { error_code: Some(131_026) })),
        ("refused without a code", failed(OtpFailure::Channel { error_code: None })),
        ("late", failed(OtpFailure::NotSentInTime)),
        ("other", other.clone()),
        ("noted", noted(PublicEvent::OtpVerified { request_id, phone })),
        ("noted other", noted(other)),
    ];
    codes.into_iter().chain(steps().map(|(name, it)| (name, PublicEvent::Message(it)))).collect()
}

#[test]
fn entries_of_the_event_log_are_written_and_read_as_ever() {
    let mut sheet = Sheet::default();
    for (name, event) in entries() {
        let entry = LogEntry { at: AT, event };
        let mut bytes = Vec::new();
        entry.encode_into(&mut bytes);
        sheet.bytes(name, &bytes);
        assert_eq!(LogEntry::decode_all(&bytes).collect::<Vec<_>>(), [Ok(entry)]);
    }
    sheet.is(expect![[r#"
        sent: fbd095ffbc310010018bcfe5687b0102030405060708090ac09bf0f639fbd095ffbc3100
        sent again: fbd095ffbc310010018bcfe5687b0102030405060708090ac09bf0f639fbd095ffbc3101
        verified: fbd095ffbc310110018bcfe5687b0102030405060708090ac09bf0f639
        expired: fbd095ffbc310210018bcfe5687b0102030405060708090ac09bf0f639
        attempts: fbd095ffbc310310018bcfe5687b0102030405060708090ac09bf0f63900
        refused: fbd095ffbc310310018bcfe5687b0102030405060708090ac09bf0f6390101d2ff07
        refused without a code: fbd095ffbc310310018bcfe5687b0102030405060708090ac09bf0f6390100
        late: fbd095ffbc310310018bcfe5687b0102030405060708090ac09bf0f63902
        other: fbd095ffbc31040f0a7b2261223a22c3a9227d
        noted:
            fbd095ffbc31050110018bcfe5687b0102030405060708090ac09bf0f639127b227265666572656e
            6365223a22c3a9227d
        noted other: fbd095ffbc3105040f0a7b2261223a22c3a9227d127b227265666572656e6365223a22c3a9227d
        message queued:
            fbd095ffbc31061010018bcfe5687b0102030405060708090a00c09bf0f6390001056f6666657202
            656e0010018bcfe5687b0102030405060708090b0000
        message late:
            fbd095ffbc31061410018bcfe5687b0102030405060708090a00c09bf0f6390001056f6666657202
            656e01106e6f745f73656e745f696e5f74696d650008746f6f206c61746510018bcfe5687b010203
            0405060708090b0000
        message failed:
            fbd095ffbc31061410018bcfe5687b0102030405060708090a010b55532e31333439313230380100
            010f6368616e6e656c5f7265667573656401d2ff070d6e6f20737563682070686f6e6510018bcfe5
            687b0102030405060708090b01076f726465722d370102c3a90131
    "#]]);
}

#[test]
fn the_kinds_of_the_event_log_keep_their_numbers_on_disk() {
    let mut sheet = Sheet::default();
    for number in 0..=u8::MAX >> 1 {
        // The bytes are an entry of 1970, the number of `Other`, the kind, and a text of two bytes.
        let bytes = [0, 4, number, 2, b'{', b'}'];
        let Some(Ok(entry)) = LogEntry::decode_all(&bytes).next() else { continue };
        let mut written = Vec::new();
        entry.encode_into(&mut written);
        assert_eq!(written, bytes);
        sheet.text(&number.to_string(), entry.event.kind().as_bytes());
    }
    sheet.is(expect![[r#"
        0: otp.delivered
        1: broadcast.created
        2: broadcast.started
        3: broadcast.paused
        4: broadcast.resumed
        5: broadcast.completed
        6: broadcast.cancelled
        7: broadcast.failed
        8: otp.pumping_suspected
        9: contact.created
        10: contact.updated
        11: contact.deleted
        12: conversation.opened
        13: conversation.updated
        14: webhook.disabled
        15: webhook.test
        16: message.queued
        17: message.sent
        18: message.delivered
        19: message.read
        20: message.failed
        21: message.received
        22: template.status_changed
        23: number.stopped
        24: number.recovered
        25: contact.opted_out
        26: contact.opted_in
        27: channel.error
        28: contact.merged
        29: channel.ignored
        30: otp.cancelled
        31: otp.try_started
        32: otp.try_ended
        33: template.category_changed
        34: template.quality_changed
        35: media.ready
        36: media.failed
        37: message.held
        38: number.changed
        39: number.limit_reached
        40: number.limit_freed
        41: otp.decided
    "#]]);
}

#[test]
fn words_of_one_byte_keep_their_numbers() {
    let mut sheet = Sheet::default();
    for status in
        [OtpStatus::Active, OtpStatus::Verified, OtpStatus::Expired, OtpStatus::Invalidated]
            .into_iter()
            .chain([OtpStatus::Cancelled])
    {
        sheet.postcard(&format!("{status:?}"), &status);
    }
    use Delivery::{Delivered, Failed, Queued, Read, Sent, Unknown};
    for delivery in [Queued, Sent, Failed, Unknown, Delivered, Read] {
        sheet.postcard(&format!("{delivery:?}"), &delivery);
    }
    sheet.is(expect![[r#"
        Active: 00
        Verified: 01
        Expired: 02
        Invalidated: 03
        Cancelled: 04
        Queued: 00
        Sent: 01
        Failed: 02
        Unknown: 03
        Delivered: 04
        Read: 05
    "#]]);
}

#[test]
fn an_event_keeps_its_id() {
    let event = PublicEvent::OtpVerified { request_id: request(), phone: phone() };
    let id = LogEntry { at: AT, event }.id(&"acme".parse().unwrap(), 1_234_567);
    expect!["evt_01hf7yat3vgftfdqgf00015nm7"].assert_eq(&id.to_string());
    assert_eq!(LogEntry::sequence_of(id), 1_234_567);
}

/// Checks that decoded values encode to bytes that decode to the same values.
fn decodes_the_same<T: PartialEq + std::fmt::Debug>(
    decoded: impl Iterator<Item = Result<T, EventDecodeError>>,
    encode: impl Fn(&T, &mut Vec<u8>),
    decode: impl Fn(&[u8]) -> Vec<Result<T, EventDecodeError>>,
) {
    for event in decoded.flatten() {
        let mut written = Vec::new();
        encode(&event, &mut written);
        assert_eq!(decode(&written), [Ok(event)]);
    }
}

#[test]
fn fuzz_journal_events() {
    let examples: Vec<_> = journal().iter().map(written).collect();
    let examples: Vec<_> = examples.iter().map(Vec::as_slice).collect();
    let fuzzer = bolero::check!().with_iterations(20_000);
    fuzzer.for_each(|script: &[u8]| {
        let input = edited(&examples, script);
        let decode = |bytes: &[u8]| Event::decode_all(bytes).collect::<Vec<_>>();
        decodes_the_same(decode(&input).into_iter(), Event::encode_into, decode);
    });
}

fn written(event: &Event) -> Vec<u8> {
    let mut bytes = Vec::new();
    event.encode_into(&mut bytes);
    bytes
}

#[test]
fn fuzz_entries_of_the_event_log() {
    let of = |(_, event)| {
        let mut bytes = Vec::new();
        LogEntry { at: AT, event }.encode_into(&mut bytes);
        bytes
    };
    let examples: Vec<_> = entries().into_iter().map(of).collect();
    let examples: Vec<_> = examples.iter().map(Vec::as_slice).collect();
    let fuzzer = bolero::check!().with_iterations(20_000);
    fuzzer.for_each(|script: &[u8]| {
        let input = edited(&examples, script);
        let decode = |bytes: &[u8]| LogEntry::decode_all(bytes).collect::<Vec<_>>();
        decodes_the_same(decode(&input).into_iter(), LogEntry::encode_into, decode);
    });
}
