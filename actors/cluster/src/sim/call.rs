//! What goes over the network of a simulation, and what comes of it.

use bytes::Bytes;
use postrider_log::{EntryHash, Position};

use crate::coordinator::BucketView;
use crate::name::{Identity, NodeName};
use crate::placement::Assignment;
use crate::settle::Heard;
use crate::shard::{Answer, ReleaseAnswer};
use crate::tenure::{NodeKey, TenureInput};

/// The number of a node; the numbers of nodes begin at 0.
pub(super) type NodeNumber = usize;

/// What the bucket holds in a simulation.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Node { identity: Identity, renewal: u64 },
    Coordinator(NodeName),
    Assignment(Assignment),
}

/// A call of a node to the log or the bucket.
#[derive(Debug, Clone)]
pub(super) enum Call {
    Publish { shard: usize, at: Position, bytes: Bytes, append: u64, attempt: u32 },
    LookUp { shard: usize, at: Position, append: u64, attempt: u32 },
    Entries { shard: usize, from: Position, ticket: u64 },
    Tail { shard: usize, ticket: u64 },
    Lease { shard: usize, node: NodeName, ticket: u64 },
    Renew { renewal: u64, revision: u64, identity: Identity },
    ReadKey,
    Snapshot,
    Lead { revision: u64 },
    Assign { assignment: Assignment, revision: u64 },
}

/// What a client asks of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    Issue,
    Verify,
    Read,
}

/// One request of a client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) ask: Ask,
    pub(super) shard: usize,
    pub(super) code: u32,
    /// What had been answered of the code when the request began: 0 nothing, 1 issued, 2 verified.
    pub(super) floor: u8,
}

/// What happens at a node.
#[derive(Debug)]
pub(super) enum Input {
    Tick,
    /// The shards look at the time; it may be late.
    ShardTick,
    Tenure(TenureInput),
    Key(Option<NodeKey>),
    Snapshot(Box<BucketView>),
    Answer {
        shard: usize,
        ticket: u64,
        answer: Answer,
    },
    Heard {
        shard: usize,
        append: u64,
        attempt: u32,
        heard: Heard,
    },
    EngineStopped {
        shard: usize,
    },
    /// Another node asks for a shard.
    Release {
        shard: usize,
        by: NodeNumber,
        ticket: u64,
    },
    Released {
        shard: usize,
        ticket: u64,
        answer: ReleaseAnswer,
    },
    Client(Request),
}

/// What happens in the world.
#[derive(Debug)]
pub(super) enum Event {
    At { node: NodeNumber, life: u32, input: Input },
    Called { node: NodeNumber, life: u32, call: Call },
    Client,
    Fault(usize),
    Heal(usize),
}

/// The end of a log, as it is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    pub(super) last: Position,
    pub(super) hash: EntryHash,
}
