//! Tests of chains in engine time: each edge from one step to the next, and the state after a
//! crash.

use postrider_domain::event::chain::{ChainStep, OtpChannel, TryStatus};

use super::*;
use crate::core::otp::failover;
use crate::core::otp::failover_plan::ChannelSetup;
use crate::core::otp::types::SendMore;
use crate::core::portfolio::FullNumbers;
use OtpChannel::{Email, Messaging, Sms};

const STEP: Duration = Duration::from_secs(30);

fn begin(bench: &mut Bench, channels: &[OtpChannel]) -> RequestId {
    bench.core.channels = ChannelSetup { sms: true, mail: true, ..ChannelSetup::default() };
    let steps = channels.iter().map(|channel| ChainStep { channel: *channel, timeout_seconds: 30 });
    let more = SendMore {
        channels: Some(steps.collect()),
        email: Some("ada@example.com".to_owned()),
        ..SendMore::default()
    };
    let command = SendOtp { more: Some(Box::new(more)), ..SendOtp::to(phone(1)) };
    bench.send_command(command, None).unwrap().request_id
}

fn word(bench: &mut Bench, id: RequestId, number: u8, status: TryStatus) {
    let error = (status == TryStatus::Failed).then_some(7);
    let settle = |core: &mut Core, effects: &mut Effects| {
        failover::settle_step(core, id, number, (status, error), effects);
        Ok::<_, ()>(())
    };
    bench.run(true, settle).unwrap();
}

