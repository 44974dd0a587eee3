//! The token buckets of API keys and client addresses, in memory and in the store.
//!
//! A key has one for an hour and one for a minute. An IPv4 address has one, and so has each IPv6
//! /64 network. The used ones are saved, because a restart must not refill them.

use std::net::IpAddr;
use std::time::Duration;

use dashmap::DashMap;
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use postrider_domain::{KeyId, Limits, Timestamp};
use postrider_runtime::clock::Clock;
use postrider_runtime::shared_bucket::{BucketState, SharedBucket, nanos};
use postrider_store::{Change, Direction, StoreError, Table, View};

use super::{Admission, MINUTE};

const HOUR: Duration = Duration::from_secs(3600);
/// The windows of a key's buckets.
pub(super) const WINDOWS: [Duration; 2] = [HOUR, MINUTE];
/// The maximum number of addresses that are distinguished at once. Beyond it, with none to remove,
/// newcomers share one bucket.
const ADDRESSES_MAX: usize = 100_000;
/// The bucket that newcomers share when there are too many. It is no client's address.
const EVERYBODY: [u8; 16] = [0xff; 16];
/// The table of the buckets.
const BUCKETS: Table = Table::Buckets;
/// The first byte of a key's bucket.
const OF_KEY: u8 = b'k';
/// The first byte of an address's bucket.
const OF_ADDRESS: u8 = b'a';

/// The buckets of one key. A limit of 0 is off and has no bucket.
pub(super) struct KeyBuckets(Vec<SharedBucket>);

impl KeyBuckets {
    /// Creates the buckets for the limits in force. `full_at_ns` returns the time at which the
    /// bucket of a window of so many seconds is full, if it was used before.
    pub(super) fn new(
        limits: Limits,
        full_at_ns: impl Fn(u32) -> Option<u64>,
        clock: &Clock,
    ) -> Self {
        let sizes =
            [(limits.key_requests_per_hour, HOUR), (limits.key_requests_per_minute, MINUTE)];
        let bucket = |(limit, window): (u32, Duration)| {
            SharedBucket::new(limit, window, full_at_ns(window.as_secs() as u32), clock)
        };
        Self(sizes.into_iter().filter_map(bucket).collect())
    }

    /// Takes one request from every bucket, or from none of them if one is empty.
    pub(super) fn admit(&self, clock: &Clock, now: Timestamp) -> Admission {
        // All buckets are read before one is taken from. Two requests that race for the last token
        // may both pass here. The bucket itself then refuses one of them.
        let wait = self.0.iter().filter_map(|bucket| bucket.wait(now)).max();
        let take = || self.0.iter().filter_map(|bucket| bucket.take(clock).err()).max();
        let refused = wait.or_else(take);
        // A bucket takes by the clock, which is later than `now`: at `now` one more token would
        // seem to be missing.
        Admission { refused, bucket: self.least(clock.now()) }
    }

    /// Returns the time at which the bucket of this window is full, in nanoseconds.
    pub(super) fn full_at_ns(&self, window_s: u32) -> Option<u64> {
        self.0.iter().find(|it| it.window_s() == window_s).map(SharedBucket::full_at_ns)
    }

    /// Returns the buckets.
    pub(super) fn iter(&self) -> impl Iterator<Item = &SharedBucket> {
        self.0.iter()
    }

    /// Returns the bucket with the least share left.
    fn least(&self, now: Timestamp) -> Option<BucketState> {
        let share = |state: &BucketState| {
            // Parts in 2³², exact enough to compare.
            (u64::from(state.remaining) << 32) / u64::from(state.limit)
        };
        self.0.iter().map(|bucket| bucket.state(now)).min_by_key(share)
    }
}

/// The buckets of client addresses.
pub(super) struct AddressBuckets {
    /// The number of requests in a minute; 0 is no limit.
    limit: u32,
    buckets: DashMap<[u8; 16], SharedBucket>,
}

impl AddressBuckets {
    pub(super) fn new(limit: u32) -> Self {
        Self { limit, buckets: DashMap::new() }
    }

