//! Token buckets: of the number, and of each recipient.

use std::collections::HashMap;
use std::sync::Mutex;

use postrider_actors::clock::Stopwatch;

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
    number: Option<(Limit, Bucket)>,
    pairs: Option<(Limit, HashMap<String, Bucket>)>,
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
        let now = self.since.elapsed().as_secs_f64();
        self.state.lock().unwrap().number = limit.map(|limit| (limit, limit.full(now)));
    }

    pub(super) fn limit_pairs(&self, limit: Option<Limit>) {
        self.state.lock().unwrap().pairs = limit.map(|limit| (limit, HashMap::new()));
    }

    /// The error code for one message too many.
    pub(super) fn refuse(&self, to: &str) -> Option<u32> {
        let now = self.since.elapsed().as_secs_f64();
        let State { number, pairs } = &mut *self.state.lock().unwrap();
        if let Some((limit, buckets)) = pairs {
            let bucket = buckets.entry(to.to_owned()).or_insert_with(|| limit.full(now));
            if !limit.take(bucket, now) {
                return Some(131_056);
            }
        }
        let (limit, bucket) = number.as_mut()?;
        (!limit.take(bucket, now)).then_some(130_429)
    }
}
