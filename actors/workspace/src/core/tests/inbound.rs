//! Tests of codes that people send, in engine time.

use postrider_domain::ContactId;

use super::*;
use crate::core::otp::inbound;
use crate::core::otp::types::{CallerContext, SendMore};

const CONTACT: ContactId = ContactId::from_bytes([3; 16]);

fn begin(bench: &mut Bench, to: Phone) -> Result<OtpSent, SendOtpError> {
    let more = SendMore { inbound: true, context: CallerContext::default(), ..Default::default() };
    bench.send_command(SendOtp { more: Some(Box::new(more)), ..SendOtp::to(to) }, None)
}

fn write(bench: &mut Bench, from: Phone, text: &str) {
    let take = |core: &mut Core, effects: &mut Effects| {
        inbound::take(core, (&[from], CONTACT), text, effects);
        Ok::<_, ()>(())
    };
    bench.run(true, take).unwrap();
    let (replayed, hot) = (bench.replayed(), &bench.core.hot);
    assert_eq!(replayed.otps.extras, hot.otps.extras);
    let mut bytes = Vec::new();
    hot.encode_into(&mut bytes);
    assert_eq!(HotState::decode(&bytes).unwrap().otps.extras, hot.otps.extras);
}

fn status(bench: &mut Bench, id: RequestId) -> (OtpStatus, u8) {
    let state = bench.read(id).unwrap();
    (state.status, state.attempts_remaining)
}

#[test]
fn a_message_with_the_code_as_a_word_verifies_once() {
    for (text, expected) in [
        ("{}", OtpStatus::Verified),
        ("My code is {}.", OtpStatus::Verified),
        ("é{} or ({})", OtpStatus::Verified),
        ("x{}", OtpStatus::Active),
        ("{}0", OtpStatus::Active),
        ("", OtpStatus::Active),
    ] {
        let mut bench = Bench::new();
        let id = begin(&mut bench, phone(1)).unwrap().request_id;
        assert!(bench.outbound.is_empty(), "nothing is sent");
        assert_eq!(bench.core.credits, 1000);
        let text = text.replace("{}", &bench.code(id));
        write(&mut bench, phone(2), &text);
        assert_eq!(status(&mut bench, id), (OtpStatus::Active, 5), "from another phone");
        write(&mut bench, phone(1), &text);
        assert_eq!(status(&mut bench, id), (expected, 5), "{text}");
        write(&mut bench, phone(1), &text);
        let verified = bench.log.iter().filter(|it| it.event.kind() == "otp.verified");
        let emitted: Vec<_> = verified.map(|it| it.event.data()["contact_id"].clone()).collect();
        let is_verified = expected == OtpStatus::Verified;
        let contact = serde_json::json!(CONTACT.to_string());
        assert_eq!(emitted, vec![contact; usize::from(is_verified)]);
    }
}

#[test]
fn words_of_as_many_digits_are_wrong_codes() {
    let mut bench = Bench::new();
    let id = begin(&mut bench, phone(1)).unwrap().request_id;
    let wrong = bench.wrong_code(id);
    write(&mut bench, phone(1), &format!("{wrong} 12345 1234567 abcdef {wrong}"));
    assert_eq!(status(&mut bench, id), (OtpStatus::Active, 3));
    write(&mut bench, phone(1), &format!("{wrong} {wrong} {wrong} {wrong}"));
    assert_eq!(status(&mut bench, id), (OtpStatus::Invalidated, 0));
    let code = bench.code(id);
    write(&mut bench, phone(1), &code);
    assert_eq!(status(&mut bench, id), (OtpStatus::Invalidated, 0));
    assert_eq!(bench.kinds(), ["otp.sent", "otp.failed"]);
}

#[test]
fn the_code_of_one_request_is_no_wrong_one_of_another() {
    let mut bench = Bench::new();
    let first = begin(&mut bench, phone(1)).unwrap().request_id;
    bench.pass(MS);
    let second = begin(&mut bench, phone(1)).unwrap().request_id;
    let code = bench.code(first);
    write(&mut bench, phone(1), &code);
    assert_eq!(status(&mut bench, first).0, OtpStatus::Verified);
    assert_eq!(status(&mut bench, second), (OtpStatus::Active, 5));
}