    /// Restores the saved buckets.
    pub(super) fn restore(&self, saved: &SavedBuckets, clock: &Clock) {
        saved.each(|name, full_at_ns| {
            if let Some((&OF_ADDRESS, address)) = name.split_first()
                && let Ok(address) = address.try_into()
                && let Some(bucket) = SharedBucket::new(self.limit, MINUTE, Some(full_at_ns), clock)
            {
                self.buckets.insert(address, bucket);
            }
        });
    }

    pub(super) fn admit(&self, address: IpAddr, clock: &Clock) -> Admission {
        if self.limit == 0 {
            return Admission { refused: None, bucket: None };
        }
        let mut name = address_bucket_name(address);
        if self.buckets.len() >= ADDRESSES_MAX && !self.buckets.contains_key(&name) {
            name = EVERYBODY;
        }
        if !self.buckets.contains_key(&name)
            && let Some(bucket) = SharedBucket::new(self.limit, MINUTE, None, clock)
        {
            // A bucket that was added meanwhile stays.
            self.buckets.entry(name).or_insert(bucket);
        }
        match self.buckets.get(&name) {
            // The full bucket was removed just now; a new one would be full too.
            None => Admission { refused: None, bucket: None },
            Some(bucket) => {
                let refused = bucket.take(clock).err();
                Admission { refused, bucket: Some(bucket.state(clock.now())) }
            }
        }
    }

    /// Returns how long an address has to wait until one more request would be admitted.
    pub(super) fn wait(&self, address: IpAddr, clock: &Clock) -> Option<Duration> {
        let name = address_bucket_name(address);
        let bucket = self.buckets.get(&name).or_else(|| match self.buckets.len() {
            ADDRESSES_MAX.. => self.buckets.get(&EVERYBODY),
            _ => None,
        });
        bucket.and_then(|bucket| bucket.wait(clock.now()))
    }

    /// Removes the full buckets and lists the others.
    pub(super) fn collect(&self, all: &mut Vec<(Vec<u8>, u64)>, now: Timestamp) {
        let now_ns = nanos(now);
        self.buckets.retain(|address, bucket| {
            let full_at_ns = bucket.full_at_ns();
            all.push(([&[OF_ADDRESS], address.as_slice()].concat(), full_at_ns));
            full_at_ns > now_ns
        });
    }
}

/// Returns the name of a bucket: an IPv4 address, or the first 64 bits of an IPv6 address.
fn address_bucket_name(address: IpAddr) -> [u8; 16] {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => {
            let mut octets = address.octets();
            octets[8..].fill(0);
            octets
        }
    }
}

/// The buckets in the store: the name, and the time at which each is full.
pub(super) struct SavedBuckets(Mutex<HashMap<Vec<u8>, u64>>);

impl SavedBuckets {
    pub(super) fn load(store: &dyn View) -> Result<Self, StoreError> {
        let mut saved = HashMap::new();
        store.scan(BUCKETS, &[], None, Direction::Forward, &mut |name, value| {
            if let Ok(full_at_ns) = value.try_into() {
                saved.insert(name.to_vec(), u64::from_be_bytes(full_at_ns));
            }
            std::ops::ControlFlow::Continue(())
        })?;
        Ok(Self(Mutex::new(saved)))
    }

    /// Visits every name, and the time at which its bucket is full.
    pub(super) fn each(&self, mut visit: impl FnMut(&[u8], u64)) {
        self.0.lock().iter().for_each(|(name, full_at_ns)| visit(name, *full_at_ns));
    }

    /// Returns the names of the buckets of keys that are not among these.
    pub(super) fn keys_other_than(&self, known: &HashSet<KeyId>) -> Vec<Vec<u8>> {
        let is_other = |name: &&Vec<u8>| {
            let Some((&OF_KEY, rest)) = name.split_first() else { return false };
            rest.first_chunk().is_none_or(|id| !known.contains(&KeyId::from_bytes(*id)))
        };
        self.0.lock().keys().filter(is_other).cloned().collect()
    }

    /// Returns the saved time at which a key's bucket is full.
    pub(super) fn key(&self, key: KeyId, window_s: u32) -> Option<u64> {
        self.0.lock().get(&key_bucket_name(key, window_s)).copied()
    }

