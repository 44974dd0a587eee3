//! Tests random sequences of commands, failures, crashes and restarts, against the model.

use postrider_store::Log;
use proptest::prelude::*;
use tokio::task::JoinSet;

use crate::ScriptedOutcome;
use postrider_store::{CrashOutcome, Keep};

use super::judged_engine::{ACME, Command, Judged, command};
use super::model::Answer;
use super::*;

#[derive(Debug, Clone)]
enum Step {
    /// All commands run at once.
    Run(Vec<Command>),
    Pass(Duration),
    /// The channel's behaviour from now on.
    Script(ScriptedOutcome),
    /// The next commit fails.
    Fail(CrashOutcome),
    Heal,
    /// The power is cut while these are in progress.
    Crash(Vec<Command>, usize, Keep),
    /// A restart after a clean stop.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let twice = any::<usize>().prop_map(|at| vec![Command::Verify(at, true); 2]);
    let outcome = || {
        prop_oneof![
            Just(CrashOutcome::Lost),
            Just(CrashOutcome::Kept),
            Just(CrashOutcome::Unsynced)
        ]
    };
    let keep = prop_oneof![
        Just(Keep::Nothing),
        Just(Keep::Everything),
        (0_usize..400).prop_map(Keep::Bytes)
    ];
    let some = || prop::collection::vec(command(), 0..6);
    let millis = prop_oneof![0_u64..5_000, 0_u64..700_000, 3_000_000_u64..8_000_000];
    let scripted = prop_oneof![
        2 => Just(ScriptedOutcome::Sent),
        2 => Just(ScriptedOutcome::Failed { error_code: 131_026 }),
        3 => Just(ScriptedOutcome::Unavailable),
        1 => Just(ScriptedOutcome::Lost),
        1 => Just(ScriptedOutcome::Slow),
    ];
    let step = prop_oneof![
        12 => command().prop_map(|command| Step::Run(vec![command])),
        4 => some().prop_map(Step::Run),
        2 => twice.prop_map(Step::Run),
        3 => millis.prop_map(|millis| Step::Pass(Duration::from_millis(millis))),
        2 => scripted.prop_map(Step::Script),
        3 => outcome().prop_map(Step::Fail),
        3 => Just(Step::Heal),
        2 => (some(), 0_usize..12, keep).prop_map(|(under_way, yields, keep)| {
            Step::Crash(under_way, yields, keep)
        }),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..40)
}

/// The engine under test, and the model of it.
struct Run {
    store: CrashingStore,
    judged: Judged,
}

impl Run {
    async fn new() -> Self {
        let store = CrashingStore::new();
        let engine = engine(&store, START).await;
        Self { store, judged: Judged::begun(engine).await }
    }

    async fn step(&mut self, step: Step) {
        let now = self.judged.engine.clock().now();
        match step {
            Step::Run(commands) => {
                let answers = self.judged.begin(&commands).join_all().await;
                self.judged.apply(now, answers);
            }
            Step::Pass(duration) => self.judged.engine.clock().advance(duration),
            Step::Script(outcome) => {
                self.judged.engine.sandbox().script(&id(ACME), None, outcome, None);
            }
            Step::Fail(outcome) => self.store.fail_next_commits(1, outcome),
            Step::Heal => {
                healed(&self.judged.engine.workspace(&id(ACME)).unwrap()).await;
                self.judged.check().await;
            }
            Step::Crash(commands, yields, keep) => {
                let under_way = self.judged.begin(&commands);
                for _ in 0..yields {
                    tokio::task::yield_now().await;
                }
                let store = self.store.crash(keep);
                self.go_on_with(store, now, under_way).await;
            }
            Step::Restart => {
                let under_way = JoinSet::new();
                // A command that it could not finish, because the store fails, was not
                // acknowledged.
                self.judged.engine.shutdown(LONG).await.ok();
                let store = self.store.clone();
                self.go_on_with(store, now, under_way).await;
            }
        }
    }

    async fn go_on_with(
        &mut self,
        store: CrashingStore,
        now: Timestamp,
        under_way: JoinSet<Answer>,
    ) {
        // The engine lives until its last handle is dropped; commands in progress hold one each.
        self.judged.engine.inner.root.kill();
        let answers = under_way.join_all().await;
        self.judged.apply(now, answers);
        self.store = store;
        self.judged.engine = loop {
            // A commit that was scripted to fail may be the first one of the start.
            drop(self.store.reopen());
            if let Ok(engine) = Engine::start(options(self.store.clone(), now)).await {
                break engine;
            }
        };
        healed(&self.judged.engine.workspace(&id(ACME)).unwrap()).await;
        self.judged.check().await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(64),
        max_shrink_iters: 2_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_was_acknowledged_holds(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut run = Run::new().await;
            for step in steps {
                run.step(step).await;
            }
            run.step(Step::Heal).await;
            run.step(Step::Restart).await;
            run.judged.settle_messages().await;
        });
    }
}
