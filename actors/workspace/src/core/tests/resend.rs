//! Tests that a code is sent again on request.

use crate::core::otp::types::SendMore;
use crate::core::tests::*;

#[test]
fn it_repeats_the_code_and_keeps_expiry_and_attempts() {
    let mut bench = Bench::new();
    let sent = bench.send(phone(1)).unwrap();
    let id = sent.request_id;
    bench.verify(id, &bench.wrong_code(id)).unwrap();
    bench.settle(id, FinalOutcome::Sent);
    bench.pass(MINUTE);
    assert_eq!(bench.resend(id), Ok(sent));
    let state = bench.read(id).unwrap();
    assert_eq!((state.attempts_remaining, state.delivery), (4, Delivery::Queued));
    let [first, second] = &bench.outbound[..] else { panic!("two messages go out") };
    assert_eq!(first.code(), second.code());
    assert_ne!(first.message_id, second.message_id);
    assert_eq!(second.give_up_at, sent.expires_at);
    assert_eq!(bench.core.credits, 998);
    let PublicEvent::OtpSent { resend, .. } = &bench.log[1].event else { panic!("a send") };
    assert!(resend);
    bench.pass(4 * MINUTE);
    assert_eq!(bench.verify(id, &bench.code(id)), Err(VerifyOtpError::Expired));
}

#[test]
fn it_counts_as_a_send_to_the_phone_and_refused_it_consumes_nothing() {
    let mut bench = Bench::new();
    let id = bench.send(phone(1)).unwrap().request_id;
    for _ in 0..4 {
        bench.resend(id).unwrap();
    }
    let refused = || SendOtpError::PhoneLimit { retry_after: 10 * MINUTE };
    assert_eq!(bench.resend(id), Err(ResendOtpError::Refused(refused())));
    assert_eq!(bench.send(phone(1)), Err(refused()));
    bench.credits(CreditsChange::Set(0));
    assert!(matches!(
        bench.resend(id),
        Err(ResendOtpError::Refused(SendOtpError::InsufficientCredits { .. }))
    ));
}

#[test]
fn one_that_has_ended_answers_as_a_verification_would() {
    let mut bench = Bench::new();
    let ended = |bench: &mut Bench, id| match bench.resend(id) {
        Err(ResendOtpError::Ended(why)) => {
            assert_eq!(bench.verify(id, "1"), Err(why.clone()));
            why
        }
        other => panic!("{other:?}"),
    };
    let verified = bench.send(phone(1)).unwrap().request_id;
    bench.verify(verified, &bench.code(verified)).unwrap();
    assert_eq!(ended(&mut bench, verified), VerifyOtpError::AlreadyVerified);
    let used_up = bench.send(phone(1)).unwrap().request_id;
    for _ in 0..5 {
        drop(bench.verify(used_up, "1"));
    }
    assert_eq!(ended(&mut bench, used_up), VerifyOtpError::MaxAttempts);
    let expired = bench.send(phone(1)).unwrap().request_id;
    bench.pass(5 * MINUTE);
    assert_eq!(ended(&mut bench, expired), VerifyOtpError::Expired);
    let unknown = RequestId::from_parts(START, 77);
    assert_eq!(ended(&mut bench, unknown), VerifyOtpError::NotFound);
}

#[test]
fn a_failing_channel_refuses_it_after_the_rules() {
    let mut bench = Bench::new();
    let id = bench.send(phone(1)).unwrap().request_id;
    let resend = |bench: &mut Bench, id| {
        let (message, wait) = (MessageId::from_parts(START, 5), Some(MINUTE));
        bench.run(false, |core, effects| {
            resend_otp(core, (id, None), message, (None, wait), effects)
        })
    };
    assert!(matches!(
        resend(&mut bench, id),
        Err(ResendOtpError::Refused(SendOtpError::Unavailable(_)))
    ));
    bench.verify(id, &bench.code(id)).unwrap();
    assert_eq!(resend(&mut bench, id), Err(ResendOtpError::Ended(VerifyOtpError::AlreadyVerified)));
}

#[test]
fn it_leaves_through_no_other_number_than_the_named_one() {
    for from in [None, Some("+15550000009".into())] {
        let mut bench = Bench::new();
        let removed = NumberId::from_bytes([1; 16]);
        let more = SendMore { from, through: Some(removed), ..SendMore::default() };
        let is_named = more.from.is_some();
        let command = SendOtp { more: Some(Box::new(more)), ..SendOtp::to(phone(1)) };
        let id = bench.send_command(command, None).unwrap().request_id;
        bench.settle(id, FinalOutcome::Sent);
        let again = bench.resend(id);
        let through: Vec<_> = bench.outbound.iter().map(|message| message.number).collect();
        if is_named {
            let refused = ResendOtpError::Refused(SendOtpError::NotConnected);
            assert_eq!((again, through), (Err(refused), vec![removed]));
        } else {
            let other = bench.core.number.unwrap();
            assert_eq!((again.is_ok(), through), (true, vec![other; 2]));
        }
    }
}

