//! The token buckets of client addresses: one for each IPv4 address and each IPv6 /64 network.

use std::net::IpAddr;
use std::time::Duration;

use dashmap::DashMap;

use postrider_domain::Timestamp;
use postrider_runtime::clock::Clock;
use postrider_runtime::shared_bucket::{SharedBucket, nanos};

use super::saved_buckets::{OF_ADDRESS, SavedBuckets};
use super::{Admission, MINUTE};

/// The maximum number of addresses that are distinguished at once. Beyond it, with none to remove,
/// newcomers share one bucket.
const ADDRESSES_MAX: usize = 100_000;

/// The buckets of client addresses.
pub(super) struct Addresses {
    /// The number of requests in a minute; 0 is no limit.
    limit: u32,
    buckets: DashMap<[u8; 16], SharedBucket>,
}

/// The bucket that newcomers share when there are too many. It is no client's address.
const EVERYBODY: [u8; 16] = [0xff; 16];

impl Addresses {
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
        let mut name = name(address);
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
        let name = name(address);
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

#[cfg(test)]
mod tests {
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
    fn a_client_is_limited_and_forgotten_when_its_bucket_is_full() {
        let clock = Clock::manual(Timestamp::from_millis(1_000_000));
        let addresses = Addresses::new(2);
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
