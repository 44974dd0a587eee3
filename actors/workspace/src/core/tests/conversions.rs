//! Tests that destinations where few codes are verified are limited, and no others.

use postrider_domain::AdaptiveMode;
use postrider_domain::code::Expiry;
use postrider_domain::event::chain::{ChainStep, OtpChannel, TryStatus};
use postrider_domain::event::decision::OtpDecision;
use serde_json::{Value, json};

use crate::core::otp::conversion_counts::{Conversion, EmittedRefusals};
use crate::core::otp::failover;
use crate::core::otp::failover_plan::ChannelSetup;
use crate::core::otp::types::{BlockedBy, SendMore};
use crate::core::settings::AdaptiveOptions;
use crate::core::tests::*;

pub(super) const FLOODED: &str = "998902";
pub(super) const HONEST: &str = "998901";
/// The number of codes of the flood that are sent.
const SENT_OF_FLOOD: u32 = 771;
const SECOND: Duration = Duration::from_secs(1);

pub(super) fn guarded(mode: AdaptiveMode) -> Bench {
    let mut bench = Bench::unlimited();
    bench.core.rules.guard.adaptive = AdaptiveOptions { mode, ..AdaptiveOptions::default() };
    bench.credits(CreditsChange::Set(1_000_000));
    bench
}

/// Sends a code to another phone of the region each time; `None` if it was refused.
pub(super) fn send(bench: &mut Bench, region: &str) -> Option<RequestId> {
    bench.unique += 1;
    send_to(bench, &format!("+{region}{:07}", bench.unique))
}

/// Sends a code to this phone; `None` if it was refused.
fn send_to(bench: &mut Bench, to: &str) -> Option<RequestId> {
    bench.unique += 1;
    let id = RequestId::from_parts(bench.now, bench.unique);
    let to = to.parse().unwrap();
    let sent = bench.run(true, |core, effects| send_otp(core, SendOtp::to(to), id, None, effects));
    match sent {
        Ok(sent) => Some(sent.request_id),
        Err(error) => {
            assert!(matches!(error, SendOtpError::DestinationBlocked(_)), "{error}");
            None
        }
    }
}

/// Sends a code that the channel takes.
pub(super) fn hand_over(bench: &mut Bench, region: &str) -> Option<RequestId> {
    let id = send(bench, region)?;
    bench.settle(id, FinalOutcome::Sent);
    Some(id)
}

pub(super) fn verify(bench: &mut Bench, id: RequestId) {
    bench.verify(id, &bench.code(id)).unwrap();
}

pub(super) fn pass(bench: &mut Bench, step: Duration) {
    bench.pass(step);
    while bench.tick() {}
}

/// Sends `count` codes that nobody submits, until they expire.
pub(super) fn expire(bench: &mut Bench, region: &str, count: usize) {
    for _ in 0..count {
        hand_over(bench, region).unwrap();
    }
    pass(bench, 10 * MINUTE);
}