    /// Returns the changes after which the store holds `buckets`. They write changed ones and
    /// delete full ones.
    pub(super) fn changes(&self, buckets: Vec<(Vec<u8>, u64)>, now: Timestamp) -> Vec<Change> {
        let now_ns = nanos(now);
        let mut saved = self.0.lock();
        let mut changes = Vec::new();
        for (name, full_at_ns) in buckets {
            let before = saved.get(&name).copied();
            if full_at_ns <= now_ns {
                if before.is_some() {
                    saved.remove(&name);
                    changes.push(Change::delete(BUCKETS, name));
                }
            } else if before != Some(full_at_ns) {
                changes.push(put_bucket(&name, full_at_ns));
                saved.insert(name, full_at_ns);
            }
        }
        changes
    }

    /// Discards the record of saved buckets, so that the next time writes all.
    pub(super) fn forget_noted(&self) {
        self.0.lock().values_mut().for_each(|full_at_ns| *full_at_ns = 0);
    }
}

/// Returns the change that saves a bucket.
pub(super) fn put_bucket(name: &[u8], full_at_ns: u64) -> Change {
    Change::put(BUCKETS, name, full_at_ns.to_be_bytes())
}

/// Returns the name of a key's bucket in the store.
pub(super) fn key_bucket_name(key: KeyId, window_s: u32) -> Vec<u8> {
    [&[OF_KEY], key.as_bytes().as_slice(), &window_s.to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_written_and_full_ones_are_deleted() {
        let saved = SavedBuckets(Mutex::default());
        let at = |seconds: u64| Timestamp::from_millis(seconds * 1000);
        let bucket = |full_at: u64| vec![(b"k1".to_vec(), nanos(at(full_at)))];
        assert_eq!(saved.changes(bucket(10), at(5)).len(), 1);
        assert_eq!(saved.changes(bucket(10), at(6)), []);
        saved.forget_noted();
        assert_eq!(saved.changes(bucket(10), at(7)).len(), 1);
        let deleted = saved.changes(bucket(10), at(10));
        assert_eq!(deleted, [Change::delete(BUCKETS, b"k1".to_vec())]);
        assert_eq!(saved.changes(bucket(10), at(11)), []);
    }

    #[test]
    fn a_request_that_was_looked_at_before_it_was_admitted_takes_one() {
        let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
        let limits = Limits { key_requests_per_hour: 3, ..Limits::default() };
        let buckets = KeyBuckets::new(limits, |_| None, &clock);
        for remaining in [2, 1, 0] {
            let now = clock.now();
            clock.advance(Duration::from_millis(7));
            let admission = buckets.admit(&clock, now);
            assert_eq!(admission.refused, None);
            assert_eq!(admission.bucket.map(|it| it.remaining), Some(remaining));
        }
    }

    #[test]
    fn ipv6_neighbours_share_a_bucket_and_mapped_ipv4_is_ipv4() {
        let name = |text: &str| address_bucket_name(text.parse().unwrap());
        assert_eq!(name("2001:db8::1"), name("2001:db8::ffff:1"));
        assert_ne!(name("2001:db8:0:1::1"), name("2001:db8::1"));
        assert_eq!(name("::ffff:192.0.2.1"), name("192.0.2.1"));
        assert_ne!(name("192.0.2.2"), name("192.0.2.1"));
    }

    #[test]
    fn a_client_is_limited_and_forgotten_when_its_bucket_is_full() {
        let clock = Clock::manual(Timestamp::from_millis(1_000_000));
        let addresses = AddressBuckets::new(2);
        let address = "192.0.2.7".parse().unwrap();
        for _ in 0..2 {
            assert_eq!(addresses.wait(address, &clock), None);
            assert_eq!(addresses.admit(address, &clock).refused, None);
        }
        let wait = Some(Duration::from_secs(30));
        // The query takes nothing.
        assert_eq!([addresses.wait(address, &clock), addresses.wait(address, &clock)], [wait; 2]);
        assert_eq!(addresses.wait("192.0.2.8".parse().unwrap(), &clock), None);
        assert_eq!(addresses.admit(address, &clock).refused, wait);
        addresses.collect(&mut Vec::new(), clock.now());
        assert_eq!(addresses.buckets.len(), 1);
        clock.advance(Duration::from_secs(60));
        addresses.collect(&mut Vec::new(), clock.now());
        assert_eq!(addresses.buckets.len(), 0);
    }
}
