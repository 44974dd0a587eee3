//! A node of a cluster: its membership, and the life of each shard on it.
//!
//! It owns the threads that carry out the outputs of the pure rules. It promises that an engine
//! runs only while this node may own the shard. A request that asks the gate before its answer
//! leaves is never answered from data that another node has replaced.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use crate::checkup::{self, Checkup, Looks};
use crate::clock::{BootClock, SteadyClock};
use crate::cluster_record::{Access, ClusterRecord, JoinError, Opened, open};
use crate::coordination::{Coordination, NodeRecord, ShardReport, read_nodes};
use crate::gate::Gate;
use crate::import::{KeyMark, homes_of_keys, must_be_finished};
use crate::life::Life;
use crate::log::Stream;
use crate::member;
use crate::name::NodeName;
use crate::nats::NatsError;
use crate::nats::preflight::Monitor;
use crate::numbers::NumberList;
use crate::shard::ReleaseAnswer;
use crate::shared::{Counters, Counts, Host, Inner, Input, LOOK_EVERY_MS, NodeOptions, Seen};
use crate::tenure::Terms;
use crate::watch;

/// The maximum time that a node waits for its key at the start, in milliseconds.
const MEMBER_WITHIN_MS: u64 = 10_000;

/// A running node.
#[derive(Debug)]
pub struct Node {
    inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    checkup: Checkup,
    /// The homes of API keys that do not carry them.
    homes: OnceLock<HashMap<KeyMark, u16>>,
    /// The sender whose drop ends the checks of NATS.
    runs: Mutex<Option<Sender<Infallible>>>,
}

impl Node {
    /// Checks NATS, becomes a member and starts the lives of the shards. Blocks.
    ///
    /// # Errors
    /// See [`JoinError`].
    pub fn start(
        access: &Access,
        options: NodeOptions,
        host: Arc<dyn Host>,
        monitor: Box<dyn Monitor + Send>,
    ) -> Result<Self, JoinError> {
        let opened = open(access, &*monitor)?;
        must_be_finished(&*opened.bucket)?;
        if options.belongs_to.as_ref().is_some_and(|id| *id != opened.record.id) {
            let why = "the data directory belongs to another cluster than cluster.nats has";
            return Err(JoinError::Mismatch(why.to_owned()));
        }
        let (access, checkup) = (access.clone(), Checkup::default());
        let looks = Looks { streams: opened.streams.clone(), access, monitor, checkup };
        let checkup = looks.checkup.clone();
        let inner = Arc::new(inner(&looks.access, options, host, opened));
        must_have_same_key(&inner)?;
        let (runs, stops) = mpsc::channel();
        let runs = Mutex::new(Some(runs));
        let (threads, homes) = (Mutex::default(), OnceLock::new());
        let node = Self { inner, threads, checkup, homes, runs };
        if let Err(error) = node.begin().and_then(|()| node.look_after_nats(looks, stops)) {
            node.stop();
            return Err(error);
        }
        Ok(node)
    }

    fn begin(&self) -> Result<(), JoinError> {
        let inner = &self.inner;
        self.spawn("cluster-member", member::run)?;
        let until = inner.clock.now_ms() + MEMBER_WITHIN_MS;
        while inner.gate.term().is_none() {
            if inner.is_name_taken.load(Ordering::Acquire) {
                return Err(JoinError::NameTaken(inner.options.node.clone()));
            }
            if inner.clock.now_ms() > until {
                let why = "the node's key was not written in time".to_owned();
                return Err(NatsError::Unreachable(why).into());
            }
            inner.clock.wait_ms(LOOK_EVERY_MS);
        }
        // Checked again: no import starts while the node has its key. An import that starts
        // meanwhile sees the key.
        must_be_finished(&*inner.bucket)?;
        must_have_same_key(inner)?;
        // It is set once, here.
        drop(self.homes.set(homes_of_keys(&*inner.bucket)?));
        let mut senders = Vec::new();
        for shard in 0..inner.record.shards {
            let (sender, inbox) = mpsc::channel();
            let life = Life::new(inner.clone(), shard, inbox, sender.clone());
            senders.push(sender);
            self.spawn(&format!("shard-{shard}"), move |_| life.run())?;
        }
        // It is set once, here.
        drop(inner.lives.set(senders));
        self.spawn("cluster-watch", watch::run)
    }

    /// Starts the checks of NATS. One check may take long, so nobody waits for the thread.
    fn look_after_nats(&self, looks: Looks, stops: Receiver<Infallible>) -> Result<(), JoinError> {
        let thread = std::thread::Builder::new().name("cluster-nats".to_owned());
        let spawned = thread.spawn(move || checkup::run(&looks, &stops));
        spawned.map(drop).map_err(|error| NatsError::Runtime(error.to_string()).into())
    }

