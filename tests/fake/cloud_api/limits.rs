//! Limits: token buckets of each number and recipient, and each account's recipients of a day.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use postrider_actors::clock::Stopwatch;

use super::FakeCloudApi;

/// A token bucket, full at first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    pub per_second: f64,
    pub burst: f64,
}

struct Bucket {
    tokens: f64,
    at: f64,
}

#[derive(Default)]
struct State {
    /// Each number has a bucket of its own.
    numbers: Option<(Limit, HashMap<String, Bucket>)>,
    pairs: Option<(Limit, HashMap<String, Bucket>)>,
    /// The accounts of numbers; all others are of one.
    accounts: HashMap<String, String>,
    /// The maximum number of recipients a day, and today's recipients of each account.
    recipients: Option<(usize, HashMap<String, HashSet<String>>)>,
    refused: u32,
}

pub(super) struct Buckets {
    since: Stopwatch,
    state: Mutex<State>,
}

impl Default for Buckets {
    fn default() -> Self {
        Self { since: Stopwatch::start(), state: Mutex::default() }
    }
}

impl Limit {
    fn full(self, now: f64) -> Bucket {
        Bucket { tokens: self.burst, at: now }
    }

    fn take(self, bucket: &mut Bucket, now: f64) -> bool {
        let filled = bucket.tokens + (now - bucket.at) * self.per_second;
        *bucket = Bucket { tokens: filled.min(self.burst), at: now };
        let may = bucket.tokens >= 1.0;
        if may {
            bucket.tokens -= 1.0;
        }
        may
    }
}

impl Buckets {
    pub(super) fn limit_number(&self, limit: Option<Limit>) {
        self.state.lock().unwrap().numbers = limit.map(|limit| (limit, HashMap::new()));
    }

    pub(super) fn limit_pairs(&self, limit: Option<Limit>) {
        self.state.lock().unwrap().pairs = limit.map(|limit| (limit, HashMap::new()));
    }

    pub(super) fn limit_recipients(&self, limit: Option<usize>) {
        self.state.lock().unwrap().recipients = limit.map(|limit| (limit, HashMap::new()));
    }

    pub(super) fn begin_day(&self) {
        if let Some((_, today)) = &mut self.state.lock().unwrap().recipients {
            today.clear();
        }
    }

    /// Returns the number of templates that were refused for the limit of recipients.
    pub(super) fn refused_recipients(&self) -> u32 {
        self.state.lock().unwrap().refused
    }

    /// Returns the error code for a template through a number to one recipient too many.
    pub(super) fn refuse_recipient(&self, number: &str, to: &str) -> Option<u32> {
        let state = &mut *self.state.lock().unwrap();
        let account = state.accounts.get(number).cloned().unwrap_or_default();
        let (limit, today) = state.recipients.as_mut()?;
        let today = today.entry(account).or_default();
        if today.contains(to) || today.len() < *limit {
            today.insert(to.to_owned());
            return None;
        }
        state.refused += 1;
        Some(131_048)
    }

    /// Returns the error code for one message too many through a number.
    pub(super) fn refuse(&self, through: &str, to: &str) -> Option<u32> {
        let now = self.since.elapsed().as_secs_f64();
        let State { numbers, pairs, .. } = &mut *self.state.lock().unwrap();
        if let Some((limit, buckets)) = pairs {
            let bucket = buckets.entry(to.to_owned()).or_insert_with(|| limit.full(now));
            if !limit.take(bucket, now) {
                return Some(131_056);
            }
        }
        let (limit, buckets) = numbers.as_mut()?;
        let bucket = buckets.entry(through.to_owned()).or_insert_with(|| limit.full(now));
        (!limit.take(bucket, now)).then_some(130_429)
    }
}

impl FakeCloudApi {
    /// Sets the account of a number. Each account has its own recipients of a day.
    pub fn set_account(&self, phone_number_id: &str, account: &str) {
        let accounts = &mut self.shared.buckets.state.lock().unwrap().accounts;
        accounts.insert(phone_number_id.to_owned(), account.to_owned());
    }

    /// Answers 130429 to messages of a number that exceed this rate.
    pub fn limit_number(&self, limit: Option<Limit>) {
        self.shared.buckets.limit_number(limit);
    }

    /// Answers 131056 to messages to one recipient that exceed this rate.
    pub fn limit_pairs(&self, limit: Option<Limit>) {
        self.shared.buckets.limit_pairs(limit);
    }

    /// Answers 131048 to templates to more than so many recipients a day.
    pub fn limit_recipients(&self, limit: Option<usize>) {
        self.shared.buckets.limit_recipients(limit);
    }

    /// Starts a day: its budget of recipients is whole again.
    pub fn begin_day(&self) {
        self.shared.buckets.begin_day();
    }

    /// Returns the number of messages that were refused for the limit of recipients.
    pub fn refused_recipients(&self) -> u32 {
        self.shared.buckets.refused_recipients()
    }
}
