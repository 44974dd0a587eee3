//! Tests that the journal and the snapshots restore the state.

use proptest::prelude::*;

use crate::core::otp::types::BlockedBy;
use crate::core::settings::GuardMode;
use crate::core::tests::*;
use postrider_channel::callback::Progress;

#[derive(Debug, Clone)]
enum Step {
    Send(u32),
    /// The argument picks a request; so below.
    Verify(usize, bool),
    Resend(usize),
    /// The message: 0 is the newest; so below.
    Settle(usize, u8, FinalOutcome),
    /// The provider's report on a request's message.
    Report(usize, u8, Progress),
    /// A message is accepted, or the oldest one settled.
    Message(bool),
    /// The oldest message is claimed, or released.
    Claim(bool),
    /// The records of the oldest message are written.
    Write,
    Pass(Duration),
    Tick,
    Credits(u64),
    PhoneLimit(u32),
    /// The process ends and starts again from the journal.
    Restart,
    /// The same through a snapshot.
    Snapshot,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let millis = prop_oneof![0_u64..2_000, 0_u64..400_000, 3_000_000_u64..9_000_000];
    let settled = prop_oneof![
        Just(FinalOutcome::Sent),
        Just(FinalOutcome::Failed(Failure::permanent(Some(7)))),
        Just(FinalOutcome::Unknown),
        Just(FinalOutcome::NotSentInTime),
    ];
    let reported = prop_oneof![
        Just(Progress::Sent),
        Just(Progress::Delivered),
        Just(Progress::Read),
        Just(Progress::Failed(Failure::permanent(Some(7)))),
    ];
    let step = prop_oneof![
        6 => (0_u32..4).prop_map(Step::Send),
        4 => (any::<usize>(), prop::bool::weighted(0.3)).prop_map(|(at, ok)| Step::Verify(at, ok)),
        3 => any::<usize>().prop_map(Step::Resend),
        4 => (any::<usize>(), 0_u8..4, settled).prop_map(|(at, of, it)| Step::Settle(at, of, it)),
        3 => (any::<usize>(), 0_u8..4, reported).prop_map(|(at, of, it)| Step::Report(at, of, it)),
        2 => any::<bool>().prop_map(Step::Message),
        2 => any::<bool>().prop_map(Step::Claim),
        1 => Just(Step::Write),
        3 => millis.prop_map(|millis| Step::Pass(Duration::from_millis(millis))),
        3 => Just(Step::Tick),
        1 => (0_u64..20).prop_map(Step::Credits),
        1 => (0_u32..6).prop_map(Step::PhoneLimit),
        1 => Just(Step::Restart),
        1 => Just(Step::Snapshot),
    ];
    prop::collection::vec(step, 1..120)
}

impl Bench {
    fn step(&mut self, step: Step, sent: &mut Vec<RequestId>) {
        let pick = |at: usize| {
            sent.get(at % sent.len().max(1)).copied().unwrap_or(RequestId::from_parts(START, 0))
        };
        match step {
            Step::Send(number) => sent.extend(self.send(phone(number)).map(|it| it.request_id)),
            Step::Verify(at, right) => {
                let id = pick(at);
                let known = self.core.hot.otps.get(id).is_some();
                let code = if right && known { self.code(id) } else { "x".to_owned() };
                drop(self.verify(id, &code));
            }
            Step::Resend(at) => drop(self.resend(pick(at))),
            Step::Settle(at, of, settled) => self.settle_message(pick(at), of, settled),
            Step::Report(at, of, progress) => self.report(pick(at), of, &progress),
            Step::Message(true) => {
                self.unique += 1;
                let id = MessageId::from_parts(self.now, self.unique);
                self.event(queued(id, self.now.plus(HOUR)));
            }
            Step::Message(false) => {
                let oldest = self.core.hot.messages.iter().next();
                oldest.into_iter().for_each(|(id, _)| self.event(Event::MessageSettled { id }));
            }
            Step::Claim(claimed) => {
                let oldest = self.core.hot.messages.iter().next().map(|(id, _)| id);
                let oldest: Vec<_> = oldest.into_iter().collect();
                let (asked, released) =
                    if claimed { (oldest, vec![]) } else { (Vec::new(), oldest) };
                self.claim(&released, &asked);
            }
            Step::Write => {
                let oldest = self.core.hot.messages.iter().next();
                oldest.into_iter().for_each(|(id, _)| self.event(Event::MessageWritten { id }));
            }
            Step::Pass(duration) => self.pass(duration),
            Step::Tick => drop(self.tick()),
            Step::Credits(credits) => self.credits(CreditsChange::Set(credits)),
            Step::PhoneLimit(limit) => self.core.rules.limits.otp_per_phone_10m = limit,
            Step::Restart => self.core.hot = self.replayed(),
            Step::Snapshot => {
                let mut bytes = Vec::new();
                let mut hot = HotState::default();
                hot.replay(&self.journal).unwrap();
                hot.encode_into(&mut bytes);
                self.core.hot = HotState::decode(&bytes).unwrap();
            }
        }
        self.core.observe(self.now);
    }
}

fn reencoded(hot: &HotState) -> HotState {
    let mut bytes = Vec::new();
    hot.encode_into(&mut bytes);
    HotState::decode(&bytes).unwrap()
}