/// Returns the code of a request that its person sends.
fn code(bench: &mut Bench, id: RequestId) -> String {
    bench.read(id).unwrap().inbound_code.unwrap().reveal()
}

#[test]
fn any_phone_may_send_a_code_that_is_of_none() {
    let mut bench = Bench::new();
    let of_one = begin(&mut bench, phone(1)).unwrap().request_id;
    let open = |bench: &mut Bench| {
        let sent = bench.send_command(SendOtp::from_anybody(), None).unwrap();
        (sent.request_id, code(bench, sent.request_id))
    };
    let (first, of_first) = open(&mut bench);
    let (second, of_second) = open(&mut bench);
    assert_eq!((of_first.len(), of_first == of_second), (12, false));
    let asked = bench.read(first).unwrap();
    assert_eq!((asked.phone, asked.is_inbound), (None, true));
    write(&mut bench, phone(1), "ABCDEFGHJKMN 0123456789AB and a text");
    assert_eq!(status(&mut bench, first), (OtpStatus::Active, 5), "a wrong one is nobody's");
    assert_eq!(status(&mut bench, of_one), (OtpStatus::Active, 5));
    write(&mut bench, phone(1), &format!("x{of_first} {of_second}0"));
    assert_eq!(status(&mut bench, first), (OtpStatus::Active, 5), "a word of its own");
    write(&mut bench, phone(7), &format!("Here: {}.", of_first.to_lowercase()));
    assert_eq!(status(&mut bench, first), (OtpStatus::Verified, 5));
    assert_eq!(bench.read(first).unwrap().phone, Some(phone(7)));
    let emitted = bench.log.last().unwrap().event.data();
    assert_eq!(
        (&emitted["phone"], &emitted["contact_id"]),
        (&serde_json::json!(phone(7).to_string()), &serde_json::json!(CONTACT.to_string()),)
    );
    write(&mut bench, phone(8), &of_first);
    assert_eq!(bench.read(first).unwrap().phone, Some(phone(7)), "once");
    assert_eq!(bench.verify(second, &of_second), Err(VerifyOtpError::InboundOnly));
    bench.pass(5 * MINUTE);
    write(&mut bench, phone(7), &of_second);
    assert_eq!(status(&mut bench, second).0, OtpStatus::Expired);
    while bench.tick() {}
    let expired = bench.log.iter().filter(|it| it.event.kind() == "otp.expired");
    assert!(expired.into_iter().any(|it| it.event.data()["phone"].is_null()));
    bench.pass(2 * HOUR);
    while bench.tick() {}
    assert!(bench.core.hot.is_empty());
    assert!(bench.core.hot.otps.extras == Default::default());
}

#[test]
fn codes_of_no_phone_are_limited_by_workspace_and_not_by_phone() {
    let limits = Limits { otp_per_workspace_hour: 7, ..Limits::default() };
    let mut bench = Bench::with(limits);
    for _ in 0..7 {
        bench.send_command(SendOtp::from_anybody(), None).unwrap();
    }
    let refused = bench.send_command(SendOtp::from_anybody(), None).unwrap_err();
    assert!(matches!(refused, SendOtpError::WorkspaceLimit { .. }), "{refused:?}");
    assert_eq!(bench.core.credits, 1000);
}

#[test]
fn it_has_its_end_its_limits_and_no_other_way() {
    let mut bench = Bench::new();
    let id = begin(&mut bench, phone(1)).unwrap().request_id;
    let code = bench.code(id);
    assert_eq!(bench.verify(id, &code), Err(VerifyOtpError::InboundOnly));
    let refused = bench.resend(id).unwrap_err();
    assert_eq!(refused, ResendOtpError::Ended(VerifyOtpError::InboundOnly));
    for _ in 0..4 {
        begin(&mut bench, phone(1)).unwrap();
    }
    let limit = begin(&mut bench, phone(1)).unwrap_err();
    assert!(matches!(limit, SendOtpError::PhoneLimit { .. }), "{limit:?}");
    bench.pass(5 * MINUTE);
    write(&mut bench, phone(1), &code);
    assert_eq!(status(&mut bench, id).0, OtpStatus::Expired);
    bench.pass(2 * HOUR);
    while bench.tick() {}
    assert!(bench.core.hot.is_empty());
    assert!(bench.core.hot.otps.extras == Default::default());
}
