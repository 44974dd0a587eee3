//! Gives connections their places: bounded in all and for each address, with a reserve.
//!
//! A connection that gets no ordinary place gets one of the reserve, where only operators are
//! served. When the reserve is full, its oldest connection that has not sent a request gives its
//! place up, so that connections which send nothing keep nobody out.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use tokio::sync::oneshot;

use crate::http::{counted, is_within};

/// Bounds of connections.
#[derive(Debug, Clone)]
pub struct PlaceLimits {
    /// Most ordinary connections at a time.
    pub max: usize,
    /// Most of one client address, where an IPv6 address counts with its /64; 0 is no bound. It is
    /// never more than half of `max`, so that one address locks nobody out.
    pub per_address_max: usize,
    /// Connections beyond these bounds that may ask for what operators need.
    pub reserved: usize,
    /// Subnets of proxies, whose connections are of many clients and have no bound of their own.
    pub trusted_proxies: Vec<IpNet>,
}

impl PlaceLimits {
    /// The bound of one address.
    fn of_address(&self, address: IpAddr) -> Option<usize> {
        let has_bound = self.per_address_max > 0 && !is_within(address, &self.trusted_proxies);
        has_bound.then(|| self.per_address_max.min(self.max.div_ceil(2)))
    }
}

/// The places of one listener.
#[derive(Debug)]
pub(crate) struct Places {
    limits: PlaceLimits,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    ordinary: usize,
    by_address: HashMap<IpAddr, usize>,
    /// The oldest is in front.
    reserve: VecDeque<Reserved>,
    /// How many places of the reserve were ever given.
    given: u64,
}

#[derive(Debug)]
struct Reserved {
    number: u64,
    has_request: bool,
    /// Dropping it asks the connection to end.
    _held: oneshot::Sender<()>,
}

/// The place of a connection, until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Ordinary(IpAddr),
    Reserved(u64),
}

/// Resolves when a connection has to give its place up.
pub(crate) type Displaced = oneshot::Receiver<()>;

impl Places {
    pub(crate) fn new(limits: PlaceLimits) -> Arc<Self> {
        Arc::new(Self { limits, taken: Mutex::default() })
    }

    /// Most connections at a time, those that are giving their places up included.
    pub(crate) fn most(limits: &PlaceLimits) -> usize {
        limits.max + 2 * limits.reserved
    }

    /// Gives a connection of this address a place. One of the reserve may be displaced.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> (Place, Option<Displaced>) {
        let bound = self.limits.of_address(address);
        let address = counted(address);
        let mut taken = self.taken();
        let held = taken.by_address.get(&address).copied().unwrap_or_default();
        if taken.ordinary < self.limits.max && bound.is_none_or(|bound| held < bound) {
            taken.ordinary += 1;
            taken.by_address.insert(address, held + 1);
            return (Place { places: Arc::clone(self), kind: Kind::Ordinary(address) }, None);
        }
        if taken.reserve.len() >= self.limits.reserved {
            let silent = taken.reserve.iter().position(|it| !it.has_request);
            taken.reserve.remove(silent.unwrap_or_default());
        }
        taken.given += 1;
        let number = taken.given;
        let (held, displaced) = oneshot::channel();
        taken.reserve.push_back(Reserved { number, has_request: false, _held: held });
        (Place { places: Arc::clone(self), kind: Kind::Reserved(number) }, Some(displaced))
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        // Nothing panics while it is held, so it is whole.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Whether it is one of the reserve.
    pub(crate) const fn is_reserved(&self) -> bool {
        matches!(self.kind, Kind::Reserved(_))
    }

    /// Notes that the connection has sent a request, and is the last to be displaced.
    pub(crate) fn has_request(&self) {
        if let Kind::Reserved(number) = self.kind {
            let mut taken = self.places.taken();
            let mine = taken.reserve.iter_mut().find(|it| it.number == number);
            if let Some(mine) = mine {
                mine.has_request = true;
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        match self.kind {
            Kind::Ordinary(address) => {
                taken.ordinary = taken.ordinary.saturating_sub(1);
                if let Some(held) = taken.by_address.get_mut(&address) {
                    *held = held.saturating_sub(1);
                    if *held == 0 {
                        taken.by_address.remove(&address);
                    }
                }
            }
            Kind::Reserved(number) => taken.reserve.retain(|it| it.number != number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(max: usize, per_address_max: usize, reserved: usize) -> Arc<Places> {
        let trusted_proxies = vec!["10.0.0.0/8".parse().unwrap()];
        Places::new(PlaceLimits { max, per_address_max, reserved, trusted_proxies })
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_gets_its_share_and_others_theirs() {
        let places = places(4, 3, 2);
        let take = |text| places.take(address(text)).0;
        let held = [take("192.0.2.1"), take("192.0.2.1")];
        assert!(!held[0].is_reserved() && !held[1].is_reserved());
        assert!(take("192.0.2.1").is_reserved(), "half of all at the most");
        let other = take("192.0.2.2");
        assert!(!other.is_reserved());
        drop(held);
        assert!(!take("192.0.2.1").is_reserved(), "they are given back");
        let neighbours = [take("2001:db8::1"), take("2001:db8::2"), take("2001:db8::3")];
        assert_eq!(neighbours.each_ref().map(Place::is_reserved), [false, false, true]);
    }

    #[test]
    fn a_trusted_proxy_and_no_bound_may_take_all() {
        for (per_address_max, from) in [(1, "10.0.0.1"), (0, "192.0.2.1")] {
            let places = places(3, per_address_max, 2);
            let held: Vec<_> = (0..3).map(|_| places.take(address(from)).0).collect();
            assert!(held.iter().all(|place| !place.is_reserved()));
            assert!(places.take(address(from)).0.is_reserved());
        }
    }

    #[test]
    fn the_oldest_without_a_request_is_displaced() {
        let places = places(1, 0, 2);
        let _ordinary = places.take(address("192.0.2.1"));
        let take = || {
            let (place, displaced) = places.take(address("192.0.2.1"));
            (place, displaced.unwrap())
        };
        let is_displaced = |displaced: &mut Displaced| {
            !matches!(displaced.try_recv(), Err(oneshot::error::TryRecvError::Empty))
        };
        let (mut first, mut second) = (take(), take());
        first.0.has_request();
        let mut third = take();
        assert!(!is_displaced(&mut first.1) && is_displaced(&mut second.1));
        third.0.has_request();
        // With a request each, the oldest goes.
        let mut fourth = take();
        assert!(is_displaced(&mut first.1) && !is_displaced(&mut third.1));
        // Whoever was displaced before takes nobody's place with it.
        drop((first, second));
        assert!(!is_displaced(&mut third.1) && !is_displaced(&mut fourth.1));
        assert_eq!(places.taken().reserve.len(), 2);
    }
}
