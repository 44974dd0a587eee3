//! The thread that keeps a node's key alive, and publishes the tenure that the key gives.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use postrider_log::body::DATA_FORMAT;

use crate::coordination::{NodeRecord, Standing, decode, encode, node_key};
use crate::shared::Inner;
use crate::tenure::{NodeKey, Tenure, TenureInput, TenureOutput};

/// The time between two checks of due work, in milliseconds.
const TICK_MS: u64 = 100;
/// The time to live of the key of a stopped node, in seconds.
const LEFT_SECONDS: u64 = 1;

/// Runs until the node stops.
pub(crate) fn run(inner: &Arc<Inner>) {
    let mut tenure = Tenure::new(inner.terms, inner.options.identity);
    let mut published = Vec::new();
    loop {
        // Other nodes wait for the key when a shard was added or removed.
        let standings = standings(inner);
        let has_news = standings != published;
        published = standings;
        let input = if has_news { TenureInput::News } else { TenureInput::Tick };
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let outputs = tenure.step(inner.clock.now_ms(), &input);
            publish(inner, &tenure);
            for output in outputs {
                match output {
                    TenureOutput::Write { renewal, revision } => {
                        inputs.push_back(write(inner, renewal, revision));
                    }
                    TenureOutput::Read => inputs.extend(read(inner)),
                    // Each shard notices it at the gate.
                    TenureOutput::TermOver => {}
                    TenureOutput::NameTaken => {
                        tracing::error!(node = %inner.options.node, "another node has the name");
                        inner.is_name_taken.store(true, Ordering::Release);
                    }
                }
            }
        }
        if !inner.pause(TICK_MS) {
            return;
        }
    }
}

/// Lets the key expire soon, since the node has stopped.
pub(crate) fn leave(inner: &Inner) {
    let key = node_key(&inner.options.node);
    let Ok(Some(kept)) = inner.bucket.read(&key) else { return };
    let Ok(there) = decode::<NodeRecord>(&key, &kept.value) else { return };
    if there.identity() != inner.options.identity {
        return;
    }
    let record = NodeRecord { is_draining: true, shards: Vec::new(), ..there };
    let written = encode(&key, &record)
        .and_then(|value| inner.bucket.write(&key, value, kept.revision, Some(LEFT_SECONDS)));
    if let Err(error) = written {
        tracing::warn!(%error, "the node's key goes when its time is over");
    }
}

fn standings(inner: &Inner) -> Vec<(u16, Standing)> {
    inner.reports.lock().iter().flatten().map(|it| (it.shard, it.state)).collect()
}

fn publish(inner: &Inner, tenure: &Tenure) {
    if let Some(term) = tenure.term(inner.clock.now_ms()) {
        inner.gate.publish(term, tenure.deadline());
    } else {
        inner.gate.end();
    }
}

fn answered(inner: &Inner) {
    inner.answered_ms.store(inner.clock.now_ms(), Ordering::Release);
}

/// Returns the report of the node about itself.
fn record(inner: &Inner, renewal: u64) -> NodeRecord {
    let options = &inner.options;
    NodeRecord {
        directory: options.identity.directory,
        incarnation: options.identity.incarnation,
        renewal,
        advertise: options.advertise.clone(),
        zone: options.zone.clone(),
        is_draining: false,
        is_failing: inner.host.is_failing(),
        lacks_space: inner.host.lacks_space(),
        key: inner.key.clone(),
        version: options.version.clone(),
        wall_ms: inner.host.wall_ms(),
        reads: DATA_FORMAT,
        shards: inner.reports.lock().iter().flatten().cloned().collect(),
    }
}

fn write(inner: &Inner, renewal: u64, revision: u64) -> TenureInput {
    let key = node_key(&inner.options.node);
    let record = record(inner, renewal);
    let ttl = inner.terms.lease_ms / 1_000;
    let written = encode(&key, &record)
        .and_then(|value| inner.bucket.write(&key, value, revision, Some(ttl)));
    match written {
        Ok(written) => {
            answered(inner);
            written.map_or(TenureInput::NotWritten { renewal }, |revision| TenureInput::Written {
                renewal,
                revision,
            })
        }
        Err(error) => {
            tracing::debug!(%error, "the node's key was not renewed");
            TenureInput::NotWritten { renewal }
        }
    }
}

fn read(inner: &Inner) -> Option<TenureInput> {
    let key = node_key(&inner.options.node);
    let found = match inner.bucket.read(&key) {
        Ok(found) => found,
        Err(error) => {
            tracing::debug!(%error, "the node's key was not read");
            return None;
        }
    };
    answered(inner);
    let Some(kept) = found else { return Some(TenureInput::Found(None)) };
    let record: NodeRecord = match decode(&key, &kept.value) {
        Ok(record) => record,
        Err(error) => {
            tracing::error!(%error, "the node's key cannot be read");
            return None;
        }
    };
    let (revision, identity, renewal) = (kept.revision, record.identity(), record.renewal);
    Some(TenureInput::Found(Some(NodeKey { revision, identity, renewal })))
}