proptest! {
    #[test]
    fn a_replay_is_the_live_state(steps in steps()) {
        let mut bench = Bench::with(Limits { otp_per_workspace_hour: 40, ..Limits::default() });
        bench.core.credits = 1000;
        bench.core.rules.guard.unverified_per_prefix_hour = 3;
        let mut sent = Vec::new();
        for step in steps {
            bench.step(step, &mut sent);
            prop_assert_eq!(bench.known(&bench.replayed()), bench.known(&bench.core.hot));
        }
        let decoded = reencoded(&bench.core.hot);
        prop_assert_eq!(decoded.now(), bench.core.hot.now());
        prop_assert_eq!(image(&decoded), image(&bench.core.hot));
        for hot in [&decoded, &bench.core.hot] {
            for number in 0..4 {
                let wait = bench.core.hot.phone_wait(phone(number), 3, HOUR);
                prop_assert_eq!(hot.phone_wait(phone(number), 3, HOUR), wait);
            }
        }
    }

    /// Each request has one `otp.sent` more than resends, and at most one ending. Every request
    /// that was neither verified nor used up is reported as expired, over restarts at any moment.
    #[test]
    fn every_request_ends_once_in_the_log(steps in steps()) {
        let mut bench = Bench::new();
        let mut sent = Vec::new();
        for step in steps {
            bench.step(step, &mut sent);
        }
        bench.core.hot = bench.replayed();
        bench.pass(3 * HOUR);
        while bench.core.hot.messages.len() > 0 {
            bench.step(Step::Message(false), &mut sent);
        }
        while bench.tick() {}
        prop_assert!(bench.core.hot.is_empty());
        for id in sent {
            let of = |event: &PublicEvent| match *event {
                PublicEvent::OtpVerified { request_id, .. }
                | PublicEvent::OtpExpired { request_id, .. }
                | PublicEvent::OtpFailed {
                    request_id,
                    reason: postrider_domain::event::OtpFailure::MaxAttempts,
                    ..
                } => request_id == id,
                _ => false,
            };
            prop_assert_eq!(bench.log.iter().filter(|entry| of(&entry.event)).count(), 1);
        }
    }

    #[test]
    fn bytes_that_are_no_state_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(HotState::decode(&[&[1], &*bytes].concat()));
        HotState::default().replay(&bytes).ok();
    }
}

#[test]
fn a_cut_snapshot_is_refused() {
    let mut bench = Bench::new();
    for number in 0..20 {
        let id = bench.send(phone(number % 3)).map(|sent| sent.request_id);
        if let Ok(id) = id {
            bench.resend(id).ok();
        }
    }
    bench.step(Step::Message(true), &mut Vec::new());
    let mut bytes = Vec::new();
    bench.core.hot.encode_into(&mut bytes);
    HotState::decode(&bytes).unwrap();
    for length in 0..bytes.len() {
        HotState::decode(&bytes[..length]).unwrap_err();
    }
    bytes.push(0);
    HotState::decode(&bytes).unwrap_err();
}

#[test]
fn a_replay_keeps_what_still_has_to_be_reported() {
    let mut bench = Bench::new();
    let id = bench.send(phone(1)).unwrap().request_id;
    // The process is down for two hours; the first command after it comes before the first tick,
    // and then the process dies.
    bench.pass(2 * HOUR);
    bench.core.hot = bench.replayed();
    bench.send(phone(2)).unwrap();
    bench.core.hot = bench.replayed();
    bench.tick();
    assert_eq!(bench.kinds(), ["otp.sent", "otp.sent", "otp.expired", "otp.failed"]);
    assert_eq!(bench.core.credits, 999);
    assert!(bench.core.hot.otps.get(id).is_none());
    assert_eq!(bench.replayed().otps.len(), 1, "and then forgets it");
}

#[test]
fn a_snapshot_of_a_newer_version_is_refused() {
    let mut bytes = Vec::new();
    Bench::new().core.hot.encode_into(&mut bytes);
    bytes[0] = 2;
    let refused = HotState::decode(&bytes).unwrap_err().to_string();
    assert_eq!(refused, "it has version 2; this Postrider reads up to 1");
}

#[test]
fn a_suspicion_is_reported_once_and_a_refusal_costs_nothing() {
    let mut bench = Bench::unlimited();
    let (unverified_per_prefix_hour, mode) = (2, GuardMode::Refuse);
    bench.core.rules.guard =
        GuardOptions { unverified_per_prefix_hour, mode, ..GuardOptions::default() };
    let id = bench.send(phone(1)).unwrap().request_id;
    bench.send(phone(2)).unwrap();
    for _ in 0..3 {
        let credits = bench.core.credits;
        let refused = bench.run(true, |core, effects| {
            let id = RequestId::from_parts(core.now(), 99);
            send_otp(core, SendOtp::to(phone(3)), id, None, effects)
        });
        let by = BlockedBy::Unverified { calling_code: 1, unverified: 2 };
        assert_eq!(refused, Err(SendOtpError::DestinationBlocked(by)));
        assert_eq!(bench.core.credits, credits);
        bench.core.hot = bench.replayed();
    }
    assert_eq!(bench.kinds(), ["otp.sent", "otp.sent", "otp.pumping_suspected"]);
    bench.verify(id, &bench.code(id)).unwrap();
    bench.send(phone(3)).unwrap();
    bench.pass(HOUR);
    bench.send(phone(4)).unwrap();
}
