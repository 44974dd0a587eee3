//! Random sequences of commands, failures, crashes and restarts, against the model.

use postrider_store::Log;
use proptest::prelude::*;
use tokio::task::JoinSet;

use crate::{MessageStatus, ScriptedOutcome, VerifyOtpError};
use postrider_domain::LimitsOverride;
use postrider_store::{CrashOutcome, Keep};

use super::message_commands::{Reported, report, reported, send_message, welcome};
use super::model::{Answer, Model};
use super::told_messages::ToldMessages;
use super::*;

/// One command; the numbers pick a request.
#[derive(Debug, Clone, Copy)]
enum Command {
    Send(u32),
    Verify(usize, bool),
    Resend(usize),
    Read(usize),
    Limits(u32, u32),
    Credits(u64),
    Message(u32),
    Report(usize, Reported),
}

#[derive(Debug, Clone)]
enum Step {
    /// All at once.
    Run(Vec<Command>),
    Pass(Duration),
    /// What the channel does from now on.
    Script(ScriptedOutcome),
    /// The next commit fails.
    Fail(CrashOutcome),
    Heal,
    /// The power is cut while these are under way.
    Crash(Vec<Command>, usize, Keep),
    /// Clean.
    Restart,
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        6 => (0_u32..3).prop_map(Command::Send),
        6 => (any::<usize>(), prop::bool::weighted(0.4)).prop_map(|(at, ok)| Command::Verify(at, ok)),
        2 => any::<usize>().prop_map(Command::Resend),
        2 => any::<usize>().prop_map(Command::Read),
        1 => (0_u32..6, 0_u32..12).prop_map(|(own, all)| Command::Limits(own, all)),
        1 => (0_u64..5).prop_map(Command::Credits),
        4 => (0_u32..3).prop_map(Command::Message),
        3 => (any::<usize>(), reported()).prop_map(|(at, reported)| Command::Report(at, reported)),
    ]
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

/// The engine under test, and what it must be like.
struct Run {
    store: CrashingStore,
    engine: Engine,
    model: Model,
}

const ACME: &str = "acme";

impl Run {
    async fn new() -> Self {
        let store = CrashingStore::new();
        let engine = engine(&store, START).await;
        let acme = workspace(&engine, ACME, 10).await;
        acme.create_template(welcome()).await.unwrap();
        Self { store, engine, model: Model::new((5, 1000), 10) }
    }

    /// Starts commands; their answers come when they come.
    fn begin(&self, commands: &[Command]) -> JoinSet<Answer> {
        let mut under_way = JoinSet::new();
        let known = self.model.acknowledged();
        let messages = self.model.messages();
        for command in commands {
            if let Command::Report(at, reported) = command {
                if !messages.is_empty() {
                    let message = messages[at % messages.len()];
                    under_way.spawn(report(self.engine.clone(), message, *reported));
                }
                continue;
            }
            let request = match command {
                Command::Verify(at, _) | Command::Resend(at) | Command::Read(at) => {
                    if known.is_empty() {
                        continue;
                    }
                    Some(known[at % known.len()])
                }
                _ => None,
            };
            under_way.spawn(answer(self.engine.clone(), *command, request));
        }
        under_way
    }

    /// Takes up answers to what was under way at once, in an order in which it may have been
    /// carried out.
    fn apply(&mut self, now: Timestamp, mut answers: Vec<Answer>) {
        let alone = answers.len() == 1;
        let unknown = |answer: &Answer| match answer {
            Answer::Verify(id, right, Err(VerifyOtpError::Unavailable(why))) => {
                Some(Answer::Verify(*id, *right, Err(why.clone().into())))
            }
            _ => None,
        };
        // What is unknown may have come first as well as last.
        let last: Vec<_> = answers.iter().filter_map(unknown).collect();
        answers.sort_by_key(|answer| match answer {
            Answer::Limits(..) | Answer::Verify(_, _, Err(VerifyOtpError::Unavailable(_))) => 0,
            Answer::Resend(_, Ok(_)) => 1,
            Answer::Verify(_, _, Ok(Verification::Wrong { attempts_remaining })) => {
                10 - attempts_remaining
            }
            Answer::Verify(_, _, Ok(Verification::Verified)) => 20,
            _ => 30,
        });
        for answer in answers {
            match answer {
                Answer::Limits(limits, _) if !alone => {
                    self.model.apply(now, Answer::Limits(limits, false));
                }
                Answer::Read(..) if !alone => {}
                answer => self.model.apply(now, answer),
            }
        }
        if !alone {
            last.into_iter().for_each(|answer| self.model.apply(now, answer));
        }
    }

