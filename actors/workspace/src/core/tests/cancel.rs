//! Tests of cancelled requests, requests to test phones, and limits by caller.

use postrider_domain::OtpCode;
use postrider_domain::event::chain::{ChainStep, OtpChannel};
use postrider_domain::event::otp::OtpNotes;

use super::*;
use crate::core::otp::extras::TestPhones;
use crate::core::otp::failover_plan::ChannelSetup;
use crate::core::otp::types::{CallerContext, CallerKind, SendMore};

fn cancel(bench: &mut Bench, id: RequestId) -> Result<(), VerifyOtpError> {
    bench.run(false, |core, effects| cancel_otp(core, id, effects))
}

fn asked_by(ip: Option<&str>, session: Option<&str>) -> SendOtp {
    let ip = ip.map(|ip| ip.parse().unwrap());
    let context = CallerContext { ip, session: session.map(str::to_owned) };
    let more = Some(Box::new(SendMore { context, ..SendMore::default() }));
    SendOtp { more, ..SendOtp::to(phone(1)) }
}

#[test]
fn a_cancelled_request_verifies_nothing_and_is_cancelled_once() {
    let mut bench = Bench::new();
    let id = bench.send(phone(1)).unwrap().request_id;
    let code = bench.code(id);
    cancel(&mut bench, id).unwrap();
    let journal = bench.journal.len();
    cancel(&mut bench, id).unwrap();
    assert_eq!(bench.journal.len(), journal, "the second changes nothing");
    assert_eq!(bench.verify(id, &code), Err(VerifyOtpError::Cancelled));
    assert_eq!(bench.resend(id), Err(ResendOtpError::Ended(VerifyOtpError::Cancelled)));
    assert_eq!(bench.read(id).unwrap().status, OtpStatus::Cancelled);
    assert!(bench.core.unsent().is_empty(), "a restart hands nothing over");
    assert_eq!(bench.kinds(), ["otp.sent", "otp.cancelled"]);
    assert_eq!(image(&bench.replayed()), image(&bench.core.hot));
    bench.pass(3 * HOUR);
    while bench.tick() {}
    assert_eq!(bench.kinds(), ["otp.sent", "otp.cancelled"], "it does not expire");
    assert_eq!(bench.core.credits, 999, "nobody knows that it was not handed over");
    assert!(bench.core.hot.is_empty());
}

#[test]
fn what_is_withdrawn_is_paid_back_and_no_failure() {
    let mut bench = Bench::new();
    let id = bench.send(phone(1)).unwrap().request_id;
    cancel(&mut bench, id).unwrap();
    bench.settle(id, FinalOutcome::NotSentInTime);
    assert_eq!(bench.core.credits, 1000);
    assert_eq!(bench.kinds(), ["otp.sent", "otp.cancelled"]);
}

#[test]
fn what_has_ended_is_not_cancelled() {
    let mut bench = Bench::new();
    assert_eq!(cancel(&mut bench, RequestId::from_bytes([1; 16])), Err(VerifyOtpError::NotFound));
    let id = bench.send(phone(1)).unwrap().request_id;
    bench.verify(id, &bench.code(id)).unwrap();
    assert_eq!(cancel(&mut bench, id), Err(VerifyOtpError::AlreadyVerified));
    let id = bench.send(phone(1)).unwrap().request_id;
    bench.pass(5 * MINUTE);
    assert_eq!(cancel(&mut bench, id), Err(VerifyOtpError::Expired));
}

#[test]
fn a_test_phone_takes_its_own_code_and_costs_nothing() {
    let mut bench = Bench::with(Limits { otp_per_phone_10m: 1, ..Limits::default() });
    let code = OtpCode::chosen("0042").unwrap();
    bench.core.test_phones = Arc::new(TestPhones::new([(phone(7), code)]));
    bench.core.number = None;
    bench.core.credits = 0;
    bench.stored_credits = 0;
    for _ in 0..3 {
        let id = bench.send(phone(7)).unwrap().request_id;
        assert!(matches!(bench.verify(id, "0043"), Ok(Verification::Wrong { .. })));
        bench.resend(id).unwrap();
        let hot = bench.replayed();
        bench.core.hot = hot;
        assert_eq!(bench.verify(id, "0042"), Ok(Verification::Verified));
        assert!(otp_state(&bench.core, id).unwrap().notes.test);
    }
    let id = bench.send(phone(7)).unwrap().request_id;
    for _ in 0..4 {
        bench.verify(id, "1").unwrap();
    }
    assert_eq!(bench.verify(id, "1"), Err(VerifyOtpError::MaxAttempts));
    assert!(bench.outbound.is_empty() && bench.core.unsent().is_empty());
    assert_eq!(bench.core.hot.sends.len(), 0);
    assert_eq!(bench.core.hot.prefixes.all(bench.now), []);
    assert!(bench.log.iter().all(|entry| entry.event.data()["test"] == true), "{:?}", bench.log);
}

