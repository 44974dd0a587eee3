//! The connections of one listener: their places, and the ways to drain and to cut them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::Future;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use ipnet::IpNet;
use tokio::sync::oneshot;

use crate::http::{counted, is_within};

const SERVING: u8 = 0;
const DRAINING: u8 = 1;
const CUT: u8 = 2;

/// The connections of a listener. Clones share them.
///
/// A connection is polled for each request. A poll reads one atomic number. The lock is taken when
/// a connection starts, when it ends and when all are woken.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connections(Arc<ConnectionRegistry>);

#[derive(Debug, Default)]
struct ConnectionRegistry {
    /// `SeqCst`: a connection registers and then reads the phase. A change writes the phase and
    /// then wakes all registered connections. One of the two must see what the other wrote.
    phase: AtomicU8,
    wakers: Mutex<Wakers>,
}

#[derive(Debug, Default)]
struct Wakers {
    by_number: HashMap<u64, Waker>,
    last: u64,
}

impl Connections {
    /// Asks all to finish their current request and then to close.
    pub(crate) fn drain(&self) {
        self.enter(DRAINING);
    }

    /// Ends all of them immediately.
    pub(crate) fn cut(&self) {
        self.enter(CUT);
    }

    fn enter(&self, phase: u8) {
        self.0.phase.fetch_max(phase, Ordering::SeqCst);
        self.0.wakers().by_number.values().for_each(Waker::wake_by_ref);
    }

    /// Runs a connection until it ends by itself, is [`cut`](Self::cut), or `displaced` resolves.
    pub(crate) async fn run<T>(
        &self,
        displaced: impl Future,
        connection: impl AsyncFnOnce(&Member) -> T,
    ) -> Option<T> {
        let member = Member { shared: Arc::clone(&self.0), registered: Mutex::default() };
        let mut connection = std::pin::pin!(connection(&member));
        let mut displaced = std::pin::pin!(displaced);
        std::future::poll_fn(|context| {
            member.register(context);
            if member.phase() == CUT || displaced.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            connection.as_mut().poll(context).map(Some)
        })
        .await
    }
}

impl ConnectionRegistry {
    fn wakers(&self) -> MutexGuard<'_, Wakers> {
        // No holder of the lock panics, so the value is intact.
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Member {
    shared: Arc<ConnectionRegistry>,
    /// Its number and its waker.
    registered: Mutex<Option<(u64, Waker)>>,
}

impl Member {
    /// Returns whether the connection has to finish.
    pub(crate) fn is_draining(&self) -> bool {
        self.phase() != SERVING
    }

    fn phase(&self) -> u8 {
        self.shared.phase.load(Ordering::SeqCst)
    }

