//! Tests that nothing leaves an engine after its tenure: it waits, and does not count as
//! dispatched.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::HeaderMap;
use postrider_domain::SenderNotes;
use postrider_store::Keep;
use postrider_webhook::client::{Answer, Post, Posting};

use super::scripted::Rig;
use super::*;
use crate::{MessageContent, MessageStatus, Tenure};

/// Holds for so many questions, and then no more.
#[derive(Debug, Default)]
struct Scripted {
    left: AtomicUsize,
    /// The last answer.
    held: AtomicBool,
}

impl Scripted {
    fn holds_for(&self, questions: usize) {
        self.left.store(questions, Ordering::Relaxed);
    }

    fn held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }
}

impl Tenure for Scripted {
    fn holds(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        let holds = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        self.held.store(holds, Ordering::Relaxed);
        holds
    }
}

fn under(tenure: &Arc<Scripted>, store: &CrashingStore) -> EngineOptions {
    EngineOptions { tenure: Some(tenure.clone()), ..options(store.clone(), START) }
}

/// Passes enough time for everything that could leave.
async fn pass(engine: &Engine) {
    for _ in 0..30 {
        engine.pass(Duration::from_millis(100)).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        engine.shared().writer.barrier().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_waits_for_the_tenure_whether_it_is_claimed_or_not() {
    // The tenure does not hold at all, or it holds for the claim and not for the dispatch.
    for questions in [0, 1] {
        let (store, tenure) = (CrashingStore::new(), Arc::<Scripted>::default());
        let rig = Rig::over(under(&tenure, &store), Arc::default()).await;
        tenure.holds_for(questions);
        let message = rig.send(1).await;
        pass(&rig.engine).await;
        assert_eq!(rig.count(message), 0, "with {questions}");
        // The successor has it as a message that was never dispatched.
        let store = store.crash(Keep::Nothing);
        rig.engine.inner.root.kill();
        let rig = Rig::start(store, rig.script, START).await;
        rig.becomes(message, MessageStatus::Sent).await;
        assert_eq!(rig.count(message), 1, "with {questions}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_leaves_when_the_tenure_comes_back() {
    let (store, tenure) = (CrashingStore::new(), Arc::<Scripted>::default());
    let rig = Rig::over(under(&tenure, &store), Arc::default()).await;
    let message = rig.send(1).await;
    pass(&rig.engine).await;
    assert_eq!(rig.count(message), 0);
    tenure.holds_for(usize::MAX);
    // Nothing notifies it: it checks again.
    pass(&rig.engine).await;
    rig.becomes(message, MessageStatus::Sent).await;
    assert_eq!(rig.count(message), 1);
}

/// Accepts and counts every webhook: all, and those that arrived after the tenure.
#[derive(Default)]
struct Receiver {
    tenure: Arc<Scripted>,
    posted: AtomicUsize,
    wrong: AtomicUsize,
}

struct Posts(Arc<Receiver>);

impl Post for Posts {
    fn post<'a>(
        &'a self,
        _url: &'a str,
        _headers: HeaderMap,
        _body: Vec<u8>,
        _real_now: Timestamp,
    ) -> Posting<'a> {
        self.0.posted.fetch_add(1, Ordering::Relaxed);
        self.0.wrong.fetch_add(usize::from(!self.0.tenure.held()), Ordering::Relaxed);
        let (retry_after, excerpt, text) = (None, None, None);
        Box::pin(async move { Answer::Status { status: 200, retry_after, excerpt, text } })
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_is_posted_with_the_tenure_alone() {
    // The tenure ends at any of the questions on the way.
    for questions in 0..8 {
        let (store, receiver) = (CrashingStore::new(), Arc::<Receiver>::default());
        let tenure = &receiver.tenure;
        let engine = Engine::start(under(tenure, &store)).await.unwrap();
        engine.shared().webhooks.post_by(Posts(Arc::clone(&receiver)));
        let acme = workspace(&engine, "acme", 10).await;
        let (webhook, _) = acme.create_webhook(webhooks::settings()).await.unwrap();
        tenure.holds_for(questions);
        acme.test_webhook(webhook.id).await.unwrap();
        pass(&engine).await;
        let posted = || receiver.posted.load(Ordering::Relaxed);
        assert!(questions > 0 || posted() == 0);
        tenure.holds_for(usize::MAX);
        // A started request waits longer.
        engine.pass(Duration::from_secs(60)).await;
        pass(&engine).await;
        assert_eq!(posted(), 1, "with {questions}");
        assert_eq!(receiver.wrong.load(Ordering::Relaxed), 0, "with {questions}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_mail_is_handed_over_with_the_tenure_alone() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let mail = mail_server(server.local_addr().unwrap().port());
    // The tenure does not hold at all, or it holds for the claim and not for the dispatch.
    for questions in [0, 1] {
        let (store, tenure) = (CrashingStore::new(), Arc::<Scripted>::default());
        let options = EngineOptions { mail: Some(mail.clone()), ..under(&tenure, &store) };
        let engine = Engine::start(options).await.unwrap();
        let acme = workspace(&engine, "acme", 10).await;
        acme.receive_mail(inbound_mail()).await.unwrap();
        let found = acme.conversations(Default::default(), 0, 1).await.unwrap();
        let conversation = found.conversations[0].0.id;
        let text = MessageContent::Text("Hello".parse().unwrap());
        acme.reply(conversation, text, None, SenderNotes::default(), None).await.unwrap();
        tenure.holds_for(questions);
        pass(&engine).await;
        assert!(server.accept().is_err(), "with {questions}");
        tenure.holds_for(usize::MAX);
        pass(&engine).await;
        until("it is handed over", async || server.accept().is_ok()).await;
        engine.inner.root.kill();
        drop(engine);
        while server.accept().is_ok() {}
    }
}
