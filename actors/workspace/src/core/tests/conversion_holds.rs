//! Tests that a limit by verification lasts, has few probes, and follows no outage.

use postrider_domain::AdaptiveMode;

use crate::core::otp::conversion_counts::Conversion;
use crate::core::tests::conversions::{
    FLOODED, HONEST, decided, expire, guarded, hand_over, pass, verify,
};
use crate::core::tests::*;

/// Sends so many codes to a region, one every `every`; returns how many were sent.
fn flood(bench: &mut Bench, (codes, every): (u32, Duration)) -> u32 {
    let mut sent = 0;
    for _ in 0..codes {
        sent += u32::from(hand_over(bench, FLOODED).is_some());
        pass(bench, every);
    }
    sent
}

#[test]
fn a_slow_flood_stays_limited_as_long_as_it_lasts() {
    let mut bench = guarded(AdaptiveMode::Refuse);
    let an_hour = (300, Duration::from_secs(12));
    let first = flood(&mut bench, an_hour);
    assert!((75..=110).contains(&first), "{first} until it is limited, and probes");
    for hour in 2..=6 {
        let sent = flood(&mut bench, an_hour);
        assert!((10..=50).contains(&sent), "{sent} in hour {hour}");
    }
    pass(&mut bench, HOUR);
    assert!((0..30).all(|_| hand_over(&mut bench, FLOODED).is_some()), "it is over since an hour");
}

#[test]
fn a_limit_without_a_hold_ends_with_its_window() {
    let mut bench = guarded(AdaptiveMode::Refuse);
    bench.core.rules.guard.adaptive.hold_seconds = 0;
    bench.core.rules.guard.adaptive.probe_percent = 0;
    let sent = flood(&mut bench, (1200, Duration::from_secs(12)));
    assert!(sent > 200, "{sent}");
}

#[test]
fn probes_of_a_held_region_limit_no_country() {
    let mut bench = guarded(AdaptiveMode::Refuse);
    expire(&mut bench, FLOODED, 50);
    assert!((0..40).any(|_| hand_over(&mut bench, FLOODED).is_none()));
    pass(&mut bench, 45 * MINUTE);
    bench.core.rules.guard.adaptive.probe_percent = 100;
    assert!((0..45).all(|_| hand_over(&mut bench, FLOODED).is_some()), "as probes");
    for number in 0..8 {
        hand_over(&mut bench, &format!("99890{}", 4 + number % 2)).unwrap();
    }
    bench.core.rules.guard.adaptive.probe_percent = 0;
    pass(&mut bench, 6 * MINUTE);
    assert!(hand_over(&mut bench, "998906").is_some());
}

#[test]
fn few_verified_codes_end_a_hold() {
    let mut bench = guarded(AdaptiveMode::Refuse);
    expire(&mut bench, FLOODED, 50);
    assert!((0..40).any(|_| hand_over(&mut bench, FLOODED).is_none()));
    pass(&mut bench, 55 * MINUTE);
    bench.core.rules.guard.adaptive.probe_percent = 100;
    for _ in 0..10 {
        let probe = hand_over(&mut bench, FLOODED).unwrap();
        verify(&mut bench, probe);
    }
    bench.core.rules.guard.adaptive.probe_percent = 0;
    assert!((0..30).all(|_| hand_over(&mut bench, FLOODED).is_some()));
}

#[test]
fn a_limited_destination_has_few_probes_in_a_window() {
    let mut bench = guarded(AdaptiveMode::Refuse);
    expire(&mut bench, FLOODED, 50);
    assert_eq!(flood(&mut bench, (3000, Duration::from_secs(1))), 50, "of some 300");
    pass(&mut bench, 10 * MINUTE);
    let next = flood(&mut bench, (100, Duration::from_secs(1)));
    assert!((1..=30).contains(&next), "{next} in the next window");
}

/// Sends twelve codes to each of some regions in five minutes, and verifies them if `verify_those`.
///
/// Returns how many were refused.
fn people(bench: &mut Bench, verify_those: bool) -> u32 {
    let mut refused = 0;
    for _ in 0..12 {
        for region in [HONEST, "998903", "4915112", "1555"] {
            match hand_over(bench, region) {
                Some(id) if verify_those => verify(bench, id),
                Some(_) => {}
                None => refused += 1,
            }
        }
        pass(bench, Duration::from_secs(25));
    }
    refused
}

#[test]
fn no_limit_follows_an_outage() {
    let mut bench = guarded(AdaptiveMode::Refuse);
    bench.core.rules.guard.adaptive.window_seconds = 1800;
    let mut refused = 0;
    for span in 0..30 {
        refused += people(&mut bench, !(10..15).contains(&span));
        bench.core.hot = bench.replayed();
    }
    assert_eq!(refused, 0, "{:?}", decided(&bench).first());
}

#[test]
fn a_flood_in_an_outage_is_not_limited_before_it_is_over() {
    let mut bench = guarded(AdaptiveMode::Refuse);
    (0..10).for_each(|_| assert_eq!(people(&mut bench, true), 0));
    for _ in 0..4 {
        flood(&mut bench, (30, Duration::ZERO));
        assert_eq!(people(&mut bench, false), 0);
    }
    for _ in 0..3 {
        flood(&mut bench, (30, Duration::ZERO));
        assert_eq!(people(&mut bench, true), 0);
    }
    assert!((0..30).any(|_| hand_over(&mut bench, FLOODED).is_none()));
}

#[test]
fn what_is_sent_again_counts_each_time() {
    let mut bench = guarded(AdaptiveMode::Refuse);
    for number in 0..20_u128 {
        let id = hand_over(&mut bench, FLOODED).unwrap();
        for again in 0..2_u8 {
            let unique = number * 2 + u128::from(again);
            let message = MessageId::from_parts(bench.now, unique);
            let resend = |core: &mut Core, effects: &mut Effects| {
                resend_otp(core, (id, None), message, (None, None), effects)
            };
            bench.run(true, resend).unwrap();
            bench.settle_message(id, again + 2, FinalOutcome::Sent);
        }
        if number % 10 == 0 {
            verify(&mut bench, id);
        }
    }
    pass(&mut bench, 10 * MINUTE);
    let counted = Conversion { ended: 60, verified: 2 };
    assert_eq!(bench.core.hot.conversions.all(bench.now), [(FLOODED.parse().unwrap(), counted)]);
    assert!((0..40).any(|_| hand_over(&mut bench, FLOODED).is_none()));
}

#[test]
fn counts_that_are_over_take_no_memory() {
    let mut bench = guarded(AdaptiveMode::Off);
    for region in 0..50 {
        expire(&mut bench, &format!("9989{region:02}"), 1);
    }
    let held = bench.core.hot.conversions.len();
    assert!((1..=7).contains(&held), "{held}");
    pass(&mut bench, 2 * HOUR);
    assert_eq!(bench.core.hot.conversions.len(), 0);
}
