//! Tests that a code whose outcome is unknown is sent again.

use crate::core::tests::*;

const PAUSE: Duration = Duration::from_secs(10);

impl Bench {
    /// Passes time and runs its ticks; returns how many messages were sent.
    fn repeated(&mut self, step: Duration) -> usize {
        let before = self.outbound.len();
        self.pass(step);
        while self.tick() {}
        self.outbound.len() - before
    }

    /// Returns a request whose message has no answer.
    fn lost(&mut self) -> RequestId {
        let id = self.send(phone(1)).unwrap().request_id;
        self.settle(id, FinalOutcome::Unknown);
        id
    }
}

#[test]
fn a_code_without_an_answer_goes_out_again_twice() {
    let mut bench = Bench::new();
    let id = bench.lost();
    assert_eq!(bench.repeated(PAUSE - MS), 0);
    assert_eq!(bench.repeated(MS), 1);
    assert_eq!(bench.repeated(MINUTE), 0, "it is under way");
    bench.settle(id, FinalOutcome::Unknown);
    assert_eq!(bench.repeated(2 * PAUSE - MS), 0);
    assert_eq!(bench.repeated(MS), 1);
    bench.settle(id, FinalOutcome::Unknown);
    assert_eq!(bench.repeated(MINUTE), 0, "and then no more");
    assert_eq!(bench.read(id).unwrap().delivery, Delivery::Unknown);
    let codes: Vec<_> = bench.outbound.iter().map(|it| it.code().unwrap().reveal()).collect();
    assert_eq!(codes, vec![bench.code(id); 3]);
    assert_eq!((bench.core.credits, bench.kinds()), (999, vec!["otp.sent"]), "it costs nothing");
}

#[test]
fn an_answer_to_a_repeat_settles_it() {
    let failed = FinalOutcome::Failed(Failure::permanent(None));
    for (settled, delivery) in [
        (FinalOutcome::Sent, Delivery::Sent),
        (failed, Delivery::Unknown),
        (FinalOutcome::NotSentInTime, Delivery::Unknown),
    ] {
        let mut bench = Bench::new();
        let id = bench.lost();
        assert_eq!(bench.repeated(PAUSE), 1);
        bench.settle(id, settled.clone());
        assert_eq!(bench.read(id).unwrap().delivery, delivery, "{settled:?}");
        assert_eq!(bench.repeated(MINUTE), 0, "{settled:?}");
        assert_eq!((bench.core.credits, bench.kinds()), (999, vec!["otp.sent"]), "{settled:?}");
    }
}

#[test]
fn what_is_settled_or_of_no_use_is_not_repeated() {
    let settle: [fn(&mut Bench, RequestId); 5] = [
        |bench, id| bench.report(id, 1, &Progress::Sent),
        |bench, id| bench.report(id, 1, &Progress::Delivered),
        |bench, id| bench.report(id, 1, &Progress::Failed(Failure::permanent(None))),
        |bench, id| {
            let code = bench.code(id);
            bench.verify(id, &code).unwrap();
        },
        // Its own message is under way.
        |bench, id| assert_eq!(bench.resend(id).unwrap().request_id, id),
    ];
    for (number, settle) in settle.into_iter().enumerate() {
        let mut bench = Bench::new();
        let id = bench.lost();
        settle(&mut bench, id);
        assert_eq!(bench.repeated(PAUSE), 0, "{number}");
        assert_eq!(bench.core.hot.repeats.iter().len(), 0, "{number}");
    }
    let mut bench = Bench::new();
    let id = bench.send(phone(1)).unwrap().request_id;
    bench.pass(5 * MINUTE - PAUSE);
    bench.settle(id, FinalOutcome::Unknown);
    assert_eq!(bench.repeated(PAUSE), 0, "it has expired");
}

#[test]
fn a_repeat_outlives_a_restart() {
    let mut bench = Bench::new();
    let id = bench.lost();
    bench.core.hot = bench.replayed();
    assert_eq!(bench.core.unsent().len(), 0);
    assert_eq!(bench.repeated(PAUSE), 1);
    bench.core.hot = bench.replayed();
    assert_eq!(bench.core.unsent().len(), 1, "it may not have been handed over");
    bench.settle(id, FinalOutcome::Sent);
    bench.core.hot = bench.replayed();
    assert_eq!(bench.core.unsent().len(), 0);
    assert_eq!(bench.read(id).unwrap().delivery, Delivery::Sent);
}
