//! The buckets of client addresses, and how all buckets are saved.

use std::net::IpAddr;

use dashmap::DashMap;
use hashbrown::HashMap;
use parking_lot::Mutex;

use postrider_domain::{KeyId, Timestamp};
use postrider_runtime::clock::Clock;
use postrider_store::{Change, Direction, StoreError, View};

use super::{Admission, BUCKETS, MINUTE, put};
use postrider_runtime::shared_bucket::{SharedBucket, nanos};

/// Addresses that are told apart at once. Beyond it, with none to forget, newcomers share one
/// bucket.
const ADDRESSES_MAX: usize = 100_000;

const OF_KEY: u8 = b'k';
const OF_ADDRESS: u8 = b'a';

/// The buckets of client addresses.
pub(super) struct Addresses {
    /// Requests in a minute; 0 is no limit.
    limit: u32,
    buckets: DashMap<[u8; 16], SharedBucket>,
}

/// The bucket that newcomers share when there are too many: no client's address.
const EVERYBODY: [u8; 16] = [0xff; 16];

impl Addresses {
    pub(super) fn new(limit: u32) -> Self {
        Self { limit, buckets: DashMap::new() }
    }

    /// Takes up the buckets as they were saved.
    pub(super) fn restore(&self, saved: &Saved, clock: &Clock) {
        for (name, full_at_ns) in saved.0.lock().iter() {
            if let Some((&OF_ADDRESS, address)) = name.split_first()
                && let Ok(address) = address.try_into()
                && let Some(bucket) =
                    SharedBucket::new(self.limit, MINUTE, Some(*full_at_ns), clock)
            {
                self.buckets.insert(address, bucket);
            }
        }
    }

    pub(super) fn admit(&self, address: IpAddr, clock: &Clock) -> Admission {
        if self.limit == 0 {
            return Admission { refused: None, bucket: None };
        }
        let mut name = name(address);
        if self.buckets.len() >= ADDRESSES_MAX && !self.buckets.contains_key(&name) {
            name = EVERYBODY;
        }
        if !self.buckets.contains_key(&name)
            && let Some(bucket) = SharedBucket::new(self.limit, MINUTE, None, clock)
        {
            // One that came meanwhile stays.
            self.buckets.entry(name).or_insert(bucket);
        }
        match self.buckets.get(&name) {
            // Forgotten this moment because it was full: that is what a new one would be.
            None => Admission { refused: None, bucket: None },
            Some(bucket) => {
                let refused = bucket.take(clock).err();
                Admission { refused, bucket: Some(bucket.state(clock.now())) }
            }
        }
    }

    /// Forgets the full ones and lists the others.
    pub(super) fn collect(&self, all: &mut Vec<(Vec<u8>, u64)>, now: Timestamp) {
        let now_ns = nanos(now);
        self.buckets.retain(|address, bucket| {
            let full_at_ns = bucket.full_at_ns();
            all.push(([&[OF_ADDRESS], address.as_slice()].concat(), full_at_ns));
            full_at_ns > now_ns
        });
    }
}

/// An IPv4 address as it is; of an IPv6 address the first 64 bits.
fn name(address: IpAddr) -> [u8; 16] {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => {
            let mut octets = address.octets();
            octets[8..].fill(0);
            octets
        }
    }
}

/// What a key's bucket is called in the store.
pub(super) fn key_name(key: KeyId, window_s: u32) -> Vec<u8> {
    [&[OF_KEY], key.as_bytes().as_slice(), &window_s.to_be_bytes()].concat()
}

/// What the store holds of the buckets: name, and the moment at which it is full.
pub(super) struct Saved(Mutex<HashMap<Vec<u8>, u64>>);

impl Saved {
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

    /// Every name, and the moment at which its bucket is full.
    pub(super) fn each(&self, mut visit: impl FnMut(&[u8], u64)) {
        self.0.lock().iter().for_each(|(name, full_at_ns)| visit(name, *full_at_ns));
    }

    /// When a key's bucket is full, as saved.
    pub(super) fn key(&self, key: KeyId, window_s: u32) -> Option<u64> {
        self.0.lock().get(&key_name(key, window_s)).copied()
    }

    /// What has to be written for the store to hold `buckets`: those that changed; full ones are
    /// deleted.
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
                changes.push(put(&name, full_at_ns));
                saved.insert(name, full_at_ns);
            }
        }
        changes
    }

    /// What was noted as saved is not: everything is written next time.
    pub(super) fn forget_noted(&self) {
        self.0.lock().values_mut().for_each(|full_at_ns| *full_at_ns = 0);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn ipv6_neighbours_share_a_bucket_and_mapped_ipv4_is_ipv4() {
        let name = |text: &str| name(text.parse().unwrap());
        assert_eq!(name("2001:db8::1"), name("2001:db8::ffff:1"));
        assert_ne!(name("2001:db8:0:1::1"), name("2001:db8::1"));
        assert_eq!(name("::ffff:192.0.2.1"), name("192.0.2.1"));
        assert_ne!(name("192.0.2.2"), name("192.0.2.1"));
    }

    #[test]
    fn only_what_changed_is_written_and_full_ones_are_deleted() {
        let saved = Saved(Mutex::default());
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
    fn a_client_is_limited_and_forgotten_when_its_bucket_is_full() {
        let clock = Clock::manual(Timestamp::from_millis(1_000_000));
        let addresses = Addresses::new(2);
        let address = "192.0.2.7".parse().unwrap();
        assert_eq!(addresses.admit(address, &clock).refused, None);
        assert_eq!(addresses.admit(address, &clock).refused, None);
        assert_eq!(addresses.admit(address, &clock).refused, Some(Duration::from_secs(30)));
        addresses.collect(&mut Vec::new(), clock.now());
        assert_eq!(addresses.buckets.len(), 1);
        clock.advance(Duration::from_secs(60));
        addresses.collect(&mut Vec::new(), clock.now());
        assert_eq!(addresses.buckets.len(), 0);
    }
}
