//! A bucket in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use super::{Coordination, CoordinationError, KeyValue};
use crate::bucket::Bucket;
use crate::clock::SteadyClock;

/// A bucket in memory, which several nodes of one process may share.
#[derive(Debug, Clone)]
pub struct FakeCoordination {
    bucket: Arc<Mutex<Bucket<Bytes>>>,
    clock: Arc<dyn SteadyClock>,
    made_at: u64,
}

impl FakeCoordination {
    /// Creates an empty bucket whose keys expire by this clock.
    #[must_use]
    pub fn new(clock: Arc<dyn SteadyClock>) -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let made_at = MADE.fetch_add(1, Ordering::Relaxed);
        Self { bucket: Arc::default(), clock, made_at }
    }
}

impl Coordination for FakeCoordination {
    fn write(
        &self,
        key: &str,
        value: Bytes,
        expected: u64,
        ttl_seconds: Option<u64>,
    ) -> Result<Option<u64>, CoordinationError> {
        let (now, ttl_ms) = (self.clock.now_ms(), ttl_seconds.map(|ttl| ttl * 1_000));
        Ok(self.bucket.lock().write(now, key, value, expected, ttl_ms))
    }

    fn read(&self, key: &str) -> Result<Option<KeyValue>, CoordinationError> {
        let bucket = self.bucket.lock();
        let kept = bucket.read(self.clock.now_ms(), key);
        Ok(kept.map(|kept| KeyValue { revision: kept.revision, value: kept.value.clone() }))
    }

    fn keys(&self, prefix: &str) -> Result<BTreeMap<String, KeyValue>, CoordinationError> {
        let bucket = self.bucket.lock();
        let keys = bucket.keys(self.clock.now_ms(), prefix).map(|(key, kept)| {
            let kept = KeyValue { revision: kept.revision, value: kept.value.clone() };
            (key.to_owned(), kept)
        });
        Ok(keys.collect())
    }

    fn made_at(&self) -> Result<u64, CoordinationError> {
        Ok(self.made_at)
    }
}