/// Returns the outcomes of the tries; the replayed state and a snapshot must agree.
fn tries(bench: &mut Bench, id: RequestId) -> String {
    let replayed = bench.replayed();
    let chain = bench.core.hot.otps.chains.get(id).unwrap();
    assert_eq!(replayed.otps.chains.get(id), Some(chain));
    assert_eq!(replayed.otps.get(id), bench.core.hot.otps.get(id));
    let mut bytes = Vec::new();
    bench.core.hot.encode_into(&mut bytes);
    let read = HotState::decode(&bytes).unwrap();
    assert_eq!(read.otps.chains.get(id), Some(chain));
    let shown = |it: &crate::core::otp::types::OtpTry| {
        format!("{} {}", it.channel.as_str(), it.status.as_str())
    };
    let state = bench.read(id).unwrap();
    state.tries.iter().map(shown).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_refusal_begins_the_next_step_in_the_same_commit_and_is_paid_back() {
    let mut bench = Bench::new();
    let id = begin(&mut bench, &[Messaging, Sms, Email]);
    assert_eq!(bench.outbound.len(), 1);
    bench.settle_message(id, 1, FinalOutcome::Failed(Failure::permanent(Some(131_026))));
    assert_eq!(tries(&mut bench, id), "messaging failed, sms queued");
    assert_eq!(bench.core.credits, 999);
    word(&mut bench, id, 2, TryStatus::Failed);
    assert_eq!(tries(&mut bench, id), "messaging failed, sms failed, email queued");
    word(&mut bench, id, 3, TryStatus::Failed);
    assert_eq!(bench.core.credits, 1000, "sure failures are given back");
    assert_eq!(
        bench.kinds(),
        [
            "otp.sent",
            "otp.try_started",
            "otp.try_ended",
            "otp.try_started",
            "otp.try_ended",
            "otp.try_started",
            "otp.try_ended",
            "otp.failed",
        ]
    );
    let ended = bench.log[2].event.data();
    assert_eq!((&ended["step"], &ended["next"]), (&1.into(), &"sms".into()));
    assert_eq!(bench.read(id).unwrap().delivery, Delivery::Failed);
}

#[test]
fn silence_begins_the_next_step_after_its_time_and_a_late_report_stops_the_chain() {
    // The report on the first step, ten seconds after it started, and when its time is over.
    for (reported, over) in
        [(None, 30), (Some(FinalOutcome::Sent), 40), (Some(FinalOutcome::Unknown), 30)]
    {
        let mut bench = Bench::new();
        let id = begin(&mut bench, &[Messaging, Sms, Email]);
        bench.pass(Duration::from_secs(10));
        if let Some(reported) = reported {
            bench.settle_message(id, 1, reported);
        }
        bench.pass(Duration::from_secs(over - 10) - MS);
        while bench.tick() {}
        assert_eq!(bench.read(id).unwrap().tries.len(), 1, "not yet");
        bench.pass(MS);
        while bench.tick() {}
        assert_eq!(bench.read(id).unwrap().tries.len(), 2);
        word(&mut bench, id, 2, TryStatus::Sent);
        bench.report(id, 1, &Progress::Delivered);
        bench.pass(4 * STEP);
        while bench.tick() {}
        assert_eq!(tries(&mut bench, id), "messaging delivered, sms sent");
        assert_eq!(bench.read(id).unwrap().delivery, Delivery::Delivered);
        let delivered = bench.log.iter().find(|it| it.event.kind() == "otp.delivered").unwrap();
        assert_eq!(delivered.event.data()["channel"], "messaging");
    }
}

#[test]
fn what_was_claimed_before_a_crash_is_unknown_and_its_time_runs() {
    let mut bench = Bench::new();
    let id = begin(&mut bench, &[Sms, Email]);
    bench.pass(Duration::from_secs(10));
    assert!(!bench.tick());
    assert_eq!(tries(&mut bench, id), "sms queued", "a step worker has it");
    bench.core.hot = bench.replayed();
    while bench.tick() {}
    assert_eq!(tries(&mut bench, id), "sms unknown");
    assert!(bench.core.unsent().is_empty(), "nothing is called again");
    bench.pass(Duration::from_secs(20));
    while bench.tick() {}
    assert_eq!(tries(&mut bench, id), "sms unknown, email queued");
    word(&mut bench, id, 1, TryStatus::Delivered);
    assert_eq!(tries(&mut bench, id), "sms delivered, email queued", "late, and counts");
}

#[test]
fn a_message_of_the_number_is_handed_over_again_after_a_crash() {
    let mut bench = Bench::new();
    let id = begin(&mut bench, &[Messaging, Sms]);
    bench.core.hot = bench.replayed();
    while bench.tick() {}
    let unsent = bench.core.unsent();
    assert_eq!(unsent.len(), 1);
    assert_eq!(unsent[0].origin, bench.outbound[0].origin);
    assert_eq!(tries(&mut bench, id), "messaging queued");
}

#[test]
fn the_end_of_a_request_is_the_end_of_its_chain() {
    for end in ["verified", "cancelled", "expired", "invalidated"] {
        let mut bench = Bench::new();
        let id = begin(&mut bench, &[Messaging, Sms]);
        bench.settle_message(id, 1, FinalOutcome::Sent);
        let (code, wrong) = (bench.code(id), bench.wrong_code(id));
        match end {
            "verified" => drop(bench.verify(id, &code)),
            "cancelled" => bench.run(true, |core, effects| cancel_otp(core, id, effects)).unwrap(),
            "expired" => bench.pass(5 * MINUTE),
            _ => (0..5).for_each(|_| drop(bench.verify(id, &wrong))),
        }
        while bench.tick() {}
        assert!(bench.read(id).unwrap().tries[0].ended_at.is_some(), "{end}");
        bench.pass(2 * STEP);
        while bench.tick() {}
        assert_eq!(tries(&mut bench, id), "messaging sent", "{end}");
        bench.settle_message(id, 1, FinalOutcome::Failed(Failure::permanent(None)));
        assert_eq!(tries(&mut bench, id), "messaging failed", "{end}");
        let ends = bench.kinds().into_iter().filter(|kind| *kind == "otp.try_ended").count();
        assert_eq!(ends, 1, "{end}");
        bench.pass(3 * HOUR);
        while bench.tick() {}
        assert!(bench.core.hot.is_empty());
    }
}

#[test]
fn no_step_begins_in_the_last_five_seconds() {
    for (left, begins) in [(5_000, true), (4_999, false)] {
        let mut bench = Bench::new();
        let id = begin(&mut bench, &[Messaging, Sms]);
        bench.pass(5 * MINUTE - Duration::from_millis(left));
        bench.settle_message(id, 1, FinalOutcome::Failed(Failure::permanent(None)));
        assert_eq!(bench.read(id).unwrap().tries.len() == 2, begins);
        assert_eq!(bench.kinds().contains(&"otp.failed"), !begins);
    }
}

#[test]
fn a_step_that_is_not_set_up_or_paid_is_skipped() {
    let mut bench = Bench::new();
    let id = begin(&mut bench, &[Messaging, Sms, Email]);
    bench.core.channels.sms = false;
    bench.settle_message(id, 1, FinalOutcome::Failed(Failure::permanent(None)));
    assert_eq!(tries(&mut bench, id), "messaging failed, sms skipped, email queued");
    let mut bench = Bench::new();
    bench.credits(CreditsChange::Set(1));
    let id = begin(&mut bench, &[Messaging, Sms]);
    bench.settle_message(id, 1, FinalOutcome::Unknown);
    bench.pass(STEP);
    while bench.tick() {}
    assert_eq!(tries(&mut bench, id), "messaging unknown, sms skipped");
    assert_eq!(bench.core.credits, 0);
}

#[test]
fn a_message_without_a_place_is_left_out_where_another_step_can_take_its_place() {
    // The flag of a recipient that needs no place, and the credits.
    for (needs_none, credits, channels, expected) in [
        (false, 9, &[Messaging, Sms][..], "messaging skipped, sms queued"),
        (true, 9, &[Messaging, Sms], "messaging queued"),
        (false, 1, &[Messaging, Sms], "messaging queued"),
    ] {
        let mut bench = Bench::new();
        bench.core.rules.prices.otp_sms = 2;
        bench.credits(CreditsChange::Set(credits));
        let number = bench.core.number.unwrap();
        let answer = Arc::new(move |_, to, _| {
            assert_eq!(to, phone(1));
            needs_none
        });
        bench.core.full = FullNumbers::new(vec![number], answer);
        let id = begin(&mut bench, channels);
        assert_eq!(tries(&mut bench, id), expected, "{needs_none} {credits}");
    }
}

#[test]
fn a_resend_begins_the_chain_anew() {
    let mut bench = Bench::new();
    let id = begin(&mut bench, &[Sms, Email]);
    word(&mut bench, id, 1, TryStatus::Sent);
    bench.resend(id).unwrap();
    assert_eq!(tries(&mut bench, id), "sms sent, sms queued");
    word(&mut bench, id, 2, TryStatus::Failed);
    assert_eq!(tries(&mut bench, id), "sms sent, sms failed, email queued");
    assert_eq!(bench.core.hot.sends.len(), 2);
    assert_eq!(bench.core.credits, 998);
}

#[test]
fn a_try_under_way_ends_when_an_earlier_one_arrives_or_the_code_is_sent_again() {
    for so_far in [TryStatus::Queued, TryStatus::Sent, TryStatus::Unknown] {
        for arrives in [true, false] {
            let mut bench = Bench::new();
            let id = begin(&mut bench, &[Messaging, Sms, Email]);
            bench.settle_message(id, 1, FinalOutcome::Sent);
            bench.pass(STEP);
            while bench.tick() {}
            word(&mut bench, id, 2, so_far);
            if arrives {
                bench.report(id, 1, &Progress::Delivered);
            } else {
                bench.resend_over(id, Email).unwrap();
            }
            let ended = bench.log.iter().rfind(|it| it.event.kind() == "otp.try_ended").unwrap();
            let (data, next) = (ended.event.data(), (!arrives).then_some("email"));
            assert_eq!((&data["step"], &data["status"]), (&2.into(), &so_far.as_str().into()));
            assert_eq!(data["next"], serde_json::json!(next));
            assert!(bench.read(id).unwrap().tries[1].ended_at.is_some(), "{so_far:?}");
            assert!(!failover::is_step_wanted(&bench.core, id, 2), "nothing calls for it again");
            // A later outcome of it still counts.
            word(&mut bench, id, 2, TryStatus::Failed);
            let (first, rest) =
                if arrives { ("delivered", "") } else { ("sent", ", email queued") };
            let expected = format!("messaging {first}, sms failed{rest}");
            assert_eq!(tries(&mut bench, id), expected);
        }
    }
}

#[test]
fn a_step_that_waits_is_not_called_once_the_code_has_arrived() {
    let mut bench = Bench::new();
    let id = begin(&mut bench, &[Messaging, Sms]);
    bench.settle_message(id, 1, FinalOutcome::Sent);
    bench.pass(STEP);
    while bench.tick() {}
    assert!(failover::is_step_wanted(&bench.core, id, 2));
    bench.report(id, 1, &Progress::Delivered);
    assert!(!failover::is_step_wanted(&bench.core, id, 2));
    word(&mut bench, id, 2, TryStatus::Failed);
    assert_eq!(tries(&mut bench, id), "messaging delivered, sms failed");
    assert_eq!(bench.core.credits, 999, "what was not called is given back");
    assert!(!bench.kinds().contains(&"otp.failed"));
}

#[test]
fn a_message_is_given_up_when_the_next_step_has_its_turn() {
    let mut bench = Bench::new();
    let id = begin(&mut bench, &[Messaging, Sms]);
    let began = bench.now;
    assert_eq!(bench.outbound[0].give_up_at, began.plus(STEP));
    let alone = begin(&mut bench, &[Sms, Messaging]);
    word(&mut bench, alone, 1, TryStatus::Failed);
    let expires_at = bench.read(alone).unwrap().expires_at;
    assert_eq!(bench.outbound[1].give_up_at, expires_at, "nothing follows");
    bench.settle_message(id, 1, FinalOutcome::NotSentInTime);
    assert_eq!(tries(&mut bench, id), "messaging failed, sms queued");
}

#[test]
fn a_failure_that_is_reported_after_the_time_of_the_last_step_is_reported() {
    let mut bench = Bench::new();
    let id = begin(&mut bench, &[Messaging, Sms]);
    bench.settle_message(id, 1, FinalOutcome::Failed(Failure::permanent(None)));
    word(&mut bench, id, 2, TryStatus::Sent);
    bench.pass(STEP);
    while bench.tick() {}
    assert!(!bench.kinds().contains(&"otp.failed"), "silence is no failure");
    word(&mut bench, id, 2, TryStatus::Failed);
    word(&mut bench, id, 2, TryStatus::Failed);
    let failed = bench.kinds().into_iter().filter(|kind| *kind == "otp.failed").count();
    assert_eq!(failed, 1);
}

#[test]
fn a_resend_over_one_channel_leaves_the_steps_of_the_request() {
    let mut bench = Bench::new();
    let id = begin(&mut bench, &[Messaging, Sms]);
    bench.settle_message(id, 1, FinalOutcome::Sent);
    bench.resend_over(id, Sms).unwrap();
    assert_eq!(tries(&mut bench, id), "messaging sent, sms queued");
    word(&mut bench, id, 2, TryStatus::Failed);
    assert_eq!(tries(&mut bench, id), "messaging sent, sms failed", "nothing follows");
    bench.resend(id).unwrap();
    assert_eq!(tries(&mut bench, id), "messaging sent, sms failed, messaging queued");
    bench.core.channels.sms = false;
    let refused = bench.resend_over(id, Sms).unwrap_err();
    assert_eq!(refused, ResendOtpError::Refused(SendOtpError::ChannelNotConfigured(Sms)));
}

#[test]
fn a_code_without_a_chain_is_resent_over_another_channel() {
    let mut bench = Bench::new();
    bench.core.channels = ChannelSetup { sms: true, mail: true, ..ChannelSetup::default() };
    let id = bench.send_command(SendOtp::to(phone(1)), None).unwrap().request_id;
    bench.resend(id).unwrap();
    let shown = |bench: &mut Bench| {
        let state = bench.read(id).unwrap();
        state.tries.iter().map(|it| it.status.as_str()).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(shown(&mut bench), "queued, queued");
    let refused = bench.resend_over(id, Email).unwrap_err();
    assert_eq!(refused, ResendOtpError::Refused(SendOtpError::NoEmail));
    bench.resend_over(id, Sms).unwrap();
    assert_eq!(tries(&mut bench, id), "messaging queued, messaging queued, sms queued");
    assert_eq!(bench.core.credits, 997);
    // Outcomes of the messages before are still settled, each once.
    bench.settle_message(id, 1, FinalOutcome::Failed(Failure::permanent(None)));
    bench.settle_message(id, 1, FinalOutcome::Failed(Failure::permanent(None)));
    assert_eq!(bench.core.credits, 998);
    bench.settle_message(id, 2, FinalOutcome::Sent);
    bench.report(id, 2, &Progress::Delivered);
    assert_eq!(tries(&mut bench, id), "messaging failed, messaging delivered, sms queued");
    assert!(!bench.kinds().contains(&"otp.failed"));
    bench.resend(id).unwrap();
    let now = "messaging failed, messaging delivered, sms queued, messaging queued";
    assert_eq!(tries(&mut bench, id), now, "what has arrived can be sent again");
    let delivered =
        |bench: &Bench| bench.kinds().into_iter().filter(|kind| *kind == "otp.delivered").count();
    bench.report(id, 2, &Progress::Read);
    assert_eq!(delivered(&bench), 1);
    bench.report(id, 4, &Progress::Delivered);
    assert_eq!(delivered(&bench), 1, "the code is there once");
}

#[test]
fn a_step_without_a_time_has_that_of_the_settings() {
    let mut bench = Bench::new();
    bench.core.channels = ChannelSetup { sms: true, mail: true, ..ChannelSetup::default() };
    bench.core.rules.otp.step_timeout_seconds = 12;
    let step = |channel| ChainStep { channel, timeout_seconds: 0 };
    bench.core.channels.default = vec![step(Messaging), step(Sms)];
    let id = bench.send_command(SendOtp::to(phone(1)), None).unwrap().request_id;
    bench.settle_message(id, 1, FinalOutcome::Sent);
    bench.pass(Duration::from_secs(12) - MS);
    while bench.tick() {}
    assert_eq!(tries(&mut bench, id), "messaging sent");
    bench.pass(MS);
    while bench.tick() {}
    assert_eq!(tries(&mut bench, id), "messaging sent, sms queued");
}