#[test]
fn a_caller_has_windows_of_its_own() {
    let limits = Limits {
        otp_per_phone_10m: 0,
        otp_per_ip_10m: 2,
        otp_per_ip_hour: 3,
        otp_per_session_hour: 1,
        ..Limits::default()
    };
    let mut bench = Bench::with(limits);
    let refused = |by, retry_after| Err(SendOtpError::CallerLimit { by, retry_after });
    // One /64, and one address in both of its forms.
    for (one, other) in [("2001:db8::1", "2001:db8::ffff"), ("192.0.2.7", "::ffff:192.0.2.7")] {
        bench.send_command(asked_by(Some(one), None), None).unwrap();
        bench.pass(MINUTE);
        bench.send_command(asked_by(Some(other), None), None).unwrap();
        let third = bench.send_command(asked_by(Some(one), None), None);
        assert_eq!(third, refused(CallerKind::Ip, 9 * MINUTE));
        bench.core.hot = bench.replayed();
        bench.pass(9 * MINUTE);
        bench.send_command(asked_by(Some(one), None), None).unwrap();
        let fourth = bench.send_command(asked_by(Some(one), None), None);
        assert_eq!(fourth, refused(CallerKind::Ip, 50 * MINUTE), "the hour");
    }
    bench.send_command(asked_by(Some("2001:db8:0:1::1"), Some("a")), None).unwrap();
    let again = bench.send_command(asked_by(Some("198.51.100.1"), Some("a")), None);
    assert_eq!(again, refused(CallerKind::Session, HOUR));
    bench.send_command(asked_by(Some("198.51.100.1"), Some("b")), None).unwrap();
    let mut bytes = Vec::new();
    bench.core.hot.encode_into(&mut bytes);
    let read = HotState::decode(&bytes).unwrap();
    assert_eq!(read.callers, bench.core.hot.callers);
    bench.pass(2 * HOUR);
    while bench.tick() {}
    assert!(bench.core.hot.callers.is_empty());
}

#[test]
fn what_a_caller_notes_is_in_every_event() {
    let mut bench = Bench::new();
    let metadata = [("flow".to_owned(), "sign-in".to_owned())];
    let reference = Some("order 7".to_owned());
    let more = SendMore { reference, metadata: metadata.into(), ..SendMore::default() };
    let command = SendOtp { more: Some(Box::new(more)), ..SendOtp::to(phone(1)) };
    let id = bench.send_command(command, None).unwrap().request_id;
    bench.core.hot = bench.replayed();
    bench.report(id, 0, &Progress::Delivered);
    bench.verify(id, &bench.code(id)).unwrap();
    assert_eq!(bench.kinds(), ["otp.sent", "otp.delivered", "otp.verified"]);
    for entry in &bench.log {
        let data = entry.event.data();
        assert_eq!(
            (&data["reference"], &data["metadata"]["flow"]),
            (&"order 7".into(), &"sign-in".into())
        );
        assert!(data["test"].is_null());
    }
    let notes = bench.read(id).unwrap().notes;
    assert_eq!(OtpNotes { test: false, ..notes.clone() }, notes);
    assert_eq!(notes.reference.as_deref(), Some("order 7"));
}

#[test]
fn a_mailbox_has_the_limits_of_a_phone_whatever_the_phone_is() {
    let limits = Limits { otp_per_phone_10m: 2, ..Limits::default() };
    let mut bench = Bench::with(limits);
    bench.core.channels = ChannelSetup { mail: true, ..ChannelSetup::default() };
    let mailed = |number, address: &str| {
        let step = ChainStep { channel: OtpChannel::Email, timeout_seconds: 30 };
        let email = Some(address.to_owned());
        let more = SendMore { channels: Some(vec![step]), email, ..SendMore::default() };
        SendOtp { more: Some(Box::new(more)), ..SendOtp::to(phone(number)) }
    };
    let first = bench.send_command(mailed(1, "ada@example.com"), None).unwrap().request_id;
    bench.pass(MINUTE);
    bench.resend(first).unwrap();
    let refused = |wait| SendOtpError::CallerLimit { by: CallerKind::Email, retry_after: wait };
    for address in ["ada@example.com", "Ada@Example.com"] {
        let third = bench.send_command(mailed(2, address), None);
        assert_eq!(third, Err(refused(9 * MINUTE)), "{address}");
    }
    assert_eq!(bench.replayed().callers, bench.core.hot.callers);
    bench.send_command(mailed(2, "bob@example.com"), None).unwrap();
    bench.send(phone(3)).unwrap();
    bench.pass(9 * MINUTE);
    let next = bench.send_command(mailed(4, "ada@example.com"), None).unwrap().request_id;
    assert_eq!(bench.resend(next), Err(ResendOtpError::Refused(refused(MINUTE))));
}
