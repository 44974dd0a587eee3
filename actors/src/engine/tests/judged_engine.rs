//! An engine whose answers the model judges, and its commands.

use proptest::prelude::*;
use tokio::task::JoinSet;

use crate::{MessageStatus, VerifyOtpError};
use postrider_domain::LimitsOverride;

use super::emitted_messages::EmittedMessages;
use super::message_commands::{Reported, report, reported, send_message, welcome};
use super::model::{Answer, Model};
use super::*;

/// One command; the numbers pick a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Command {
    Send(u32),
    Verify(usize, bool),
    Resend(usize),
    Read(usize),
    Limits(u32, u32),
    Credits(u64),
    Message(u32),
    Report(usize, Reported),
}

/// Returns any command.
pub(super) fn command() -> impl Strategy<Value = Command> {
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

/// The engine under test, and the model of it.
pub(super) struct Judged {
    pub(super) engine: Engine,
    pub(super) model: Model,
}

pub(super) const ACME: &str = "acme";

impl Judged {
    /// Creates a workspace in an engine without records.
    pub(super) async fn begun(engine: Engine) -> Self {
        let acme = workspace(&engine, ACME, 10).await;
        acme.create_template(welcome()).await.unwrap();
        Self { engine, model: Model::new((5, 1000), 10) }
    }

    /// Starts commands; their answers arrive in any order.
    pub(super) fn begin(&self, commands: &[Command]) -> JoinSet<Answer> {
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

    /// Applies answers to concurrent commands, in an order in which they may have been carried out.
    pub(super) fn apply(&mut self, now: Timestamp, mut answers: Vec<Answer>) {
        let alone = answers.len() == 1;
        let unknown = |answer: &Answer| match answer {
            Answer::Verify(id, right, Err(VerifyOtpError::Unavailable(why))) => {
                Some(Answer::Verify(*id, *right, Err(why.clone().into())))
            }
            _ => None,
        };
        // A command with an unknown outcome may have come first as well as last.
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

    /// Settles each message in the end: a message that was not sent in time has failed.
    pub(super) async fn settle_messages(&mut self) {
        self.engine.clock().advance(Duration::from_secs(24 * 3600 + 3601));
        // It has pending work again if it had none meanwhile.
        let workspace = self.engine.workspace(&id(ACME)).unwrap();
        until("every message is settled", async || {
            drop(workspace.otp(RequestId::from_parts(START, 0)).await);
            self.engine.beat().await;
            let emitted = EmittedMessages::of(&log(&workspace).await);
            for message in emitted.ids() {
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

    /// Reads back everything that was acknowledged, and compares it with the model.
    pub(super) async fn check(&mut self) {
        let now = self.engine.clock().now();
        let workspace = self.engine.workspace(&id(ACME)).unwrap();
        for (request, _) in self.model.acknowledged() {
            self.model.apply(now, Answer::Read(request, workspace.otp(request).await));
        }
        loop {
            // Time may have its work done between the two reads, and a commit fail.
            let before = workspace.events(0, usize::MAX, None).await;
            let mut states = Ok(Vec::new());
            let emitted = before.as_ref().map(|page| EmittedMessages::of(&page.entries));
            for message in emitted.iter().flat_map(EmittedMessages::ids) {
                match (workspace.message(message).await, &mut states) {
                    (Ok(state), Ok(states)) => states.extend(state),
                    (Err(why), _) => states = Err(why),
                    (Ok(_), Err(_)) => {}
                }
            }
            let (credits, after) = (
                self.engine.admin().workspace(&id(ACME)).await,
                workspace.events(0, usize::MAX, None).await,
            );
            if let (Ok(before), Ok(states), Ok(info), Ok(after)) = (before, states, credits, after)
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
