//! Tests the changes by the passing of time.

use crate::core::tests::*;
use postrider_domain::event::OtpFailure;

#[test]
fn an_expiry_is_reported_exactly_once() {
    let mut bench = Bench::new();
    let id = bench.send(phone(1)).unwrap().request_id;
    bench.settle(id, FinalOutcome::Sent);
    bench.pass(5 * MINUTE - MS);
    assert!(!bench.tick());
    assert_eq!(bench.kinds(), ["otp.sent"]);
    bench.pass(MS);
    for _ in 0..3 {
        assert!(!bench.tick());
        assert_eq!(bench.kinds(), ["otp.sent", "otp.expired"]);
        bench.pass(MINUTE);
    }
    bench.pass(2 * HOUR);
    assert!(!bench.tick());
    assert_eq!(bench.kinds(), ["otp.sent", "otp.expired"]);
}

#[test]
fn one_that_has_ended_does_not_expire() {
    let mut bench = Bench::new();
    let verified = bench.send(phone(1)).unwrap().request_id;
    bench.verify(verified, &bench.code(verified)).unwrap();
    let used_up = bench.send(phone(2)).unwrap().request_id;
    for _ in 0..5 {
        drop(bench.verify(used_up, "1"));
    }
    for id in [verified, used_up] {
        bench.settle(id, FinalOutcome::Sent);
    }
    bench.log.clear();
    bench.pass(5 * MINUTE);
    bench.tick();
    bench.pass(HOUR);
    bench.tick();
    assert_eq!(bench.log, []);
    assert!(bench.core.hot.is_empty());
}

#[test]
fn everything_is_forgotten_an_hour_after_its_expiry() {
    let mut bench = Bench::new();
    let id = bench.send(phone(1)).unwrap().request_id;
    bench.settle(id, FinalOutcome::Sent);
    bench.pass(5 * MINUTE);
    bench.tick();
    bench.pass(HOUR - Duration::from_secs(1));
    bench.tick();
    assert!(!bench.core.hot.is_empty());
    bench.pass(Duration::from_secs(1));
    bench.tick();
    assert!(bench.core.hot.is_empty());
    assert_eq!(bench.known(&bench.replayed()), bench.known(&bench.core.hot));
}

#[test]
fn many_are_seen_to_in_chunks() {
    let mut bench = Bench::unlimited();
    bench.credits(CreditsChange::Set(5000));
    for number in 0..2500 {
        let id = bench.send(phone(number)).unwrap().request_id;
        bench.settle(id, FinalOutcome::Sent);
    }
    bench.log.clear();
    bench.pass(5 * MINUTE);
    for (expected, more) in [(1000, true), (2000, true), (2500, false), (2500, false)] {
        assert_eq!(bench.tick(), more);
        assert_eq!(bench.log.len(), expected);
    }
    bench.pass(HOUR);
    assert!(bench.tick() && bench.tick() && !bench.tick());
    assert!(bench.core.hot.is_empty());
    assert_eq!(bench.log.len(), 2500);
}

#[test]
fn a_long_sleep_reports_expiry_and_forgets_in_one_go() {
    let mut bench = Bench::new();
    let id = bench.send(phone(1)).unwrap().request_id;
    bench.settle(id, FinalOutcome::Sent);
    bench.pass(5 * HOUR);
    bench.tick();
    assert_eq!(bench.kinds(), ["otp.sent", "otp.expired"]);
    assert!(bench.core.hot.is_empty());
}

#[test]
fn what_never_went_out_is_paid_back_before_it_is_forgotten() {
    let mut bench = Bench::new();
    let id = bench.send(phone(1)).unwrap().request_id;
    bench.pass(5 * MINUTE);
    bench.tick();
    assert_eq!(bench.core.credits, 999, "its number still has a say");
    bench.pass(HOUR);
    bench.tick();
    assert_eq!(bench.core.credits, 1000);
    let PublicEvent::OtpFailed { request_id, reason, .. } = bench.log[2].event else { panic!() };
    assert_eq!((request_id, reason), (id, OtpFailure::NotSentInTime));
    assert_eq!(bench.kinds(), ["otp.sent", "otp.expired", "otp.failed"]);
}

#[test]
fn what_was_verified_was_sent() {
    let mut bench = Bench::new();
    let id = bench.send(phone(1)).unwrap().request_id;
    bench.verify(id, &bench.code(id)).unwrap();
    bench.pass(5 * HOUR);
    bench.tick();
    assert_eq!(bench.core.credits, 999);
    assert_eq!(bench.kinds(), ["otp.sent", "otp.verified"]);
}