    async fn step(&mut self, step: Step) {
        let now = self.engine.clock().now();
        match step {
            Step::Run(commands) => {
                let answers = self.begin(&commands).join_all().await;
                self.apply(now, answers);
            }
            Step::Pass(duration) => self.engine.clock().advance(duration),
            Step::Script(outcome) => {
                self.engine.sandbox().script(&id(ACME), None, outcome, None);
            }
            Step::Fail(outcome) => self.store.fail_next_commits(1, outcome),
            Step::Heal => {
                healed(&self.engine.workspace(&id(ACME)).unwrap()).await;
                self.check().await;
            }
            Step::Crash(commands, yields, keep) => {
                let under_way = self.begin(&commands);
                for _ in 0..yields {
                    tokio::task::yield_now().await;
                }
                let store = self.store.crash(keep);
                self.go_on_with(store, now, under_way).await;
            }
            Step::Restart => {
                let under_way = JoinSet::new();
                // What it could not finish, because the store fails, was not acknowledged.
                self.engine.shutdown(LONG).await.ok();
                let store = self.store.clone();
                self.go_on_with(store, now, under_way).await;
            }
        }
    }

    /// In the end each message is settled: what was not sent while it was of use has failed.
    async fn settle_messages(&mut self) {
        self.engine.clock().advance(Duration::from_secs(24 * 3600 + 3601));
        // It holds something again if it was let go meanwhile.
        let workspace = self.engine.workspace(&id(ACME)).unwrap();
        until("every message is settled", async || {
            drop(workspace.otp(RequestId::from_parts(START, 0)).await);
            self.engine.beat().await;
            let told = ToldMessages::of(&log(&workspace).await);
            for message in told.ids() {
                let state = workspace.message(message).await.unwrap().unwrap();
                if state.status == MessageStatus::Queued {
                    return false;
                }
            }
            true
        })
        .await;
        self.check().await;
    }

    async fn go_on_with(
        &mut self,
        store: CrashingStore,
        now: Timestamp,
        under_way: JoinSet<Answer>,
    ) {
        // The engine lives until its last handle goes; those under way hold one each.
        self.engine.inner.root.kill();
        let answers = under_way.join_all().await;
        self.apply(now, answers);
        self.store = store;
        self.engine = loop {
            // A commit that was told to fail may be the first one of the start.
            drop(self.store.reopen());
            if let Ok(engine) = Engine::start(options(self.store.clone(), now)).await {
                break engine;
            }
        };
        healed(&self.engine.workspace(&id(ACME)).unwrap()).await;
        self.check().await;
    }

    /// Everything that was acknowledged, read back.
    async fn check(&mut self) {
        let now = self.engine.clock().now();
        let workspace = self.engine.workspace(&id(ACME)).unwrap();
        for (request, _) in self.model.acknowledged() {
            self.model.apply(now, Answer::Read(request, workspace.otp(request).await));
        }
        loop {
            // Time may have its work done between the two, and a commit fail.
            let before = workspace.events(0, usize::MAX, None).await;
            let mut states = Vec::new();
            let told = before.as_ref().map(|page| ToldMessages::of(&page.entries));
            for message in told.iter().flat_map(ToldMessages::ids) {
                states.extend(workspace.message(message).await.ok().flatten());
            }
            let (credits, after) = (
                self.engine.admin().workspace(&id(ACME)).await,
                workspace.events(0, usize::MAX, None).await,
            );
            if let (Ok(before), Ok(info), Ok(after)) = (before, credits, after)
                && before == after
            {
                return self.model.check(after.entries, info.credits, &states);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn answer(engine: Engine, command: Command, request: Option<(RequestId, Phone)>) -> Answer {
    let workspace = engine.workspace(&id(ACME)).unwrap();
    match (command, request) {
        (Command::Verify(_, right), Some((request, to))) => {
            let code = if right { code(&id(ACME), request, to) } else { "wrong".to_owned() };
            Answer::Verify(request, right, workspace.verify_otp(request, &code).await)
        }
        (Command::Resend(_), Some((request, _))) => {
            Answer::Resend(request, workspace.resend_otp(request).await)
        }
        (Command::Read(_), Some((request, _))) => {
            Answer::Read(request, workspace.otp(request).await)
        }
        (Command::Limits(own, all), _) => {
            let over = LimitsOverride {
                otp_per_phone_10m: Some(own),
                otp_per_workspace_hour: Some(all),
                ..LimitsOverride::default()
            };
            let set = engine.admin().set_limits(&id(ACME), over).await;
            Answer::Limits((own, all), set.is_ok())
        }
        (Command::Credits(add), _) => {
            Answer::Credits(add, engine.admin().add_credits(&id(ACME), add).await.is_ok())
        }
        (Command::Message(number), _) => {
            Answer::Message(send_message(&workspace, phone(number)).await)
        }
        (Command::Send(number), _) => {
            Answer::Send(phone(number), workspace.send_otp(SendOtp::to(phone(number))).await)
        }
        (_, None) | (Command::Report(..), _) => unreachable!("it was given a request"),
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
            run.settle_messages().await;
        });
    }
}
