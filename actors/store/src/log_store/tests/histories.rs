//! Random histories of commits, failures and crashes.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Commit,
    FailAppend(Fault),
    FailView(bool),
    Sync,
    Trim(u8),
    Reopen,
    Kill,
    PowerCut(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let faults = prop_oneof![
        Just(Fault::Lost),
        Just(Fault::Written),
        Just(Fault::FailedSync),
        (0..2_000_usize).prop_map(Fault::Torn),
    ];
    let step = prop_oneof![
        8 => Just(Step::Commit),
        2 => faults.prop_map(Step::FailAppend),
        1 => any::<bool>().prop_map(Step::FailView),
        2 => Just(Step::Sync),
        1 => any::<u8>().prop_map(Step::Trim),
        2 => Just(Step::Reopen),
        1 => Just(Step::Kill),
        1 => any::<u64>().prop_map(Step::PowerCut),
    ];
    prop::collection::vec(step, 1..60)
}

/// The store, and its expected contents.
struct Story {
    rig: Rig,
    /// All commits that it includes.
    all: Vec<u64>,
    /// A commit whose outcome is unknown.
    unknown: Option<u64>,
    next: u64,
}

impl Story {
    fn has_failed(&self) -> bool {
        self.rig.store.inner.check().is_err()
    }

    fn commit(&mut self) {
        let failed = self.has_failed();
        self.next += 1;
        match self.rig.commit(self.next) {
            Ok(_) => self.all.push(self.next),
            Err(_) if failed => {}
            Err(_) => self.unknown = Some(self.next),
        }
    }

    /// Resolves the unknown commit once the store is open again.
    fn settle(&mut self) {
        let kept = frames(&self.rig.store);
        if let Some(unknown) = self.unknown.take()
            && kept.last() == Some(&unknown)
        {
            self.all.push(unknown);
        }
        assert!(self.all.ends_with(&kept), "{kept:?} of {:?}", self.all);
        assert_eq!(records(&self.rig.store), folded(&self.all));
    }

    fn go(&mut self, step: Step) {
        match step {
            Step::Commit => self.commit(),
            Step::FailAppend(fault) => {
                if self.rig.log.has_failed() {
                    self.rig.log.fail_next_append(fault);
                }
            }
            Step::FailView(apply) => {
                self.rig.view.fail_next(if apply { Failing::Apply } else { Failing::Sync });
            }
            Step::Sync => {
                let had_failed = self.has_failed();
                self.rig.store.inner.sync_or_reopen_view();
                if had_failed && !self.has_failed() {
                    self.settle();
                }
            }
            Step::Trim(share) => {
                if let Ok(last) = self.rig.store.last_position() {
                    self.rig.store.trim(Position(last.0 * u64::from(share) / 255)).ok();
                }
            }
            Step::Reopen => self.open_again(),
            Step::Kill => self.replace(|rig| rig.after_kill()),
            Step::PowerCut(seed) => self.replace(|rig| rig.after_power_cut(Keep::Seed(seed))),
        }
    }

    fn open_again(&mut self) {
        // A scripted failure may hit the claim.
        while self.rig.store.reopen().is_err() || self.rig.store.begin_epoch().is_err() {}
        self.settle();
    }

    fn replace(&mut self, next: impl Fn(&Rig) -> Result<Rig, StoreError>) {
        self.rig = next(&self.rig).unwrap();
        self.settle();
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128,
        max_shrink_iters: 2_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_was_acknowledged_is_in_log_and_view(steps in steps()) {
        let mut story = Story { rig: Rig::new(), all: Vec::new(), unknown: None, next: 0 };
        steps.into_iter().for_each(|step| story.go(step));
        story.open_again();
        story.replace(|rig| rig.after_power_cut(Keep::Nothing));
    }
}
