//! A fake of the chat-app channel's Cloud API on loopback, for tests, benches and trials. It runs
//! on a thread of its own and ends when it is dropped.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    clippy::unwrap_used,
    reason = "shared by several programs, none of which uses all of it; a fake that cannot go on \
              should fail where it stands"
)]

mod callbacks;
mod limits;
mod messages;
mod server;
mod templates;
mod tls;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

pub use callbacks::{Callbacks, callback, sign};
pub use limits::Limit;
pub use templates::template;

use limits::Buckets;

/// The outcome of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scripted {
    /// It is refused with this error code and HTTP status.
    Error { status: u16, code: u32 },
    /// It is answered with this status and body, whatever they are.
    Raw { status: u16, body: String },
    /// It is taken, and its answer contains this word for a message that is held back.
    Held(&'static str),
    /// It is taken, and the connection is dropped without an answer.
    Lost,
    /// It is taken, and the answer comes this much later.
    Slow(Duration),
}

/// A message that was taken.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// The fake's id of the message.
    pub id: String,
    /// The recipient's phone: digits only.
    pub to: String,
    /// The sender's own id.
    pub opaque: String,
    /// The whole request.
    pub body: Value,
}

/// A message that was taken once more.
#[derive(Debug, Clone)]
pub struct Again {
    /// The sender's own id.
    pub opaque: String,
    /// The count of all taken messages at the previous one with this id.
    pub before: u64,
    /// The count of all taken messages at this one.
    pub at: u64,
}

/// A request for a message.
#[derive(Debug, Clone)]
pub struct Request {
    /// The version of HTTP: 1.1, or 2 over TLS.
    pub version: hyper::Version,
    pub path: String,
    pub authorization: String,
    pub body: Vec<u8>,
}

/// The fake.
pub struct FakeCloudApi {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
    runtime: Handle,
    /// Ends the thread when it is dropped.
    _stop: oneshot::Sender<()>,
}

/// The state that all connections share.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    buckets: Buckets,
}

#[derive(Default)]
struct State {
    /// The only bearer token that is taken. Without it, every token is taken.
    token: Option<String>,
    /// By recipient; those for all recipients are under the empty name. Each holds for a number of
    /// messages.
    scripts: HashMap<String, (Scripted, Option<u32>)>,
    /// The newest requests for messages.
    requests: Vec<Request>,
    /// The newest messages that were taken.
    accepted: Vec<Accepted>,
    accepted_count: u64,
    /// Set if ids are as long as the channel's.
    has_long_ids: bool,
    by_recipient: HashMap<String, u32>,
    /// The number of messages with each id of the sender, and the count of all at the last of them.
    by_opaque: HashMap<String, (u32, u64)>,
    again: Vec<Again>,
    /// The phones that the fake calls by another number.
    known_as: HashMap<String, String>,
    /// The ids of people, by their phones.
    user_ids: HashMap<String, String>,
    /// The pause that a 429 asks for, in seconds.
    retry_after: Option<u32>,
    /// The requests that marked messages as read.
    marked_read: Vec<Value>,
    /// Files that were uploaded: the number, the form's type, and the form.
    files: Vec<(String, String, Vec<u8>)>,
    /// Files that can be fetched, by their ids: the address of one elsewhere, and the content.
    offered: HashMap<String, (Option<String>, Vec<u8>)>,
    /// The answer to every question about a number; its id alone without one.
    number: Option<Value>,
    /// The number of questions about the state of a number.
    number_calls: u32,
    /// The time at which the token expires, in seconds; not reported without it.
    token_expires_at: Option<u64>,
    /// Set if no app receives the account's callbacks.
    unsubscribed: bool,
    templates: Vec<Value>,
    /// The templates of each account that has its own.
    templates_of: HashMap<String, Vec<Value>>,
    /// The number of calls that listed templates.
    template_calls: u32,
    callbacks: Option<Callbacks>,
    /// HTTP statuses that callbacks were answered with; 0 for none.
    callback_answers: Vec<u16>,
}