/// A refusal by the channel.
fn failure() -> Failure {
    Failure::permanent(Some(131_026))
}

#[test]
fn what_is_reported_of_the_first_message_is_not_of_the_second() {
    for (first, emitted, credits) in [
        // Once, however often it is reported.
        (Progress::Failed(failure()), vec!["otp.sent", "otp.sent"], 999),
        (Progress::Delivered, vec!["otp.sent", "otp.sent", "otp.delivered"], 998),
        (Progress::Sent, vec!["otp.sent", "otp.sent"], 998),
    ] {
        let mut bench = Bench::new();
        let id = bench.send(phone(1)).unwrap().request_id;
        bench.settle(id, FinalOutcome::Sent);
        bench.resend(id).unwrap();
        for _ in 0..2 {
            bench.report(id, 1, &first);
            assert_eq!(bench.read(id).unwrap().delivery, Delivery::Queued, "{first:?}");
            assert_eq!(bench.core.unsent().len(), 1, "it still has to go out");
            assert_eq!(
                (bench.core.credits, bench.kinds()),
                (credits, emitted.clone()),
                "{first:?}"
            );
            bench.core.hot = bench.replayed();
        }
        bench.settle_message(id, 2, FinalOutcome::Sent);
        bench.report(id, 1, &first);
        bench.report(id, 2, &Progress::Delivered);
        assert_eq!(bench.read(id).unwrap().delivery, Delivery::Delivered, "{first:?}");
        assert_eq!(bench.core.credits, credits, "{first:?}");
    }
}

#[test]
fn one_that_has_failed_before_is_paid_back_and_reported_once() {
    let mut bench = Bench::new();
    let id = bench.send(phone(1)).unwrap().request_id;
    bench.settle(id, FinalOutcome::Sent);
    bench.report(id, 1, &Progress::Failed(failure()));
    assert_eq!(bench.core.credits, 1000);
    bench.resend(id).unwrap();
    bench.report(id, 1, &Progress::Failed(failure()));
    bench.settle_message(id, 2, FinalOutcome::Sent);
    bench.report(id, 1, &Progress::Failed(failure()));
    assert_eq!(bench.read(id).unwrap().delivery, Delivery::Sent);
    assert_eq!(bench.core.credits, 999);
    assert_eq!(bench.kinds(), ["otp.sent", "otp.failed", "otp.sent"]);
    bench.report(id, 2, &Progress::Delivered);
    assert_eq!(bench.read(id).unwrap().delivery, Delivery::Delivered);
}

#[test]
fn answers_may_come_in_any_order() {
    let mut bench = Bench::new();
    let id = bench.send(phone(1)).unwrap().request_id;
    bench.resend(id).unwrap();
    let [.., first, second] = &bench.outbound[..] else { panic!("two messages go out") };
    let number = |number| postrider_channel::Origin::Otp { request_id: id, number };
    assert_eq!((first.origin, second.origin), (number(1), number(2)));
    bench.settle_message(id, 2, FinalOutcome::Sent);
    for _ in 0..2 {
        bench.settle_message(id, 1, FinalOutcome::Failed(failure()));
        assert_eq!(bench.read(id).unwrap().delivery, Delivery::Sent);
        assert_eq!(bench.core.credits, 999);
    }
}

#[test]
fn each_that_never_went_out_is_paid_back() {
    let mut bench = Bench::new();
    let id = bench.send(phone(1)).unwrap().request_id;
    bench.resend(id).unwrap();
    bench.resend(id).unwrap();
    bench.settle_message(id, 2, FinalOutcome::Sent);
    bench.pass(2 * HOUR);
    bench.core.hot = bench.replayed();
    while bench.tick() {}
    assert_eq!(bench.core.credits, 999);
    assert!(bench.core.hot.is_empty());
    bench.resend(id).unwrap_err();
}

#[test]
fn the_lost_answer_of_a_repeat_is_not_the_resends() {
    let mut bench = Bench::new();
    let id = bench.send(phone(1)).unwrap().request_id;
    bench.settle(id, FinalOutcome::Unknown);
    bench.pass(MINUTE);
    while bench.tick() {}
    assert_eq!(bench.outbound.len(), 2, "it goes out again by itself");
    bench.resend(id).unwrap();
    bench.settle_message(id, 1, FinalOutcome::Failed(failure()));
    assert_eq!(bench.read(id).unwrap().delivery, Delivery::Queued);
    bench.settle_message(id, 2, FinalOutcome::Sent);
    assert_eq!(bench.read(id).unwrap().delivery, Delivery::Sent);
    assert_eq!(bench.core.credits, 998);
}