    /// Registers the waker, so that a change of phase wakes the connection.
    fn register(&self, context: &Context<'_>) {
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        if registered.as_ref().is_some_and(|(_, waker)| waker.will_wake(context.waker())) {
            return;
        }
        let mut wakers = self.shared.wakers();
        let number = registered.as_ref().map_or(wakers.last + 1, |(number, _)| *number);
        wakers.last = wakers.last.max(number);
        wakers.by_number.insert(number, context.waker().clone());
        *registered = Some((number, context.waker().clone()));
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let registered = self.registered.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some((number, _)) = registered {
            self.shared.wakers().by_number.remove(number);
        }
    }
}

/// The bounds of connections.
#[derive(Debug, Clone)]
pub struct PlaceLimits {
    /// The maximum number of ordinary connections at a time.
    pub max: usize,
    /// The maximum number per client address, where an IPv6 address counts with its /64; 0 is no
    /// bound.
    ///
    /// It is never more than half of `max`, so that one address locks nobody out.
    pub per_address_max: usize,
    /// The number of connections beyond these bounds, for the requests of operators.
    pub reserved: usize,
    /// The subnets of proxies, whose connections are of many clients and have no bound of their
    /// own.
    pub trusted_proxies: Vec<IpNet>,
}

impl PlaceLimits {
    /// Returns the bound of one address.
    fn of_address(&self, address: IpAddr) -> Option<usize> {
        let has_bound = self.per_address_max > 0 && !is_within(address, &self.trusted_proxies);
        has_bound.then(|| self.per_address_max.min(self.max.div_ceil(2)))
    }
}

/// The places of one listener, bounded in total and for each address, with a reserve.
///
/// Idle connections keep nobody out: when no place is left, the oldest one without a whole request
/// head gives up its place. If there is none, a connection gets a place of the reserve, which
/// serves only operators.
#[derive(Debug)]
pub(crate) struct ConnectionPlaces {
    limits: PlaceLimits,
    taken: Mutex<TakenPlaces>,
}

#[derive(Debug, Default)]
struct TakenPlaces {
    ordinary: usize,
    by_address: HashMap<IpAddr, usize>,
    /// The ordinary places without a request so far, by number: the oldest first.
    silent: BTreeMap<u64, SilentPlace>,
    /// The oldest is in front.
    reserve: VecDeque<ReservedPlace>,
    /// The number of places that were ever given.
    given: u64,
}

#[derive(Debug)]
struct SilentPlace {
    address: IpAddr,
    /// Dropping it asks the connection to end.
    held: oneshot::Sender<()>,
}

#[derive(Debug)]
struct ReservedPlace {
    number: u64,
    has_request: bool,
    /// Dropping it asks the connection to end.
    _held: oneshot::Sender<()>,
}

/// The place of a connection, until this is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPlace {
    places: Arc<ConnectionPlaces>,
    kind: PlaceKind,
    number: u64,
    /// Set if the connection has sent a request.
    has_request: AtomicBool,
    /// The sender that holds an ordinary place after its first request.
    kept: OnceLock<oneshot::Sender<()>>,
}

#[derive(Debug, Clone, Copy)]
enum PlaceKind {
    Ordinary(IpAddr),
    InReserve,
}

/// Resolves when a connection has to give up its place.
pub(crate) type Displaced = oneshot::Receiver<()>;

impl ConnectionPlaces {
    pub(crate) fn new(limits: PlaceLimits) -> Arc<Self> {
        Arc::new(Self { limits, taken: Mutex::default() })
    }

    /// Returns the maximum number of connections at a time, including displaced ones.
    pub(crate) fn most(limits: &PlaceLimits) -> usize {
        limits.max + 2 * limits.reserved
    }

    /// Gives a connection of this address a place. Another connection may be displaced.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> (ConnectionPlace, Displaced) {
        let bound = self.limits.of_address(address);
        let address = counted(address);
        let mut taken = self.taken();
        taken.given += 1;
        let number = taken.given;
        let (held, displaced) = oneshot::channel();
        let kind = if taken.make_room(address, self.limits.max, bound) {
            taken.ordinary += 1;
            *taken.by_address.entry(address).or_default() += 1;
            taken.silent.insert(number, SilentPlace { address, held });
            PlaceKind::Ordinary(address)
        } else {
            if taken.reserve.len() >= self.limits.reserved {
                let silent = taken.reserve.iter().position(|it| !it.has_request);
                taken.reserve.remove(silent.unwrap_or_default());
            }
            taken.reserve.push_back(ReservedPlace { number, has_request: false, _held: held });
            PlaceKind::InReserve
        };
        let (has_request, kept) = (AtomicBool::new(false), OnceLock::new());
        (ConnectionPlace { places: Arc::clone(self), kind, number, has_request, kept }, displaced)
    }

    fn taken(&self) -> MutexGuard<'_, TakenPlaces> {
        // No holder of the lock panics, so the value is intact.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TakenPlaces {
    /// Makes room for an ordinary place of an address, by displacing another connection if need be.
    ///
    /// Returns whether there is room.
    fn make_room(&mut self, address: IpAddr, max: usize, bound: Option<usize>) -> bool {
        let held = self.by_address.get(&address).copied().unwrap_or_default();
        let is_own = bound.is_some_and(|bound| held >= bound);
        if !is_own && self.ordinary < max {
            return true;
        }
        // Beyond its own bound an address displaces no connection of another.
        let mut silent = self.silent.iter();
        let oldest = silent.find(|(_, silent)| !is_own || silent.address == address);
        let Some(number) = oldest.map(|(number, _)| *number) else { return false };
        // Its place no longer counts, though the connection takes a moment to end.
        self.silent.remove(&number).is_some_and(|silent| {
            self.give_back(silent.address);
            true
        })
    }

    fn give_back(&mut self, address: IpAddr) {
        self.ordinary = self.ordinary.saturating_sub(1);
        if let Some(held) = self.by_address.get_mut(&address) {
            *held = held.saturating_sub(1);
            if *held == 0 {
                self.by_address.remove(&address);
            }
        }
    }
}