/// Returns the decisions so far.
pub(super) fn decided(bench: &Bench) -> Vec<Value> {
    let all = bench.log.iter().filter_map(|entry| match &entry.event {
        PublicEvent::Other { data, .. } if entry.event.kind() == "otp.decided" => Some(data),
        _ => None,
    });
    all.map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[test]
fn a_flood_is_limited_and_others_lose_nothing() {
    let mut bench = guarded(AdaptiveMode::Refuse);
    let [mut sent, mut refused] = [0; 2];
    for second in 0..900 {
        for _ in 0..2 {
            match hand_over(&mut bench, FLOODED) {
                Some(_) => sent += 1,
                None => refused += 1,
            }
        }
        let honest = hand_over(&mut bench, HONEST).expect("an honest one is sent");
        verify(&mut bench, honest);
        if second % 100 == 0 {
            bench.core.hot = bench.replayed();
        }
        if second % 300 == 299 {
            send(&mut bench, "998903").expect("a region without a past is not limited");
        }
        pass(&mut bench, SECOND);
    }
    // None has ended for five minutes. Then the fiftieth end limits, and one of ten goes on.
    assert_eq!((sent, refused), (SENT_OF_FLOOD, 1800 - SENT_OF_FLOOD));
    assert_eq!(bench.core.credits, 1_000_000 - 900 - 3 - u64::from(SENT_OF_FLOOD));
    pass(&mut bench, HOUR + 5 * MINUTE);
    let before = decided(&bench).len();
    hand_over(&mut bench, FLOODED).expect("the flood is over since an hour");
    assert_eq!(decided(&bench).len(), before);
}

#[test]
fn probes_that_are_verified_end_a_limit() {
    let mut bench = guarded(AdaptiveMode::Refuse);
    expire(&mut bench, FLOODED, 50);
    let mut tries = 0;
    for _ in 0..6 {
        let probe = loop {
            tries += 1;
            if let Some(id) = hand_over(&mut bench, FLOODED) {
                break id;
            }
        };
        assert_eq!(bench.read(probe).unwrap().notes.decision(), Some(OtpDecision::Probe));
        verify(&mut bench, probe);
    }
    assert!(tries > 6);
    for _ in 0..30 {
        let id = send(&mut bench, FLOODED).expect("6 of 56 are more than a tenth");
        assert_eq!(bench.read(id).unwrap().notes.decision(), None);
    }
}

#[test]
fn who_asks_again_gets_the_same_answer_within_the_hour() {
    let mut bench = guarded(AdaptiveMode::Refuse);
    expire(&mut bench, FLOODED, 50);
    let left_of_hour = HOUR.as_millis() as u64 - bench.now.as_millis() % HOUR.as_millis() as u64;
    pass(&mut bench, Duration::from_millis(left_of_hour));
    let phones: Vec<_> = (0..200).map(|it| format!("+{FLOODED}{:07}", 5_000_000 + it)).collect();
    let answers = |bench: &mut Bench| -> Vec<_> {
        phones.iter().map(|phone| send_to(bench, phone).is_some()).collect()
    };
    let first = answers(&mut bench);
    let probes = first.iter().filter(|sent| **sent).count();
    assert!((8..=34).contains(&probes), "{probes} of 200");
    assert_eq!(answers(&mut bench), first);
    bench.core.hot = bench.replayed();
    assert_eq!(answers(&mut bench), first);
    pass(&mut bench, 5 * MINUTE);
    assert_eq!(answers(&mut bench), first);
    for _ in 0..20 {
        let again = answers(&mut bench);
        assert!(again.iter().zip(&first).all(|(again, first)| first | !again), "no other probes");
    }
    pass(&mut bench, 2 * HOUR);
    expire(&mut bench, FLOODED, 50);
    let next = answers(&mut bench);
    assert!(next != first && next.contains(&false), "the next hour has other probes");
}

#[test]
fn events_report_every_probe_and_the_first_refusals_of_a_span() {
    let mut bench = guarded(AdaptiveMode::Refuse);
    expire(&mut bench, FLOODED, 50);
    expire(&mut bench, HONEST, 50);
    let emitted = |bench: &Bench, from: usize, prefix: &str, decision: &str| {
        let all = decided(bench).split_off(from);
        let is = |it: &&Value| it["prefix"] == prefix && it["decision"] == decision;
        all.iter().filter(is).count()
    };
    let most = usize::from(EmittedRefusals::OF_DESTINATION_MAX);
    for round in 0..3 {
        let from = decided(&bench).len();
        let probes = (0..400).filter_map(|_| send(&mut bench, FLOODED)).count();
        let honest = (0..20).filter_map(|_| send(&mut bench, HONEST)).count();
        assert!(probes > 5 || round > 0);
        assert_eq!(emitted(&bench, from, FLOODED, "probe"), probes);
        assert_eq!(emitted(&bench, from, FLOODED, "refused"), most);
        let refused = emitted(&bench, from, HONEST, "refused");
        assert_eq!(refused, 20 - honest, "each destination for itself");
        pass(&mut bench, 5 * MINUTE);
    }
}

#[test]
fn events_of_refusals_are_bounded_over_all_destinations() {
    let mut emitted = EmittedRefusals::default();
    let admitted = (0..60_000).filter(|of| emitted.admits(START, &(of % 100).to_string())).count();
    assert_eq!(admitted, usize::from(EmittedRefusals::ALL_MAX));
    assert!(emitted.admits(START.plus(5 * MINUTE), "1"), "the next span");
}

#[test]
fn no_event_reports_a_send_that_there_is_no_room_for() {
    let mut bench = guarded(AdaptiveMode::Report);
    expire(&mut bench, FLOODED, 50);
    bench.core.rules.otps_max = bench.core.hot.otps.len();
    let (id, to) = (RequestId::from_parts(bench.now, 1 << 20), "+998902123456".parse().unwrap());
    let sent = bench.run(true, |core, effects| send_otp(core, SendOtp::to(to), id, None, effects));
    assert!(matches!(sent, Err(SendOtpError::Unavailable(_))));
    assert_eq!(decided(&bench), [Value::Null; 0]);
    bench.core.rules.otps_max += 1;
    send(&mut bench, FLOODED).unwrap();
    assert_eq!(decided(&bench).len(), 1);
}

#[test]
fn codes_that_live_longest_count_in_the_shortest_window() {
    let mut bench = guarded(AdaptiveMode::Refuse);
    bench.core.rules.guard.adaptive.window_seconds = 1800;
    bench.core.rules.guard.adaptive.hold_seconds = 0;
    bench.core.rules.guard.adaptive.probe_percent = 0;
    for number in 0..50 {
        let to = format!("+{FLOODED}{number:07}").parse().unwrap();
        let expiry = Expiry::from_seconds(Expiry::MAX_SECONDS.into()).unwrap();
        let command = SendOtp { expiry, ..SendOtp::to(to) };
        let id = bench.send_command(command, None).unwrap().request_id;
        bench.settle(id, FinalOutcome::Sent);
    }
    for minute in 0..30 {
        let is_sent = send(&mut bench, FLOODED).is_some();
        assert_eq!(is_sent, !(15..27).contains(&minute), "{minute}");
        pass(&mut bench, MINUTE);
    }
}

#[test]
fn a_country_is_limited_but_where_codes_are_verified() {
    let mut bench = guarded(AdaptiveMode::Refuse);
    for region in 0..25 {
        hand_over(&mut bench, &format!("99870{}", region % 5)).unwrap();
        hand_over(&mut bench, &format!("99871{}", region % 5)).unwrap();
    }
    let good = hand_over(&mut bench, HONEST).unwrap();
    verify(&mut bench, good);
    pass(&mut bench, 10 * MINUTE);
    let sent = (0..100).filter_map(|_| hand_over(&mut bench, "998720")).count();
    assert!((2..=20).contains(&sent), "{sent} of 100");
    let emitted = &decided(&bench)[0];
    assert_eq!((&emitted["rule"], &emitted["prefix"]), (&json!("country"), &json!("998")));
    assert_eq!((&emitted["sent"], &emitted["verified"]), (&json!(51), &json!(1)));
    assert!((0..20).all(|_| hand_over(&mut bench, HONEST).is_some()));
    assert!((0..20).all(|_| hand_over(&mut bench, "4915112").is_some()));
}

#[test]
fn what_is_only_reported_or_safe_is_sent() {
    for (mode, own, safe, decision) in [
        (AdaptiveMode::Report, None, false, Some("would_refuse")),
        (AdaptiveMode::Off, Some(AdaptiveMode::Report), false, Some("would_refuse")),
        (AdaptiveMode::Refuse, None, true, Some("allowed")),
        (AdaptiveMode::Refuse, Some(AdaptiveMode::Off), false, None),
        (AdaptiveMode::Off, None, false, None),
    ] {
        let mut bench = guarded(mode);
        bench.core.destinations.adaptive = own;
        bench.core.destinations.safe.extend(safe.then(|| "9989".parse::<Prefix>().unwrap()));
        expire(&mut bench, FLOODED, 50);
        for number in 1..20 {
            let id = hand_over(&mut bench, FLOODED).unwrap();
            let shown = bench.read(id).unwrap().notes.decision().map(OtpDecision::as_str);
            assert_eq!(shown, decision, "{mode:?} {own:?}");
            let emitted = decided(&bench);
            assert_eq!(emitted.len(), if decision.is_some() { number } else { 0 });
            if let Some(last) = emitted.last() {
                assert_eq!(last["decision"], json!(decision));
                assert_eq!(last["request_id"], json!(id.to_string()));
                assert_eq!((&last["rule"], &last["prefix"]), (&json!("prefix"), &json!(FLOODED)));
                assert_eq!((&last["sent"], &last["verified"]), (&json!(50), &json!(0)));
            }
        }
    }
}

#[test]
fn a_code_that_is_sent_again_is_decided_anew() {
    let mut bench = guarded(AdaptiveMode::Refuse);
    let [first, second] = [(); 2].map(|()| hand_over(&mut bench, HONEST).unwrap());
    bench.core.rules.guard.adaptive.min_sends = 1;
    let missed = hand_over(&mut bench, HONEST).unwrap();
    for _ in 0..5 {
        bench.verify(missed, &bench.wrong_code(missed)).ok();
    }
    bench.core.rules.guard.adaptive.probe_percent = 0;
    let resend = |bench: &mut Bench, id| {
        let message = MessageId::from_parts(bench.now, 1 << 20);
        let over = (id, None);
        bench.run(true, |core, effects| resend_otp(core, over, message, (None, None), effects))
    };
    let by = BlockedBy::Conversion { prefix: HONEST.to_owned(), sent: 1, verified: 0 };
    let refused = ResendOtpError::Refused(SendOtpError::DestinationBlocked(by));
    assert_eq!(resend(&mut bench, first), Err(refused));
    let emitted = decided(&bench);
    assert_eq!(emitted[0]["request_id"], json!(first.to_string()), "the request is there");
    bench.core.rules.guard.adaptive.probe_percent = 100;
    resend(&mut bench, second).unwrap();
    assert_eq!(bench.read(second).unwrap().notes.decision(), Some(OtpDecision::Probe));
}

#[test]
fn what_never_arrived_does_not_count() {
    let mut bench = guarded(AdaptiveMode::Refuse);
    for _ in 0..60 {
        let id = send(&mut bench, FLOODED).unwrap();
        bench.settle(id, FinalOutcome::Failed(Failure::permanent(Some(7))));
        send(&mut bench, FLOODED).unwrap();
    }
    pass(&mut bench, 10 * MINUTE);
    assert_eq!(bench.core.hot.conversions.all(bench.now), []);
    assert!((0..20).all(|_| send(&mut bench, FLOODED).is_some()));
}

#[test]
fn a_code_that_is_cancelled_after_it_left_counts() {
    let mut bench = guarded(AdaptiveMode::Refuse);
    for number in 0..60 {
        let id = send(&mut bench, FLOODED).unwrap();
        if number % 6 != 0 {
            bench.settle(id, FinalOutcome::Sent);
        }
        bench.run(true, |core, effects| cancel_otp(core, id, effects)).unwrap();
    }
    pass(&mut bench, 10 * MINUTE);
    let counted = Conversion { ended: 50, verified: 0 };
    assert_eq!(bench.core.hot.conversions.all(bench.now), [(FLOODED.parse().unwrap(), counted)]);
}

/// Sends a code over these channels to another phone of the region each time.
fn over(bench: &mut Bench, region: &str, channels: &[OtpChannel]) -> Option<RequestId> {
    bench.core.channels = ChannelSetup { sms: true, mail: true, ..ChannelSetup::default() };
    let steps = channels.iter().map(|channel| ChainStep { channel: *channel, timeout_seconds: 30 });
    let (channels, email) = (Some(steps.collect()), Some("ada@example.com".to_owned()));
    let more = SendMore { channels, email, ..SendMore::default() };
    let to = format!("+{region}{:07}", bench.unique + 1).parse().unwrap();
    let command = SendOtp { more: Some(Box::new(more)), ..SendOtp::to(to) };
    bench.unique += 1;
    let id = RequestId::from_parts(bench.now, bench.unique);
    let sent = bench.run(true, |core, effects| send_otp(core, command, id, None, effects));
    sent.ok().map(|sent| sent.request_id)
}

fn settle_step(bench: &mut Bench, id: RequestId, number: u8, status: TryStatus) {
    let settle = |core: &mut Core, effects: &mut Effects| {
        failover::settle_step(core, id, number, (status, None), effects);
        Ok::<_, ()>(())
    };
    bench.run(true, settle).unwrap();
}

#[test]
fn what_goes_by_mail_neither_counts_nor_is_limited() {
    use OtpChannel::{Email, Sms};
    let mut bench = guarded(AdaptiveMode::Refuse);
    bench.core.rules.guard.adaptive.probe_percent = 0;
    for number in 0..60 {
        let id = over(&mut bench, FLOODED, &[Email]).unwrap();
        settle_step(&mut bench, id, 1, TryStatus::Sent);
        let id = over(&mut bench, FLOODED, &[Sms, Email]).unwrap();
        settle_step(&mut bench, id, 1, TryStatus::Failed);
        settle_step(&mut bench, id, 2, TryStatus::Sent);
        if number % 2 == 0 {
            verify(&mut bench, id);
        }
    }
    pass(&mut bench, 10 * MINUTE);
    assert_eq!(bench.core.hot.conversions.all(bench.now), [], "no phone was sent any");
    for _ in 0..50 {
        let id = over(&mut bench, FLOODED, &[Email, Sms]).unwrap();
        settle_step(&mut bench, id, 1, TryStatus::Failed);
        settle_step(&mut bench, id, 2, TryStatus::Sent);
    }
    pass(&mut bench, 10 * MINUTE);
    let counted = Conversion { ended: 50, verified: 0 };
    assert_eq!(bench.core.hot.conversions.all(bench.now), [(FLOODED.parse().unwrap(), counted)]);
    assert_eq!(over(&mut bench, FLOODED, &[Sms, Email]), None);
    assert_eq!(over(&mut bench, FLOODED, &[Email, Sms]), None);
    over(&mut bench, FLOODED, &[Email]).expect("nothing goes to the phone");
    assert_eq!(decided(&bench).len(), 2);
}
