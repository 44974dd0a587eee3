//! Tests three engines that own one log in turn, and the model judges their answers.
//!
//! The shard is handed over, its owner is killed, or it is replaced while it runs unaware. Each
//! node has a view of its own, which may have lost unsynced changes or all of them, and a clock of
//! its own. Appends end with unknown outcomes.

use postrider_store::postrider_log::{Claim, MemoryFault, claim};
use postrider_store::{LogStore, MarkedView as _, MemoryView, Writes};
use proptest::prelude::*;
use tokio::task::JoinSet;

use crate::ScriptedOutcome;

use super::judged_engine::{ACME, Command, Judged, command};
use super::model::Answer;
use super::shared_log::SharedLog;
use super::*;

/// The part of its view that a node has when it owns the log the next time.
#[derive(Debug, Clone, Copy)]
enum Left {
    /// All applied changes.
    All,
    /// The synced changes.
    Synced,
    /// Nothing: it has another disk.
    Nothing,
}

/// The way in which another node becomes the owner of the log.
#[derive(Debug, Clone, Copy)]
enum Takeover {
    /// The owner stops first.
    HandOver,
    /// The owner is dead.
    Kill(Left),
    /// The owner continues, unaware of its replacement.
    Replace,
}

#[derive(Debug, Clone)]
enum Step {
    /// All commands run at once.
    Run(Vec<Command>),
    Pass(Duration),
    /// The behaviour of the owner's channel from now on.
    Script(ScriptedOutcome),
    /// The outcome of the next append is unknown.
    Fail(MemoryFault),
    Heal,
    /// One of the other nodes owns the log next, while these commands are in progress. Its clock is
    /// off by so many milliseconds.
    Own(usize, Takeover, Vec<Command>, usize, i64),
    /// The node that was replaced last is asked, too.
    AskOld(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let some = || prop::collection::vec(command(), 0..6);
    let takeover = prop_oneof![
        2 => Just(Takeover::HandOver),
        1 => Just(Takeover::Kill(Left::All)),
        1 => Just(Takeover::Kill(Left::Synced)),
        1 => Just(Takeover::Kill(Left::Nothing)),
        3 => Just(Takeover::Replace),
    ];
    let own = (0_usize..2, takeover, some(), 0_usize..12, -1_000_i64..1_000);
    let fault = prop_oneof![
        Just(MemoryFault::Lost),
        Just(MemoryFault::Kept),
        (0_usize..400).prop_map(MemoryFault::Bytes),
    ];
    let millis = prop_oneof![0_u64..5_000, 0_u64..700_000, 3_000_000_u64..8_000_000];
    let scripted = prop_oneof![
        2 => Just(ScriptedOutcome::Sent),
        1 => Just(ScriptedOutcome::Failed { error_code: 131_026 }),
        2 => Just(ScriptedOutcome::Unavailable),
        1 => Just(ScriptedOutcome::Lost),
    ];
    let step = prop_oneof![
        10 => command().prop_map(|command| Step::Run(vec![command])),
        4 => some().prop_map(Step::Run),
        3 => millis.prop_map(|millis| Step::Pass(Duration::from_millis(millis))),
        2 => scripted.prop_map(Step::Script),
        2 => fault.prop_map(Step::Fail),
        2 => Just(Step::Heal),
        5 => own.prop_map(|(to, how, under_way, yields, skew)| {
            Step::Own(to, how, under_way, yields, skew)
        }),
        3 => any::<usize>().prop_map(Step::AskOld),
    ];
    prop::collection::vec(step, 1..40)
}

/// Claims the log for a node, updates its view up to the claim, and starts its engine.
async fn own(log: &SharedLog, view: &MemoryView, wall: Timestamp) -> Engine {
    loop {
        let handle = Arc::new(log.handle());
        let (node, program) = (String::new(), String::new());
        let me = Claim { node, incarnation: [0; 16], program, readable_from: 1 };
        let claimed_at = log.time_ms().unwrap_or(0).max(wall.as_millis());
        // The entry after the claim is no other node's, so that nothing is missed.
        if claim(&*handle, &me, claimed_at).is_err() {
            continue;
        }
        let begins_after = Some(Timestamp::from_millis(claimed_at));
        let writes = Writes { begun_at: wall, ..Writes::default() };
        let store = LogStore::open(handle, Arc::new(view.clone()), writes).unwrap();
        let options = EngineOptions { begins_after, ..options(store, wall) };
        // An append whose outcome is unknown may be the first one of the start.
        if let Ok(engine) = Engine::start(options).await {
            return engine;
        }
    }
}

/// Three nodes, one of which owns the log.
struct Shard {
    log: SharedLog,
    views: [MemoryView; 3],
    owner: usize,
    judged: Judged,
    /// An owner that was replaced, unaware, until it has ended.
    old: Option<Engine>,
    /// The right time.
    wall: Timestamp,
}

impl Shard {
    async fn new() -> Self {
        let (log, views) = (SharedLog::new(), <[MemoryView; 3]>::default());
        let judged = Judged::begun(own(&log, &views[0], START).await).await;
        Self { log, views, owner: 0, judged, old: None, wall: START }
    }

