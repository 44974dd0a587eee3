//! Tests the changes by final outcomes of messages.

use crate::core::tests::*;
use postrider_domain::event::OtpFailure;

#[test]
fn what_the_channel_said_is_the_delivery() {
    let table = [
        (FinalOutcome::Sent, Delivery::Sent, 9, None),
        (FinalOutcome::Unknown, Delivery::Unknown, 9, None),
        (
            FinalOutcome::Failed(Failure::permanent(Some(131_026))),
            Delivery::Failed,
            10,
            Some(OtpFailure::Channel { error_code: Some(131_026) }),
        ),
        (FinalOutcome::NotSentInTime, Delivery::Failed, 10, Some(OtpFailure::NotSentInTime)),
    ];
    for (settled, delivery, credits, failure) in table {
        let mut bench = Bench::new();
        bench.credits(CreditsChange::Set(10));
        let id = bench.send(phone(1)).unwrap().request_id;
        bench.settle(id, settled.clone());
        assert_eq!(bench.read(id).unwrap().delivery, delivery, "{settled:?}");
        assert_eq!(bench.core.credits, credits, "{settled:?}");
        let emitted = bench.log.get(1).map(|entry| entry.event.clone());
        let expected = failure.map(|reason| PublicEvent::OtpFailed {
            request_id: id,
            phone: phone(1),
            reason,
        });
        assert_eq!(emitted, expected);
        let status = bench.read(id).unwrap().status;
        assert_eq!(status, OtpStatus::Active, "delivery and verification are two things");
        assert_eq!(bench.core.unsent().len(), 0);
    }
}

#[test]
fn an_answer_for_nobody_changes_nothing() {
    let mut bench = Bench::new();
    bench.settle(RequestId::from_parts(START, 5), FinalOutcome::Failed(Failure::permanent(None)));
    assert_eq!((bench.core.credits, bench.log.len(), bench.journal.len()), (1000, 0, 0));
}

#[test]
fn what_is_not_answered_for_is_handed_over_again() {
    let mut bench = Bench::new();
    let queued = bench.send(phone(1)).unwrap().request_id;
    let sent = bench.send(phone(2)).unwrap().request_id;
    bench.settle(sent, FinalOutcome::Sent);
    let again = bench.core.unsent();
    let [message] = &again[..] else { panic!("one message") };
    assert_eq!(message.to, phone(1));
    assert_eq!(message.message_id, bench.outbound[0].message_id);
    assert_eq!(message.code().unwrap().reveal(), bench.code(queued));
    bench.resend(sent).unwrap();
    assert_eq!(bench.core.unsent().len(), 2);
}

#[test]
fn a_refund_stops_at_the_largest_balance() {
    let mut bench = Bench::new();
    let id = bench.send(phone(1)).unwrap().request_id;
    bench.credits(CreditsChange::Set(u64::MAX));
    bench.settle(id, FinalOutcome::Failed(Failure::permanent(None)));
    assert_eq!(bench.core.credits, u64::MAX);
}
