//! Random histories of appends, faults, crashes and trims are compared with a model.

use proptest::prelude::*;

use super::*;
use crate::{ClaimError, EntryHash, Next};

/// A log, and the model of its expected contents.
pub(super) struct Driver {
    pub(super) log: CrashingLog,
    /// Every entry that was acknowledged or shown after a start, by position from 1.
    acknowledged: Vec<EntryHash>,
    /// The entries of the commit whose outcome is unknown.
    unknown: Vec<EntryHash>,
    trimmed: Position,
}

impl Driver {
    pub(super) fn new() -> Self {
        let (acknowledged, unknown) = (Vec::new(), Vec::new());
        Self { log: new_log(), acknowledged, unknown, trimmed: Position::START }
    }

    fn next(&self, epoch_more: u64) -> Option<Next> {
        let tail = self.log.tail().ok()?;
        Some(tail.next(tail.epoch + epoch_more))
    }

    fn note(&mut self, entries: &[Bytes], outcome: Result<(), AppendError>) -> Option<()> {
        let hashes = entries.iter().map(|entry| EntryHash::of(entry));
        match outcome {
            Ok(()) => self.acknowledged.extend(hashes),
            Err(AppendError::Unknown(_)) => self.unknown = hashes.collect(),
            Err(AppendError::Refused(_)) => {}
            Err(taken @ AppendError::Taken(_)) => panic!("there is one writer: {taken}"),
        }
        self.log.tail().ok().filter(|tail| tail.last.0 == self.acknowledged.len() as u64)?;
        self.unknown.is_empty().then_some(())
    }

    pub(super) fn claim(&mut self) -> Option<()> {
        let next = self.next(1)?;
        let body = claim_body().encode().unwrap();
        let entries = crate::encode_commit(&next, crate::Kind::Claim, 0, &body, ENTRY_BYTES_MAX);
        let entries = entries.unwrap();
        let outcome = self.log.append(next.position, &entries);
        let is_done = outcome.is_ok();
        self.note(&entries, outcome).filter(|()| is_done)
    }

    pub(super) fn append(&mut self, body: &[u8]) -> Option<()> {
        let next = self.next(0)?;
        let entries = crate::encode_commit(&next, crate::Kind::Group, 0, body, ENTRY_BYTES_MAX);
        let entries = entries.unwrap();
        let outcome = self.log.append(next.position, &entries);
        let is_done = outcome.is_ok();
        self.note(&entries, outcome).filter(|()| is_done)
    }

    pub(super) fn trim(&mut self, through: Position) -> Option<()> {
        self.trimmed = self.trimmed.max(through);
        self.log.trim(through).ok()
    }

    pub(super) fn reopen(&mut self) -> Option<()> {
        self.log.reopen().ok()?;
        self.check();
        Some(())
    }

    pub(super) fn crash(&mut self, keep: Keep) {
        self.log = self.log.crash(keep).unwrap();
        self.check();
    }

    /// Compares the log with the model. The visible entries must stay from now on.
    fn check(&mut self) {
        let tail = self.log.tail().unwrap();
        assert!(tail.first <= self.trimmed.next(), "{} was not trimmed", tail.first);
        let unknown = std::mem::take(&mut self.unknown);
        let known = self.acknowledged.len();
        let entries = entries(&self.log);
        let mut position = tail.first;
        for entry in &entries {
            let index = position.0 as usize - 1;
            let expected = self.acknowledged.get(index).or(unknown.get(index.wrapping_sub(known)));
            assert_eq!(Some(&entry.hash()), expected, "entry {position}");
            position = position.next();
        }
        assert_eq!(position, tail.last.next());
        let more = (tail.last.0 as usize).checked_sub(known);
        let more = more.unwrap_or_else(|| panic!("{known} are acknowledged, {} there", tail.last));
        assert!(more == 0 || more == unknown.len(), "{more} parts of {}", unknown.len());
        self.acknowledged.extend(&unknown[..more]);
    }
}

#[derive(Debug, Clone)]
enum Action {
    Append(usize),
    Fail(Fault, usize),
    Crash(Keep),
    Reopen,
    Trim(u64),
    Close,
    FailOperation(u64),
}

fn actions() -> impl Strategy<Value = Action> {
    let length = prop_oneof![0_usize..300, 0_usize..6_000];
    let fault = prop_oneof![
        Just(Fault::Lost),
        Just(Fault::Written),
        (0_usize..7_000).prop_map(Fault::Torn),
        Just(Fault::FailedSync),
    ];
    let keep = prop_oneof![
        Just(Keep::Nothing),
        Just(Keep::Everything),
        Just(Keep::Cache),
        any::<u64>().prop_map(Keep::Seed),
    ];
    prop_oneof![
        8 => length.clone().prop_map(Action::Append),
        2 => (fault, length).prop_map(|(fault, length)| Action::Fail(fault, length)),
        2 => keep.prop_map(Action::Crash),
        1 => Just(Action::Reopen),
        1 => (0_u64..60).prop_map(Action::Trim),
        1 => Just(Action::Close),
        1 => (0_u64..30).prop_map(Action::FailOperation),
    ]
}

fn act(driver: &mut Driver, action: &Action, round: usize) {
    match action {
        Action::Append(length) => {
            driver.append(&vec![round as u8; *length]);
        }
        Action::Fail(fault, length) => {
            driver.log.fail_next_append(*fault);
            {
                driver.append(&vec![round as u8; *length]);
            };
        }
        Action::Crash(keep) => driver.crash(*keep),
        Action::Reopen => {
            driver.reopen();
        }
        Action::Trim(through) => {
            driver.trim(Position(*through));
        }
        Action::Close => drop(driver.log.close()),
        Action::FailOperation(after) => driver.log.disk().fail_after(*after, false),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn no_history_loses_what_was_acknowledged(
        actions in prop::collection::vec((actions(), any::<bool>()), 1..60),
    ) {
        let mut driver = Driver::new();
        for (round, (action, claims)) in actions.iter().enumerate() {
            act(&mut driver, action, round);
            if *claims && driver.claim().is_none() && driver.log.tail().is_err() {
                // The writer does the same: it opens the log again until that works, and claims.
                while driver.reopen().is_none() {}
                { driver.claim(); };
            }
        }
        driver.crash(Keep::Nothing);
        prop_assert!(driver.claim().is_some());
        prop_assert!(driver.append(b"the end").is_some());
        driver.crash(Keep::Nothing);
    }
}

#[test]
fn the_model_finds_what_is_lost() {
    let mut driver = Driver::new();
    driver.claim().unwrap();
    driver.log.fail_next_append(Fault::Lying);
    driver.append(b"acknowledged and lost").unwrap();
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        driver.crash(Keep::Nothing);
    }));
    assert!(found.is_err());
}

#[test]
fn a_claim_that_fails_says_why() {
    let log = new_log();
    log.fail_next_append(Fault::Lost);
    let failed = crate::claim(&log, &claim_body(), 0);
    assert!(matches!(failed, Err(ClaimError::Append(AppendError::Unknown(_)))), "{failed:?}");
    let failed = crate::claim(&log, &claim_body(), 0);
    assert!(matches!(failed, Err(ClaimError::Log(LogError::Failed(_)))), "{failed:?}");
}
