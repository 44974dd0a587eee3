//! The parts that everything in a soak shares: clients of the server, the books, and the findings.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::Method;
use postrider_actors::clock::Clock;
use serde_json::{Value, json};

use super::api::{Api, Call};
use super::receiver::{ENDPOINTS, Receiver};
use super::served::Served;
use crate::Result;
use crate::cloud_api::FakeCloudApi;
use crate::measure::Phones;

/// The provider's id of the number, and the secret that signs callbacks.
pub(super) const PHONE_NUMBER_ID: &str = "106";
pub(super) const APP_SECRET: &str = "secret";
/// The template of single messages and broadcasts.
pub(super) const TEMPLATE: &str = "sale";
/// The workspace.
const WORKSPACE: &str = "/admin/v1/workspaces/soak";
/// The maximum number of findings that are stored with their words; more are counted.
const WORDS_MAX: usize = 50;

/// The shared state of a soak.
pub(super) struct World {
    /// A client with the workspace's key.
    pub(super) api: Api,
    /// A client without a key, like the provider.
    pub(super) provider: Api,
    pub(super) fake: FakeCloudApi,
    pub(super) receiver: Receiver,
    /// The path of the number's callbacks.
    pub(super) callback_path: String,
    pub(super) books: Mutex<Books>,
    /// The correct time, which the provider has.
    pub(super) clock: Clock,
    phones: Phones,
    keys: AtomicU64,
    ended: AtomicBool,
    found: Mutex<Found>,
}

/// The acknowledged data, for the audit at the end.
#[derive(Default)]
pub(super) struct Books {
    /// The requests for codes, and whether the right code was accepted.
    pub(super) codes: HashMap<String, bool>,
    /// The messages and their recipients.
    pub(super) messages: Vec<(String, String)>,
    /// The broadcasts and their recipients.
    pub(super) broadcasts: Vec<(String, Vec<String>)>,
    /// The contacts and their names; `None` for a deleted one.
    pub(super) contacts: Vec<(String, Option<String>)>,
    /// The number of messages that each customer wrote.
    pub(super) written: HashMap<String, usize>,
}

/// The counts, and the findings.
#[derive(Default)]
struct Found {
    counts: BTreeMap<&'static str, u64>,
    findings: u64,
    words: Vec<String>,
}

impl World {
    /// Makes a workspace with a number behind the fake, templates, a key and two endpoints.
    pub(super) async fn prepare(
        served: &Served,
        fake: FakeCloudApi,
        receiver: Receiver,
    ) -> Result<Self> {
        let admin = Api::new(served.address(), Some(served.secret("admin.token")?));
        let post =
            async |path: &str, body: Value| admin.fetch(&Call::of(Method::POST, path, &body)).await;
        post("/admin/v1/workspaces", json!({"id": "soak", "name": "Soak"})).await?;
        post(&format!("{WORKSPACE}/credits"), json!({"add": 1_000_000_000})).await?;
        let number = json!({
            "kind": "cloud_api", "phone": "+15550001111", "phone_number_id": PHONE_NUMBER_ID,
            "account_id": "107", "token": "token", "app_secret": APP_SECRET,
            "verify_token": "verify", "messages_per_second": 0,
        });
        let number = post(&format!("{WORKSPACE}/numbers"), number).await?;
        let templates = [
            ("otp_code", "authentication", "{{1}} is your verification code."),
            (TEMPLATE, "marketing", "Everything must go."),
        ];
        for (name, category, text) in templates {
            let components = json!([{"type": "BODY", "text": text}]);
            let template = json!({"name": name, "category": category, "components": components});
            post(&format!("{WORKSPACE}/templates"), template).await?;
        }
        let scopes = [
            "messaging:send",
            "contacts:read",
            "contacts:write",
            "webhooks:manage",
            "analytics:read",
        ];
        let key = json!({"name": "soak", "scopes": scopes});
        let key = post(&format!("{WORKSPACE}/keys"), key).await?;
        let text = |value: &Value| value.as_str().map(str::to_owned).ok_or("a text is missing");
        let api = Api::new(served.address(), Some(text(&key["key"])?));
        for path in ENDPOINTS {
            let endpoint = json!({"url": receiver.url(path)});
            api.fetch(&Call::of(Method::POST, "/v1/webhooks", &endpoint)).await?;
        }
        Ok(Self {
            api,
            provider: Api::new(served.address(), None),
            fake,
            receiver,
            callback_path: text(&number["callback_path"])?,
            books: Mutex::default(),
            clock: Clock::system(),
            phones: Phones::new(),
            keys: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            found: Mutex::default(),
        })
    }

    /// Returns an unused phone.
    pub(super) fn phone(&self) -> String {
        format!("+{}", self.phones.next())
    }

    /// Returns an unused idempotency key.
    pub(super) fn key(&self) -> String {
        format!("soak-{}", self.keys.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns whether the load must end.
    pub(super) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Ends the load.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Rests, unless the load must end.
    pub(super) async fn rest(&self, time: Duration) {
        if !self.is_ended() {
            tokio::time::sleep(time).await;
        }
    }

    /// Opens the books.
    pub(super) fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts something.
    pub(super) fn count(&self, what: &'static str, many: u64) {
        *self.found().counts.entry(what).or_default() += many;
    }

    /// Records a violation.
    pub(super) fn finding(&self, words: String) {
        eprintln!("  FOUND: {words}");
        let mut found = self.found();
        found.findings += 1;
        if found.words.len() < WORDS_MAX {
            found.words.push(words);
        }
    }

    /// Records a finding unless the condition is met.
    pub(super) fn expect(&self, is_so: bool, words: impl FnOnce() -> String) {
        if !is_so {
            self.finding(words());
        }
    }

    /// Returns the counts.
    pub(super) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.found().counts.clone()
    }

    /// Returns the number of findings, and the words of the first ones.
    pub(super) fn findings(&self) -> (u64, Vec<String>) {
        let found = self.found();
        (found.findings, found.words.clone())
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
