//! Pure: keys with revisions and times to live, as the bucket of the cluster has them.
//!
//! It owns the value of each key and the time at which the key expires, in memory. It promises that
//! a write succeeds only on the revision that it names. A key that has expired behaves as if it had
//! never existed.

use std::collections::BTreeMap;

/// One key's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept<V> {
    /// The number of the write that made the value; it rises over all keys.
    pub revision: u64,
    /// The value.
    pub value: V,
    expires: Option<u64>,
}

/// A bucket in memory. Its times are those of the server.
#[derive(Debug, Clone)]
pub struct Bucket<V> {
    keys: BTreeMap<String, Kept<V>>,
    revision: u64,
}

impl<V> Default for Bucket<V> {
    fn default() -> Self {
        Self { keys: BTreeMap::new(), revision: 0 }
    }
}

impl<V> Bucket<V> {
    /// Writes a key whose revision is `expected`, and returns its new revision.
    ///
    /// `expected` is 0 for a key that does not exist. Returns `None` if the key has another
    /// revision.
    pub fn write(
        &mut self,
        now: u64,
        key: &str,
        value: V,
        expected: u64,
        ttl_ms: Option<u64>,
    ) -> Option<u64> {
        let revision = self.read(now, key).map_or(0, |kept| kept.revision);
        if revision != expected {
            return None;
        }
        self.revision += 1;
        let expires = ttl_ms.map(|ttl| now + ttl);
        let kept = Kept { revision: self.revision, value, expires };
        self.keys.insert(key.to_owned(), kept);
        Some(self.revision)
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn read(&self, now: u64, key: &str) -> Option<&Kept<V>> {
        self.keys.get(key).filter(|kept| kept.expires.is_none_or(|at| now < at))
    }

    /// Returns the keys that begin with the prefix, with their values.
    pub fn keys<'a>(
        &'a self,
        now: u64,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Kept<V>)> {
        let from = self.keys.range(prefix.to_owned()..);
        let of_prefix = from.take_while(move |(key, _)| key.starts_with(prefix));
        of_prefix
            .filter(move |(_, kept)| kept.expires.is_none_or(|at| now < at))
            .map(|(key, kept)| (key.as_str(), kept))
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &str) {
        self.keys.remove(key);
    }
}
