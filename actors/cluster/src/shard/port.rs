//! Pure: what a shard's life on a node takes in, and what it asks for.

use bytes::Bytes;
use postrider_log::{Entry, EntryHash, Position};

use crate::name::NodeName;
use crate::replica::Replica;
use crate::settle::Settled;

/// What the assignment says of this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It shall own the shard.
    Owner,
    /// It follows, and claims when its turn comes after the owner's key has ended; from 0.
    Standby(u32),
    /// It has nothing to do with the shard.
    Nothing,
}

/// What the node knows when something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The time of the node's clock, in milliseconds.
    pub now: u64,
    /// The term of its tenure, if that holds now.
    pub term: Option<u64>,
    /// The engine time that a claim or handoff carries, in milliseconds; that of the last entry if
    /// it is later. The node's wall clock will do.
    pub engine_ms: u64,
}

/// What has happened.
#[derive(Debug)]
pub enum ShardInput {
    /// Time has passed.
    Tick,
    /// The assignment says this.
    Role(Role),
    /// Whether the key of the shard's owner is in the bucket. It is a hint when to try.
    OwnerKey(bool),
    /// Whether the node's wall clock is that of most nodes. Until this is said it is.
    ClockAgrees(bool),
    /// Whether the node waits for members that could not read what it writes.
    OlderMembers(bool),
    /// Whether the node's records have nearly all of the log, so that an engine would start over
    /// them at once. Until this is said they have. The shard is not asked for before.
    RecordsAreClose(bool),
    /// The answer to the question with this number. Any other is too late and ignored.
    Answered(u64, Answer),
    /// Another node asks for the shard.
    ReleaseAsked {
        /// The node that asks.
        by: NodeName,
    },
    /// The engine's admission is closed, and all that was admitted is in the log.
    Drained,
    /// The engine has stopped.
    EngineStopped,
    /// The engine did not start, or ended by itself.
    EngineFailed,
    /// The engine appended this entry.
    Appended(Bytes),
    /// The engine could not append: what stands in the log is another's, or less than it was.
    NotAppended(Settled),
}

/// What is asked of the log, of the bucket or of another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// Open or make the replica.
    Restore,
    /// The entries from this position on, from the stream's leader.
    Entries {
        /// The first position.
        from: Position,
    },
    /// The end of the log, from the stream's leader.
    Tail,
    /// Which process holds this node's key. It must be read after the question was asked.
    Lease {
        /// The node.
        node: NodeName,
    },
    /// Ask this node to hand the shard over.
    Release {
        /// The node.
        node: NodeName,
    },
    /// Whether a repair has begun the shard anew.
    Repaired,
    /// Append this entry, until it is known whether it is there.
    Append {
        /// Its position.
        at: Position,
        /// Its bytes.
        bytes: Bytes,
    },
}

/// What was answered.
#[derive(Debug)]
pub enum Answer {
    /// The replica as it is on the disk.
    Restored(Box<Replica>),
    /// The log begins behind what no checkpoint holds.
    Unrestorable {
        /// Its first position.
        first: Position,
    },
    /// What was asked for is trimmed: the log begins later.
    Trimmed,
    /// Entries, and the last position of the log.
    Entries {
        /// The entries, oldest first; not all of them need to be there.
        entries: Vec<Bytes>,
        /// The last position of the log.
        last: Position,
    },
    /// The end of the log.
    Tail {
        /// The last position.
        last: Position,
        /// The hash of the entry there; none if the log is empty.
        hash: EntryHash,
    },
    /// The process that holds the node's key, if there is a key.
    Lease(Option<[u8; 16]>),
    /// What the other node said.
    Release(ReleaseAnswer),
    /// A repair has begun the shard anew with this epoch.
    Repaired {
        /// The epoch.
        epoch: u64,
    },
    /// The append is settled.
    Settled(Settled),
    /// Nothing was answered.
    Nothing,
}

/// What a node says when it is asked for a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseAnswer {
    /// It hands the shard over; the log will have a handoff.
    Accepted,
    /// It does not own the shard, and will not without another claim.
    NotOwner,
    /// Its own claim is under way. Ask again.
    Busy,
}

/// Why a shard has stopped and waits for a repair.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// The log ends before what this node has applied.
    #[error("the log ends at {last}, but {applied} was applied")]
    Short {
        /// The last position of the log.
        last: Position,
        /// The last position that was applied.
        applied: Position,
    },
    /// The log has lost its beginning, or the checkpoints that held it.
    #[error("the log begins at {first}, and no checkpoint holds what was before")]
    Trimmed {
        /// The first position of the log.
        first: Position,
    },
    /// What stands in the log is not what follows.
    #[error("the entry behind {applied} does not fit: {what}")]
    Broken {
        /// The last position that was applied.
        applied: Position,
        /// What does not fit.
        what: String,
    },
}

/// What shall be done.
#[derive(Debug)]
pub enum ShardOutput {
    /// Ask this, and answer with the number.
    Ask(u64, Question),
    /// Apply this entry to the view.
    Apply(Entry),
    /// Start the engine over the view; its entries have this epoch.
    StartEngine {
        /// The epoch.
        epoch: u64,
    },
    /// Let nothing new in, finish what is there, and say [`ShardInput::Drained`].
    CloseAdmission,
    /// Stop the engine at once, whatever it is at, and say [`ShardInput::EngineStopped`].
    StopEngine,
    /// Answer the node that asked for the shard.
    AnswerRelease(ReleaseAnswer),
    /// The shard has stopped; only a repair goes on from here.
    Stopped(StopReason),
}

/// Where a shard's life on a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ShardState {
    /// There is no replica.
    Absent,
    /// The replica is being opened or made.
    Restoring,
    /// The replica follows the log.
    Following,
    /// The node wants to own the shard.
    Claiming,
    /// The engine runs.
    Owning,
    /// The engine closes, and another node will own the shard.
    HandingOff,
    /// The engine stops.
    Abandoned,
    /// The log lost something; nothing goes on.
    Stopped,
}