    async fn step(&mut self, step: Step) {
        let now = self.judged.engine.clock().now();
        match step {
            Step::Run(commands) => {
                let answers = self.judged.begin(&commands).join_all().await;
                self.judged.apply(now, answers);
            }
            Step::Pass(duration) => {
                self.judged.engine.clock().advance(duration);
                self.wall = self.wall.plus(duration);
            }
            Step::Script(outcome) => {
                self.judged.engine.sandbox().script(&id(ACME), None, outcome, None);
            }
            Step::Fail(fault) => self.log.fail_next_append(fault),
            Step::Heal => {
                healed(&self.judged.engine.workspace(&id(ACME)).unwrap()).await;
                self.judged.check().await;
            }
            Step::Own(to, how, commands, yields, skew) => {
                let under_way = self.judged.begin(&commands);
                for _ in 0..yields {
                    tokio::task::yield_now().await;
                }
                let to = (self.owner + 1 + to) % self.views.len();
                self.take_over(to, how, under_way, skew).await;
            }
            Step::AskOld(at) => self.ask_old(at).await,
        }
    }

    async fn take_over(&mut self, to: usize, how: Takeover, under_way: JoinSet<Answer>, skew: i64) {
        let (now, wall) = (self.judged.engine.clock().now(), self.wall.as_millis());
        let wall = Timestamp::from_millis(wall.saturating_add_signed(skew));
        // A node that was replaced before is notified at last, before it may own again.
        self.end_old().await;
        let old = self.judged.engine.clone();
        let mut answers = None;
        match how {
            Takeover::HandOver => {
                // Commands that it could not finish, because the log fails, were not acknowledged.
                old.shutdown(LONG).await.ok();
                answers = Some(under_way.join_all().await);
                abandon(old).await;
            }
            Takeover::Kill(left) => {
                abandon(old).await;
                answers = Some(under_way.join_all().await);
                let view = &mut self.views[self.owner];
                *view = match left {
                    Left::All => view.after_end(),
                    Left::Synced => view.after_power_cut(),
                    Left::Nothing => MemoryView::new(),
                };
            }
            Takeover::Replace => {
                self.old = Some(old);
                let engine = own(&self.log, &self.views[to], wall).await;
                let answers = under_way.join_all().await;
                self.judged.apply(now, answers);
                self.judged.engine = engine;
            }
        }
        if let Some(answers) = answers {
            self.judged.apply(now, answers);
            self.judged.engine = own(&self.log, &self.views[to], wall).await;
        }
        self.owner = to;
        self.views[to].sync().unwrap();
        healed(&self.judged.engine.workspace(&id(ACME)).unwrap()).await;
        self.judged.check().await;
    }

    /// Checks that a replaced node acknowledges no write.
    async fn ask_old(&mut self, at: usize) {
        let Some(old) = &self.old else { return };
        let acme = old.workspace(&id(ACME)).unwrap();
        let sent = acme.send_otp(SendOtp::to(phone(7))).await;
        assert!(sent.is_err(), "it was replaced: {sent:?}");
        let known = self.judged.model.acknowledged();
        if let Some((request, to)) = known.get(at % known.len().max(1)) {
            let right = code(&id(ACME), *request, *to);
            let verified = acme.verify_otp(*request, &right).await;
            assert!(verified.is_err(), "it was replaced: {verified:?}");
        }
    }

    async fn end_old(&mut self) {
        if let Some(old) = self.old.take() {
            abandon(old).await;
        }
    }
}

/// Ends an engine as a crash does. It blocks.
async fn abandon(engine: Engine) {
    tokio::task::spawn_blocking(move || engine.abandon()).await.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(48),
        max_shrink_iters: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_was_acknowledged_holds_whichever_engine_owns_the_log(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut shard = Shard::new().await;
            for step in steps {
                shard.step(step).await;
            }
            shard.step(Step::Heal).await;
            shard.step(Step::Own(0, Takeover::HandOver, Vec::new(), 0, 0)).await;
            shard.judged.settle_messages().await;
        });
    }
}
