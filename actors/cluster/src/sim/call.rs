//! The messages over the network of a simulation, and their answers.

use bytes::Bytes;
use postrider_log::{EntryHash, Position};

use super::checkpoints::Archive;
use crate::coordinator::BucketView;
use crate::name::{Identity, NodeName};
use crate::placement::Assignment;
use crate::settle::Heard;
use crate::shard::{Answer, ReleaseAnswer};
use crate::tenure::{NodeKey, TenureInput};

/// The number of a node; the numbers of nodes begin at 0.
pub(super) type NodeNumber = usize;

/// The report of a node about itself in a simulation.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeValue {
    pub(super) identity: Identity,
    pub(super) renewal: u64,
    pub(super) wall_ms: u64,
    pub(super) is_draining: bool,
    /// The owned shards, one bit for each.
    pub(super) owned: u32,
}

/// A value of the bucket in a simulation.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Node(NodeValue),
    Coordinator(NodeName),
    Assignment(Assignment),
}

/// The part of the bucket that a node reads.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) view: BucketView,
    pub(super) nodes: Vec<(NodeName, NodeValue)>,
}

/// A call of a node to the log or the bucket.
#[derive(Debug, Clone)]
pub(super) enum Call {
    Publish { shard: usize, at: Position, bytes: Bytes, append: u64, attempt: u32 },
    LookUp { shard: usize, at: Position, append: u64, attempt: u32 },
    Entries { shard: usize, from: Position, ticket: u64 },
    Tail { shard: usize, ticket: u64 },
    Trim { shard: usize, through: Position },
    Lease { shard: usize, node: NodeName, ticket: u64 },
    Renew { revision: u64, value: NodeValue },
    ReadKey,
    Snapshot,
    Lead { revision: u64 },
    Assign { assignment: Assignment, revision: u64 },
}

impl Call {
    /// Returns whether the call is to the log, and not to the bucket.
    pub(super) const fn is_of_log(&self) -> bool {
        matches!(
            self,
            Self::Publish { .. }
                | Self::LookUp { .. }
                | Self::Entries { .. }
                | Self::Tail { .. }
                | Self::Trim { .. }
        )
    }
}

/// A client's request to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    Issue,
    Verify,
    Read,
    /// Send a message, if its window has room.
    Message,
    /// Do anything that takes a place of the bucket.
    Take,
}

/// One request of a client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) ask: Ask,
    pub(super) shard: usize,
    pub(super) code: u32,
    /// The answered state of the code when the request started: 0 nothing, 1 issued, 2 verified.
    pub(super) floor: u8,
}

/// An event at a node.
#[derive(Debug)]
pub(super) enum Input {
    Tick,
    /// The tick of the shards; it may be late.
    ShardTick,
    Tenure(TenureInput),
    Key(Option<NodeKey>),
    Snapshot(Box<Snapshot>),
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
    /// The engine checks for due work.
    EngineTick {
        shard: usize,
        epoch: u64,
    },
    /// A message leaves the process.
    HandOver {
        shard: usize,
        epoch: u64,
        message: u32,
    },
    /// The outcome of a message is known.
    Outcome {
        shard: usize,
        epoch: u64,
        message: u32,
    },
    /// The replica is opened or made.
    Restore {
        shard: usize,
        ticket: u64,
    },
    /// An archive is stored and was read back.
    Stored {
        shard: usize,
        epoch: u64,
        archive: Box<Archive>,
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

/// An event in the world.
#[derive(Debug)]
pub(super) enum Event {
    At { node: NodeNumber, life: u32, input: Input },
    Called { node: NodeNumber, life: u32, sent: u64, call: Call },
    Client,
    Fault(usize),
    Heal(usize),
}

/// The end of a log at the time when it is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    pub(super) last: Position,
    pub(super) hash: EntryHash,
}