impl ConnectionPlace {
    /// Returns whether the place is one of the reserve.
    pub(crate) const fn is_reserved(&self) -> bool {
        matches!(self.kind, PlaceKind::InReserve)
    }

    /// Records that the connection has sent a request.
    ///
    /// An ordinary one is no longer displaced, and one of the reserve only as the last.
    pub(crate) fn has_request(&self) {
        if self.has_request.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut taken = self.places.taken();
        match self.kind {
            PlaceKind::Ordinary(_) => {
                let silent = taken.silent.remove(&self.number);
                // Dropping it would end the connection. It is set once.
                if let Some(silent) = silent {
                    self.kept.set(silent.held).ok();
                }
            }
            PlaceKind::InReserve => {
                let mine = taken.reserve.iter_mut().find(|it| it.number == self.number);
                if let Some(mine) = mine {
                    mine.has_request = true;
                }
            }
        }
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        match self.kind {
            PlaceKind::Ordinary(address) => {
                // A displaced connection has already given its place back.
                let is_silent = taken.silent.remove(&self.number).is_some();
                if is_silent || self.kept.get().is_some() {
                    taken.give_back(address);
                }
            }
            PlaceKind::InReserve => taken.reserve.retain(|it| it.number != self.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};

    use super::*;

    fn places(max: usize, per_address_max: usize, reserved: usize) -> Arc<ConnectionPlaces> {
        let trusted_proxies = vec!["10.0.0.0/8".parse().unwrap()];
        ConnectionPlaces::new(PlaceLimits { max, per_address_max, reserved, trusted_proxies })
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Takes a place, and records that its connection has sent a request.
    fn take(places: &Arc<ConnectionPlaces>, from: &str) -> (ConnectionPlace, Displaced) {
        let (place, displaced) = places.take(address(from));
        place.has_request();
        (place, displaced)
    }

    fn is_displaced(displaced: &mut Displaced) -> bool {
        !matches!(displaced.try_recv(), Err(oneshot::error::TryRecvError::Empty))
    }

    #[test]
    fn an_address_gets_its_share_and_others_theirs() {
        let places = places(4, 3, 2);
        let take = |text| take(&places, text).0;
        let held = [take("192.0.2.1"), take("192.0.2.1")];
        assert!(!held[0].is_reserved() && !held[1].is_reserved());
        assert!(take("192.0.2.1").is_reserved(), "half of all at the most");
        let other = take("192.0.2.2");
        assert!(!other.is_reserved());
        drop(held);
        assert!(!take("192.0.2.1").is_reserved(), "they are given back");
        let neighbours = [take("2001:db8::1"), take("2001:db8::2"), take("2001:db8::3")];
        assert_eq!(neighbours.each_ref().map(ConnectionPlace::is_reserved), [false, false, true]);
    }

    #[test]
    fn a_trusted_proxy_and_no_bound_may_take_all() {
        for (per_address_max, from) in [(1, "10.0.0.1"), (0, "192.0.2.1")] {
            let places = places(3, per_address_max, 2);
            let held: Vec<_> = (0..3).map(|_| take(&places, from).0).collect();
            assert!(held.iter().all(|place| !place.is_reserved()));
            assert!(take(&places, from).0.is_reserved());
        }
    }

    #[test]
    fn who_sends_nothing_keeps_nobody_out() {
        let places = places(4, 0, 2);
        let (first, mut first_ends) = places.take(address("192.0.2.1"));
        let (second, mut second_ends) = places.take(address("192.0.2.2"));
        let (_third, mut third_ends) = places.take(address("192.0.2.1"));
        let (_fourth, mut fourth_ends) = take(&places, "192.0.2.2");
        second.has_request();
        // All places are taken: the oldest one without a request is displaced.
        let (fifth, _fifth_ends) = take(&places, "192.0.2.3");
        assert!(!fifth.is_reserved() && is_displaced(&mut first_ends));
        let (sixth, _sixth_ends) = take(&places, "192.0.2.3");
        assert!(!sixth.is_reserved() && is_displaced(&mut third_ends));
        assert!(take(&places, "192.0.2.3").0.is_reserved(), "the others are at work");
        assert!(!is_displaced(&mut second_ends) && !is_displaced(&mut fourth_ends));
        // A place that was given up is given back once.
        drop(first);
        assert!(take(&places, "192.0.2.3").0.is_reserved());
        drop(fifth);
        assert!(!take(&places, "192.0.2.3").0.is_reserved());
    }

    #[test]
    fn an_address_beyond_its_bound_displaces_its_own() {
        let places = places(8, 2, 2);
        let (_other, mut other_ends) = places.take(address("192.0.2.2"));
        let (_held, mut held_ends) = take(&places, "192.0.2.1");
        let (_silent, mut silent_ends) = places.take(address("192.0.2.1"));
        assert!(!take(&places, "192.0.2.1").0.is_reserved());
        assert!(is_displaced(&mut silent_ends) && !is_displaced(&mut held_ends));
        assert!(!is_displaced(&mut other_ends));
    }

    #[test]
    fn the_oldest_without_a_request_is_displaced_of_the_reserve() {
        let places = places(1, 0, 2);
        let _ordinary = take(&places, "192.0.2.1");
        let take = || places.take(address("192.0.2.1"));
        let (mut first, mut second) = (take(), take());
        first.0.has_request();
        let mut third = take();
        assert!(!is_displaced(&mut first.1) && is_displaced(&mut second.1));
        third.0.has_request();
        // All have sent a request, so the oldest is displaced.
        let mut fourth = take();
        assert!(is_displaced(&mut first.1) && !is_displaced(&mut third.1));
        // A connection that was displaced before takes nobody's place with it.
        drop((first, second));
        assert!(!is_displaced(&mut third.1) && !is_displaced(&mut fourth.1));
        assert_eq!(places.taken().reserve.len(), 2);
    }

    /// A connection that ends with `true` when it is asked to finish.
    async fn until_drained(member: &Member) -> bool {
        poll_fn(|_| if member.is_draining() { Poll::Ready(true) } else { Poll::Pending }).await
    }

    async fn registered(connections: &Connections, count: usize) {
        while connections.0.wakers().by_number.len() != count {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn all_are_woken_to_finish_and_then_cut() {
        let connections = Connections::default();
        let spawn = |finishes: bool| {
            let connections = connections.clone();
            tokio::spawn(async move {
                let run = connections.run(pending::<()>(), async |member| {
                    if finishes { until_drained(member).await } else { pending().await }
                });
                run.await
            })
        };
        let (polite, deaf) = (spawn(true), spawn(false));
        registered(&connections, 2).await;
        connections.drain();
        assert_eq!(polite.await.unwrap(), Some(true));
        registered(&connections, 1).await;
        connections.cut();
        assert_eq!(deaf.await.unwrap(), None);
        registered(&connections, 0).await;
        // A connection that starts afterwards ends immediately.
        assert_eq!(spawn(false).await.unwrap(), None);
    }

    #[tokio::test]
    async fn one_that_is_displaced_ends() {
        let (displace, displaced) = oneshot::channel::<()>();
        let connections = Connections::default();
        let other = connections.clone();
        let run =
            tokio::spawn(
                async move { other.run(displaced, async |_| pending::<()>().await).await },
            );
        registered(&connections, 1).await;
        drop(displace);
        assert_eq!(run.await.unwrap(), None);
    }
}
