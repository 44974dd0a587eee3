//! An engine with a scripted channel, and the messages that the channel received.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::{CustomChannel, MessageState, MessageStatus, NewNumber, NewProvider};
use postrider_channel::callback::Progress;
use postrider_channel::{AttemptOutcome, Channel, Outbound, Sending};
use postrider_domain::MessageId;
use postrider_store::Keep;

use super::message_commands::{send_message, welcome};
use super::messages::reports;
use super::*;

/// A channel that records its messages, and then answers as scripted, or never.
#[derive(Default)]
pub(super) struct Script {
    pub(super) handed: Mutex<Vec<MessageId>>,
    pub(super) answers: Mutex<VecDeque<AttemptOutcome>>,
    pub(super) is_mute: Mutex<bool>,
}

struct Scripted(Arc<Script>);

impl Channel for Scripted {
    fn send(&self, message: Outbound) -> Sending {
        self.0.handed.lock().push(message.message_id);
        if *self.0.is_mute.lock() {
            return Box::pin(std::future::pending());
        }
        let answer = self.0.answers.lock().pop_front().unwrap_or(AttemptOutcome::Sent);
        Box::pin(std::future::ready(answer))
    }
}

pub(super) struct Rig {
    pub(super) engine: Engine,
    pub(super) acme: Workspace,
    pub(super) script: Arc<Script>,
}

impl Rig {
    pub(super) async fn start(store: impl Store, script: Arc<Script>, now: Timestamp) -> Self {
        Self::over(options(store, now), script).await
    }

    pub(super) async fn over(options: EngineOptions, script: Arc<Script>) -> Self {
        let options = EngineOptions {
            channel: Some(CustomChannel(Arc::new(Scripted(Arc::clone(&script))))),
            ..options
        };
        let engine = Engine::start(options).await.unwrap();
        let admin = engine.admin();
        if engine.workspace(&id("acme")).is_none() {
            admin.create_workspace(id("acme"), "acme".to_owned()).await.unwrap();
            admin.set_credits(&id("acme"), 100).await.unwrap();
            let number =
                NewNumber { messages_per_second: Some(0), ..NewNumber::of(NewProvider::Custom) };
            admin.connect_number(&id("acme"), number).await.unwrap();
            let acme = engine.workspace(&id("acme")).unwrap();
            acme.create_template(welcome()).await.unwrap();
        }
        let acme = engine.workspace(&id("acme")).unwrap();
        Self { engine, acme, script }
    }

    /// Restarts on the durable data, after the power was cut.
    pub(super) async fn after_a_crash(self, store: &CrashingStore) -> (Self, CrashingStore) {
        let now = self.engine.clock().now();
        let store = store.crash(Keep::Nothing);
        self.engine.inner.root.kill();
        (Self::start(store.clone(), self.script, now).await, store)
    }

    pub(super) async fn send(&self, number: u32) -> MessageId {
        send_message(&self.acme, phone(number)).await.unwrap().message_id
    }

    pub(super) async fn state(&self, message: MessageId) -> MessageState {
        self.acme.message(message).await.unwrap().unwrap()
    }

    pub(super) async fn becomes(&self, message: MessageId, status: MessageStatus) {
        // While the store fails no read succeeds.
        let is = async || {
            let state = self.acme.message(message).await;
            state.is_ok_and(|state| state.unwrap().status == status)
        };
        until(status.as_str(), is).await;
    }

    pub(super) async fn handed(&self, count: usize) {
        until("it is handed over", async || self.script.handed.lock().len() == count).await;
    }

    /// Returns how often each message was dispatched.
    pub(super) fn count(&self, message: MessageId) -> usize {
        self.script.handed.lock().iter().filter(|handed| **handed == message).count()
    }

    pub(super) async fn settle(&self) {
        for _ in 0..30 {
            tokio::task::yield_now().await;
        }
        self.engine.shared().writer.barrier().await.ok();
        self.engine.beat().await;
    }

    pub(super) async fn credits(&self) -> u64 {
        credits(&self.engine, "acme").await
    }

    pub(super) async fn report(&self, message: MessageId, status: Progress) {
        let number = self.engine.admin().numbers(&id("acme")).await.unwrap()[0].id;
        self.acme.receive(number, reports(message, [status])).await.unwrap();
    }
}