    fn spawn(
        &self,
        name: &str,
        run: impl FnOnce(&Arc<Inner>) + Send + 'static,
    ) -> Result<(), JoinError> {
        let inner = self.inner.clone();
        let thread = std::thread::Builder::new().name(name.to_owned());
        let spawned = thread.spawn(move || run(&inner));
        let failed = |error: std::io::Error| NatsError::Runtime(error.to_string());
        self.threads.lock().push(spawned.map_err(failed)?);
        Ok(())
    }

    /// Stops the node without handing shards over. Blocks.
    ///
    /// It finishes the accepted work, and gives the node's key up, so that others claim its shards.
    pub fn stop(&self) {
        self.inner.is_stopping.store(true, Ordering::Release);
        self.runs.lock().take();
        for shard in 0..self.inner.streams.len() {
            self.inner.deliver(shard, Input::Quit);
        }
        for thread in self.threads.lock().drain(..) {
            // A thread that panicked has ended.
            drop(thread.join());
        }
        member::leave(&self.inner);
    }

    /// Returns the gate that each request asks.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.inner.gate
    }

    /// Returns the node's name.
    #[must_use]
    pub fn name(&self) -> &NodeName {
        &self.inner.options.node
    }

    /// Returns the cluster's name and record.
    #[must_use]
    pub fn cluster(&self) -> (&NodeName, &ClusterRecord) {
        (&self.inner.cluster, &self.inner.record)
    }

    /// Returns the home of an API key that does not carry it, by the key's mark.
    ///
    /// Only the homes of imported keys are known.
    #[must_use]
    pub fn home_of_key(&self, mark: &KeyMark) -> Option<u16> {
        self.homes.get()?.get(mark).copied()
    }

    /// Returns the list of the providers' numbers and their shards; it is still empty.
    #[must_use]
    pub fn numbers(&self) -> NumberList {
        NumberList::new(self.inner.bucket.clone())
    }

    pub(crate) fn bucket(&self) -> &dyn Coordination {
        &*self.inner.bucket
    }

    /// Returns the version of the NATS server to which the node is connected.
    #[must_use]
    pub fn server_version(&self) -> &str {
        &self.inner.server_version
    }

    /// Returns the problem that the last check of the NATS servers found, about a minute ago.
    #[must_use]
    pub fn nats_problem(&self) -> Option<String> {
        self.checkup.problem()
    }

    /// Returns whether the wall clock agrees with most nodes: if not, the node claims no shard.
    #[must_use]
    pub fn clock_agrees(&self) -> bool {
        self.inner.clock_agrees()
    }

    /// Returns the node's view of the cluster, at most half a second old while NATS answers.
    #[must_use]
    pub fn seen(&self) -> Arc<Seen> {
        self.inner.seen.lock().clone()
    }

    /// Returns the current state of each shard on this node.
    #[must_use]
    pub fn reports(&self) -> Vec<ShardReport> {
        self.inner.reports.lock().iter().flatten().cloned().collect()
    }

    /// Returns the counts of events of the shards of this node since it started.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counters { claims, failovers, fenced, lost, appends } = &self.inner.counters;
        Counts {
            claims: read(claims),
            failovers: read(failovers),
            fenced: read(fenced),
            lost: read(lost),
            appends: appends.read(),
        }
    }

    /// Returns the age of the records of each shard for which this node is a standby, in
    /// milliseconds.
    #[must_use]
    pub fn apply_lags(&self) -> Vec<Option<u64>> {
        self.inner.apply_lags.lock().clone()
    }

    /// Returns the largest difference between this node's wall clock and another's, in
    /// milliseconds.
    #[must_use]
    pub fn clock_difference_ms(&self) -> u64 {
        let (now, wall_ms) = (self.inner.clock.now_ms(), self.inner.host.wall_ms());
        let clocks = self.inner.clocks.lock();
        clocks.differences(now, wall_ms).map(|(_, by)| by.unsigned_abs()).max().unwrap_or(0)
    }

    /// Returns whether another node has a later master key: then this one owns nothing.
    #[must_use]
    pub fn has_earlier_key(&self) -> bool {
        self.inner.seen.lock().has_earlier_key(&self.inner.options.node)
    }

    /// Returns the nodes whose master key differs from this node's.
    #[must_use]
    pub fn nodes_with_other_keys(&self) -> Vec<NodeName> {
        self.inner.seen.lock().other_keys(&self.inner.key).cloned().collect()
    }

    /// Returns for how long the bucket has not answered, in milliseconds.
    #[must_use]
    pub fn silent_ms(&self) -> u64 {
        self.inner.clock.now_ms().saturating_sub(self.inner.answered_ms.load(Ordering::Acquire))
    }

    /// Takes another node's request for a shard and returns the answer. Blocks for a moment.
    #[must_use]
    pub fn release(&self, shard: u16, by: NodeName) -> Option<ReleaseAnswer> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.inner.deliver(shard.into(), Input::Release { by, reply });
        answer.recv_timeout(std::time::Duration::from_secs(1)).ok()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // As in a crash, nothing is finished and nothing is given up.
        self.inner.is_stopping.store(true, Ordering::Release);
    }
}

