//! Tests of the clock with a wall clock that steps, and with a start behind the data.

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);
const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

#[test]
fn it_only_goes_forward() {
    let clock = Clock::manual(START);
    assert_eq!(clock.now(), START);
    clock.advance(3 * SECOND);
    assert_eq!(clock.now(), START.plus(3 * SECOND));
    assert_eq!(clock.offset(), 3 * SECOND);
    clock.set_wall(START.minus(DAY));
    assert_eq!(clock.now(), START.plus(3 * SECOND), "a wall clock set back is not followed");
    clock.pass(60 * SECOND);
    assert!(clock.now() > START.plus(60 * SECOND), "and delays nothing");
}

#[test]
fn a_glitch_of_the_wall_clock_changes_nothing_but_the_rest_of_deletion() {
    let clock = Clock::manual(START);
    clock.pass(SECOND);
    clock.set_wall(START.plus(2 * DAY));
    assert_eq!(clock.now(), START.plus(SECOND));
    clock.set_wall(START.plus(SECOND));
    for _ in 0..10 {
        clock.pass(SECOND);
        assert!(clock.now().since(START) <= 12 * SECOND);
    }
    assert_eq!(clock.real(), START.plus(11 * SECOND));
    let ClockHealth { steps, in_step, .. } = clock.health();
    assert_eq!((steps, in_step), (1, false));
    assert!(clock.deletion_rests());
    clock.pass(3600 * SECOND);
    assert!(!clock.deletion_rests());
}

#[test]
fn a_start_behind_the_durable_moment_goes_on_from_it_at_the_normal_rate() {
    let clock = Clock::manual(START);
    clock.start_after(START.plus(2 * DAY));
    let began = clock.now();
    assert_eq!(began, START.plus(2 * DAY).plus(Duration::from_millis(1)));
    assert_eq!(clock.real(), START, "others see the wall clock's time");
    assert!(clock.health().is_ahead && clock.deletion_rests());
    clock.pass(60 * SECOND);
    assert_eq!(clock.now(), began.plus(60 * SECOND));
}

#[test]
fn deletion_rests_after_a_long_stop_and_not_after_a_short_one() {
    for (stopped, rests) in [(DAY, false), (2 * DAY, true)] {
        let clock = Clock::manual(START.plus(stopped));
        clock.start_after(START);
        assert_eq!(clock.now(), START.plus(stopped));
        assert_eq!(clock.deletion_rests(), rests, "{stopped:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn sleepers_wake_when_time_is_moved() {
    let clock = Clock::manual(Timestamp::from_millis(0));
    let sleeper = tokio::spawn({
        let clock = clock.clone();
        async move { clock.sleep_until(Timestamp::from_millis(60_000)).await }
    });
    tokio::task::yield_now().await;
    clock.advance(Duration::from_secs(59));
    tokio::task::yield_now().await;
    assert!(!sleeper.is_finished());
    clock.advance(Duration::from_secs(1));
    sleeper.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn following_a_step_forward_wakes_sleepers_at_once() {
    let clock = Clock::manual(START);
    let sleeper = tokio::spawn({
        let clock = clock.clone();
        async move { clock.sleep_until(START.plus(DAY)).await }
    });
    tokio::task::yield_now().await;
    clock.set_wall(START.minus(SECOND));
    assert_eq!(clock.follow(), None);
    clock.set_wall(START.plus(DAY));
    assert_eq!(clock.follow(), Some(DAY));
    sleeper.await.unwrap();
}