impl State {
    /// Returns the answer to a question about these fields of a number.
    fn said_of_number(&mut self, id: &str, asked: &str) -> Value {
        self.number_calls += 1;
        let known = self.number.clone().filter(|_| asked != "fields=id");
        let known = known.unwrap_or_else(|| json!({ "id": id }));
        match known["no_such_field"].as_str() {
            Some(field) if asked.contains(field) => json!({"error": {"code": 100}}),
            _ => known,
        }
    }
}

/// The maximum number of requests and messages that are kept whole.
const KEPT: usize = 10_000;

impl FakeCloudApi {
    /// Starts a fake on a free port.
    pub fn start() -> Self {
        Self::listen(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// Starts a fake that speaks TLS; also returns its certificate in PEM.
    pub fn start_tls() -> (Self, String) {
        let (acceptor, certificate) = tls::acceptor();
        (Self::run(SocketAddr::from(([127, 0, 0, 1], 0)), Some(acceptor)), certificate)
    }

    /// Starts a fake on this address.
    pub fn listen(address: SocketAddr) -> Self {
        Self::run(address, None)
    }

    fn run(address: SocketAddr, tls: Option<TlsAcceptor>) -> Self {
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = oneshot::channel::<()>();
        let (started, start) = std::sync::mpsc::channel();
        let serving = Arc::clone(&shared);
        let scheme = if tls.is_some() { "https" } else { "http" };
        let thread = std::thread::Builder::new().name("fake-cloud-api".to_owned());
        let run = move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind(address).await.unwrap();
                started.send((listener.local_addr().unwrap(), Handle::current())).unwrap();
                tokio::select! {
                    () = server::serve(listener, tls, serving) => {}
                    _ = stopped => {}
                }
            });
        };
        drop(thread.spawn(run).unwrap());
        let (address, runtime) = start.recv().unwrap();
        Self { address, scheme, shared, runtime, _stop: stop }
    }

    /// Returns the address that the fake listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the part of the URL before every path of the fake.
    pub fn base_url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Takes this bearer token only; every other one is answered 190.
    pub fn set_token(&self, token: &str) {
        self.state(|state| state.token = Some(token.to_owned()));
    }

    /// Scripts the outcome of messages to a phone (digits only), or to all phones. The script holds
    /// until the next one for the same, or for the next `times` messages.
    pub fn script(&self, to: Option<&str>, scripted: Scripted, times: Option<u32>) {
        let to = to.unwrap_or_default().to_owned();
        self.state(|state| state.scripts.insert(to, (scripted, times)));
    }

    /// Scripts the outcome of messages through a number, by its id at the provider. It holds until
    /// the next script for the number. Scripts by recipient take precedence.
    pub fn script_number(&self, phone_number_id: &str, scripted: Scripted) {
        let name = format!("through {phone_number_id}");
        self.state(|state| state.scripts.insert(name, (scripted, None)));
    }

    /// Answers with this error code and HTTP status from now on.
    pub fn fail(&self, status: u16, code: u32) {
        self.script(None, Scripted::Error { status, code }, None);
    }

    /// Refuses all messages until it heals, and asks to wait for so many seconds.
    pub fn throttle(&self, seconds: u32) {
        self.state(|state| state.retry_after = Some(seconds));
        self.fail(429, 130_429);
    }

    /// Calls a phone (digits only) by another number from now on, in answers and reports.
    pub fn call_recipient(&self, to: &str, known_as: &str) {
        self.state(|state| state.known_as.insert(to.to_owned(), known_as.to_owned()));
    }

    /// Reports the id of a phone's owner from now on, in answers and reports. The phone is digits
    /// only.
    pub fn report_user_id(&self, phone: &str, user_id: &str) {
        self.state(|state| state.user_ids.insert(phone.to_owned(), user_id.to_owned()));
    }

    /// Removes all scripts.
    pub fn heal(&self) {
        self.state(|state| state.scripts.clear());
    }

    /// Returns the newest requests for messages, oldest first.
    pub fn requests(&self) -> Vec<Request> {
        self.state(|state| state.requests.clone())
    }

    /// Returns the newest messages that were taken, oldest first.
    pub fn accepted(&self) -> Vec<Accepted> {
        self.state(|state| state.accepted.clone())
    }

    /// Returns the newest message to a recipient (digits only), if it is among those that are kept.
    pub fn newest_to(&self, to: &str) -> Option<Accepted> {
        self.state(|state| state.accepted.iter().rev().find(|it| it.to == to).cloned())
    }

    /// Returns the uploaded files, oldest first: the number, the form's type, and the form.
    pub fn files(&self) -> Vec<(String, String, Vec<u8>)> {
        self.state(|state| state.files.clone())
    }

    /// Offers a file that somebody has sent, here or elsewhere.
    pub fn offer(&self, id: &str, elsewhere: Option<&str>, content: &[u8]) {
        let offered = (elsewhere.map(str::to_owned), content.to_vec());
        self.state(|state| state.offered.insert(id.to_owned(), offered));
    }

    /// Returns the requests that marked messages as read, oldest first.
    pub fn marked_read(&self) -> Vec<Value> {
        self.state(|state| state.marked_read.clone())
    }

    /// Returns the number of messages that were ever taken.
    pub fn accepted_count(&self) -> u64 {
        self.state(|state| state.accepted_count)
    }

    /// Returns the number of messages to a recipient (digits only) that were taken.
    pub fn accepted_to(&self, to: &str) -> u32 {
        self.state(|state| state.by_recipient.get(to).copied().unwrap_or_default())
    }

    /// Returns the number of taken messages with this id of the sender: more than one is one too
    /// many.
    pub fn accepted_of(&self, opaque: &str) -> u32 {
        self.state(|state| state.by_opaque.get(opaque).map_or(0, |(times, _)| *times))
    }

    /// Returns the largest number of messages that were taken with one id of the sender.
    pub fn most_of_one(&self) -> u32 {
        self.state(|state| state.by_opaque.values().map(|(times, _)| *times).max().unwrap_or(0))
    }

    /// Returns the messages that were taken more than once: each time but the first.
    pub fn taken_again(&self) -> Vec<Again> {
        self.state(|state| state.again.clone())
    }

    /// Has the token expire at this moment, in seconds; 0 for never.
    pub fn set_token_expires_at(&self, seconds: u64) {
        self.shared.state.lock().unwrap().token_expires_at = Some(seconds);
    }

    /// Gives messages ids from now on that are as long as the channel's.
    pub fn give_long_ids(&self) {
        self.shared.state.lock().unwrap().has_long_ids = true;
    }

    /// Sets the templates of one account, in place of those that all have.
    pub fn set_templates_of(&self, account: &str, templates: Vec<Value>) {
        self.shared.state.lock().unwrap().templates_of.insert(account.to_owned(), templates);
    }

    /// Sets the account's templates, in the form of [`template`].
    pub fn set_templates(&self, templates: Vec<Value>) {
        self.state(|state| state.templates = templates);
    }

    /// Sets the answer to every question about a number, from now on. An `error` refuses all fields
    /// but the id, and `no_such_field` refuses the one that it names.
    pub fn set_number(&self, number: Value) {
        self.state(|state| state.number = Some(number));
    }

    /// Returns the number of questions about the state of a number.
    pub fn number_calls(&self) -> u32 {
        self.state(|state| state.number_calls)
    }

    /// Sets the number of apps that receive the account's callbacks from now on.
    pub fn set_subscribed(&self, apps: usize) {
        self.state(|state| state.unsubscribed = apps == 0);
    }

    /// Returns the number of calls that asked for a page of templates.
    pub fn template_calls(&self) -> u32 {
        self.state(|state| state.template_calls)
    }

    /// Reports on messages that are taken from now on.
    pub fn call_back(&self, callbacks: Option<Callbacks>) {
        self.state(|state| state.callbacks = callbacks);
    }

    /// Returns the HTTP statuses of the answers to the callbacks, in that order; 0 is no answer.
    pub fn callback_answers(&self) -> Vec<u16> {
        self.state(|state| state.callback_answers.clone())
    }

    fn state<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.shared.state.lock().unwrap())
    }
}
