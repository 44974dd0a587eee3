//! A fake of an SMS gateway on loopback, for tests, benches and trials.
//!
//! It runs on a thread of its own and ends when it is dropped.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "shared by several programs, none of which uses all of it; a fake that cannot go on \
              should fail where it stands"
)]

mod receipts;
mod server;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use standardwebhooks::Webhook;
use tokio::sync::oneshot;

pub use receipts::Receipts;

/// The answer to an SMS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It was taken.
    Sent,
    /// It was taken, and has arrived.
    Delivered,
    /// It is refused, with this error code.
    Refused(u32),
    /// It cannot be taken now; it may be posted again after a second.
    Unavailable,
    /// It is taken, and the connection is dropped without an answer.
    Lost,
    /// It is taken, and no answer ever comes.
    Hang,
}

/// An SMS that was posted.
#[derive(Debug, Clone)]
pub struct Sms {
    /// The request for a code and the step, such as `otp_01…:2`.
    pub id: String,
    pub to: String,
    pub text: String,
    /// The number of times that it was posted, including this one.
    pub time: u32,
    /// `true` if the signature is right, or if no secret is known.
    pub is_signed: bool,
}

/// The fake.
pub struct SmsGateway {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Ends the thread when it is dropped.
    _stop: oneshot::Sender<()>,
}

/// The state that all connections share.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The verifier of the requests' signatures.
    verifier: Option<Webhook>,
    /// By recipient; the one for all others is under the empty name.
    answers: HashMap<String, Answer>,
    receipts: Option<Receipts>,
    /// Everything that was posted, oldest first.
    received: Vec<Sms>,
    by_id: HashMap<String, u32>,
    /// HTTP statuses that receipts were answered with; 0 for none.
    receipt_answers: Vec<u16>,
}

impl SmsGateway {
    /// Starts a gateway on a free port.
    pub fn start() -> Self {
        Self::listen(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// Starts a gateway on this address.
    pub fn listen(address: SocketAddr) -> Self {
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = oneshot::channel::<()>();
        let (started, start) = std::sync::mpsc::channel();
        let serving = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("fake-sms-gateway".to_owned());
        let run = move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind(address).await.unwrap();
                started.send(listener.local_addr().unwrap()).unwrap();
                tokio::select! {
                    () = server::serve(listener, serving) => {}
                    _ = stopped => {}
                }
            });
        };
        drop(thread.spawn(run).unwrap());
        Self { address: start.recv().unwrap(), shared, _stop: stop }
    }

    /// Returns the URL that SMS are posted to.
    pub fn url(&self) -> String {
        format!("http://{}/sms", self.address)
    }

    /// Takes only requests that are signed with this secret; everything else is answered 401.
    pub fn verify_with(&self, secret: &str) {
        let verifier = Webhook::new(secret).unwrap();
        self.state(|state| state.verifier = Some(verifier));
    }

    /// Sets the answer to SMS to a phone from now on, or to all phones that have no answer of their
    /// own.
    pub fn answer(&self, to: Option<&str>, answer: Answer) {
        let to = to.unwrap_or_default().to_owned();
        self.state(|state| state.answers.insert(to, answer));
    }

    /// Posts receipts for SMS that are taken from now on.
    pub fn report(&self, receipts: Option<Receipts>) {
        self.state(|state| state.receipts = receipts);
    }

    /// Returns everything that was posted, oldest first.
    pub fn received(&self) -> Vec<Sms> {
        self.state(|state| state.received.clone())
    }

    /// Returns the number of times that an SMS was posted.
    pub fn times(&self, id: &str) -> u32 {
        self.state(|state| state.by_id.get(id).copied().unwrap_or_default())
    }

    /// Returns the HTTP statuses of the answers to the receipts, in that order; 0 is no answer.
    pub fn receipt_answers(&self) -> Vec<u16> {
        self.state(|state| state.receipt_answers.clone())
    }

    fn state<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.shared.state.lock().unwrap())
    }
}

impl Shared {
    /// Records an SMS, and returns it with its answer; `None`: the signature is wrong.
    fn take(&self, headers: &hyper::HeaderMap, body: &[u8]) -> Option<(Sms, Answer)> {
        let state = &mut *self.state.lock().unwrap();
        let posted: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |name: &str| posted[name].as_str().unwrap_or_default().to_owned();
        let (id, to) = (text("id"), text("to"));
        let verifier = state.verifier.as_ref();
        let is_signed = verifier.is_none_or(|verifier| verifier.verify(body, headers).is_ok());
        let times = state.by_id.entry(id.clone()).or_default();
        *times += u32::from(is_signed);
        let sms = Sms { id, to, text: text("text"), time: *times, is_signed };
        state.received.push(sms.clone());
        let answer = state.answers.get(&sms.to).or_else(|| state.answers.get(""));
        is_signed.then_some((sms, answer.copied().unwrap_or(Answer::Delivered)))
    }
}
