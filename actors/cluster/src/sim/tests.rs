//! Tests many seeds without a violation, and that a judgement catches each planted fault.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::*;

/// The number of seeds that are run unless [`COUNT`] sets another.
const SEEDS: u64 = 1_000;
/// The variable that sets the number of seeds.
const COUNT: &str = "POSTRIDER_SIM_SEEDS";
/// The number of seeds within which a planted fault must be caught.
const CAUGHT_WITHIN: u64 = 3_000;
/// The variable that runs one seed alone.
const SEED: &str = "POSTRIDER_SIM_SEED";

fn options(seed: u64, planted: Option<Planted>) -> Options {
    Options { seed, planted, is_traced: false }
}

/// Runs seeds on every processor, and returns the first violation.
fn search(seeds: u64, planted: Option<Planted>) -> (Option<(u64, Violation)>, Vec<Summary>) {
    let next = AtomicU64::new(0);
    let found: Mutex<Option<(u64, Violation)>> = Mutex::new(None);
    let done = Mutex::new(Vec::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let is_over = found.lock().as_ref().is_some_and(|(first, _)| *first < seed);
            if seed >= seeds || is_over {
                return;
            }
            match run(options(seed, planted)) {
                Ok(summary) => done.lock().push(summary),
                Err(violation) => {
                    let mut found = found.lock();
                    if found.as_ref().is_none_or(|(first, _)| seed < *first) {
                        *found = Some((seed, violation));
                    }
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    (found.into_inner(), done.into_inner())
}

#[test]
fn no_seed_breaks_a_promise() {
    if let Ok(seed) = std::env::var(SEED) {
        let seed = seed.parse().expect("a number");
        let outcome = run(Options { seed, planted: None, is_traced: true });
        panic!("seed {seed}: {outcome:?}");
    }
    let seeds = std::env::var(COUNT).map_or(SEEDS, |count| count.parse().expect("a number"));
    let (found, done) = search(seeds, None);
    if let Some((seed, violation)) = found {
        panic!("seed {seed}: {violation:?}; {SEED}={seed} runs it alone");
    }
    // The runs must have done work that could have failed.
    let sum = |field: fn(&Summary) -> usize| done.iter().map(field).sum::<usize>();
    let per_run = |count: usize| count as u64 / seeds;
    println!(
        "{} writes, {} reads, {} claims, {} handoffs, {} moves, {} settled, {} stopped, {} taken, \
         {} handed over, {} trims, {} restored",
        sum(|it| it.acknowledged),
        sum(|it| it.reads),
        sum(|it| it.claims),
        sum(|it| it.handoffs),
        sum(|it| it.moves),
        sum(|it| it.settled),
        sum(|it| it.stopped),
        sum(|it| it.taken),
        sum(|it| it.handed_over),
        sum(|it| it.trims),
        sum(|it| it.restored),
    );
    assert!(per_run(sum(|it| it.acknowledged)) > 20);
    assert!(per_run(sum(|it| it.reads)) > 20);
    assert!(sum(|it| it.claims) as u64 > 2 * seeds);
    assert!(sum(|it| it.handoffs) as u64 > seeds / 10);
    assert!(sum(|it| it.settled) as u64 > seeds);
    assert!(sum(|it| it.stopped) as u64 > seeds / 100);
    assert!(per_run(sum(|it| it.taken)) > 20);
    assert!(per_run(sum(|it| it.handed_over)) > 10);
    assert!(sum(|it| it.moves) as u64 > seeds / 20);
    assert!(sum(|it| it.trims) as u64 > seeds / 2);
    assert!(sum(|it| it.restored) as u64 > seeds / 20);
}

/// Returns the judgements that may catch a planted fault.
const fn judgements(planted: Planted) -> &'static [&'static str] {
    const STALE: &str = "no read is older than an answered write";
    const MISSING: &str = "no acknowledged entry is missing";
    const REPLICA: &str = "who goes on has what the log has";
    const CHAIN: &str = "the log is one chain";
    const OWNERS: &str = "every shard has one owner in time";
    const SHORT: &str = "only a log that lost something stops a shard";
    const LIMIT: &str = "no limit is exceeded";
    const LEFT: &str = "nothing leaves a node that was replaced";
    const TIME: &str = "engine time does not go back";
    const TWICE: &str = "a message is handed over once unless it is unknown";
    match planted {
        Planted::NoChainCheck | Planted::LogLostIgnored => &[REPLICA],
        Planted::RefusalIsFenced => &["who is fenced has been replaced"],
        Planted::TimeoutIsFailed => &["what was answered as not done is not in the log"],
        Planted::LateAnswerTakenForFresh => &[SHORT],
        Planted::TailFromFollower => &[SHORT, OWNERS],
        Planted::AnswerBeforeAcknowledgement => &[STALE, MISSING],
        Planted::ClaimWithoutCatchingUp => &[REPLICA, CHAIN, STALE, LIMIT, TIME],
        Planted::TakenIgnored => &[CHAIN],
        Planted::WindowsForgotten | Planted::BucketsForgotten => &[LIMIT],
        Planted::BucketsSavedLate => &["a bucket forgets the last second at most"],
        Planted::ClockNotCompared => &["who claims has the time of most nodes"],
        Planted::TimeGoesBack => &[TIME],
        Planted::HandedOverBeforeClaim | Planted::ClaimedSentAgain => &[TWICE],
        Planted::HandedOverUnchecked => &[LEFT],
        Planted::HandoffAwaitedForever => &[OWNERS],
        Planted::ReadEndsEarly => &[STALE, LIMIT, TWICE],
        Planted::IdleOwnerNotAsked => &["nobody appends behind what it has not read"],
        Planted::TrimsPastOlder => &["what is trimmed is in every checkpoint", SHORT],
        Planted::MovesNotCounted => &["two shards move at a time"],
        // Two nodes answer as owners: reads are old, or both give the same places of a bucket away.
        Planted::NoMargin
        | Planted::TenureOnWallClock
        | Planted::TenureAsFlag
        | Planted::OwnerNotAskedAgain
        | Planted::TermOutlivesKey
        | Planted::HandoffNotAwaited
        | Planted::ReleasedWhileClaiming => &[STALE, LIMIT, LEFT],
    }
}

#[test]
fn each_planted_fault_is_caught() {
    let mut caught = BTreeMap::new();
    for planted in Planted::ALL {
        let (found, _) = search(CAUGHT_WITHIN, Some(planted));
        let outcome = found.map(|(seed, it)| (seed, it.judgement, it.what));
        println!("{planted:?}: {outcome:?}");
        caught.insert(planted, outcome);
    }
    for (planted, outcome) in caught {
        let Some((_, judgement, _)) = outcome else { panic!("{planted:?} is not caught") };
        let expected = judgements(planted);
        assert!(expected.contains(&judgement), "{planted:?} is caught by {judgement:?}");
    }
}