/// Returns an error if another node runs with another master key.
///
/// This node could not read the values that the others seal from now on.
fn must_have_same_key(inner: &Inner) -> Result<(), JoinError> {
    let nodes = read_nodes(&*inner.bucket)?;
    // A node that drains has stopped, and earlier versions report no key.
    let differs = |record: &NodeRecord| {
        !record.is_draining && !record.key.is_empty() && record.key != inner.key
    };
    let mut others = nodes.into_iter().filter(|(name, _)| *name != inner.options.node);
    let other = others.find(|(_, record)| differs(record));
    other.map_or(Ok(()), |(name, _)| Err(JoinError::OtherKey(name)))
}

fn inner(access: &Access, options: NodeOptions, host: Arc<dyn Host>, opened: Opened) -> Inner {
    let Opened { bucket, archives, record, streams, version } = opened;
    let clock: Arc<dyn SteadyClock> = Arc::new(BootClock);
    let terms = Terms { lease_ms: options.lease_seconds * 1_000, ..Terms::DEFAULT };
    let shards = record.shards;
    Inner {
        options,
        terms,
        cluster: access.cluster.clone(),
        key: access.current_key(),
        server_version: version,
        bucket,
        archives,
        logs: streams.iter().map(|stream| stream.id()).collect(),
        streams: streams.into_iter().map(|stream| stream as Arc<dyn Stream>).collect(),
        gate: Gate::new(clock.clone(), shards),
        answered_ms: AtomicU64::new(clock.now_ms()),
        clock,
        host,
        seen: Mutex::default(),
        clocks: Mutex::default(),
        reports: Mutex::new(vec![None; shards.into()]),
        apply_lags: Mutex::new(vec![None; shards.into()]),
        counters: Counters::default(),
        turns: Arc::default(),
        lives: OnceLock::new(),
        is_stopping: Arc::default(),
        is_name_taken: AtomicBool::new(false),
        record,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::coordination::view_with;
    use crate::watch::tests::Cluster;

    #[test]
    fn a_node_with_another_master_key_than_one_that_runs_is_refused() {
        let cluster = Cluster::new();
        let inner = &cluster.inner;
        let check = |node: &str, key: &str, is_draining| {
            let record = NodeRecord { is_draining, key: key.to_owned(), ..NodeRecord::owning(&[]) };
            cluster.says(node, &record);
            must_have_same_key(inner)
        };
        assert!(check("a", "2-b", false).is_ok(), "its own process before has ended");
        assert!(check("b", "1-a", false).is_ok());
        assert!(check("c", "", false).is_ok(), "it is of an earlier version");
        assert!(check("d", "2-b", true).is_ok(), "it has stopped");
        let error = check("d", "2-a", false).unwrap_err().to_string();
        assert!(error.contains("MASTER_KEY_MISMATCH: the node d runs"), "{error}");
    }

    #[test]
    fn of_nodes_with_different_keys_that_run_the_one_with_the_earlier_owns_nothing() {
        let others = |keys: &[(&str, &str)]| {
            let record = |key: &str| NodeRecord { key: key.to_owned(), ..NodeRecord::owning(&[]) };
            let named = |(node, key): &(&str, &str)| (NodeName::new(node).unwrap(), record(key));
            Seen { nodes: keys.iter().map(named).collect(), ..Seen::default() }
        };
        let seen = others(&[("a", "8-a"), ("b", "9-a"), ("c", ""), ("d", "9-b")]);
        let names: Vec<_> = seen.other_keys("9-a").map(NodeName::as_str).collect();
        assert_eq!(names, ["a", "d"]);
        let earlier = seen.nodes.keys().filter(|it| seen.has_earlier_key(it));
        assert_eq!(earlier.map(NodeName::as_str).collect::<Vec<_>>(), ["a"]);
        let cluster = Cluster::new();
        let view = view_with(&*cluster.inner.bucket, &seen.nodes, &BTreeSet::new()).unwrap();
        let draining = view.nodes.iter().filter(|it| it.is_draining).map(|it| it.node.as_str());
        assert_eq!(draining.collect::<Vec<_>>(), ["a"], "who says no key is of an earlier version");
    }
}
