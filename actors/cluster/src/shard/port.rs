//! Pure: the inputs, questions and outputs of a shard's life on a node.

use bytes::Bytes;
use postrider_log::{Entry, EntryHash, Position};

use crate::name::NodeName;
use crate::replica::Replica;
use crate::settle::Settled;

/// The role of this node by the assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The node shall own the shard.
    Owner,
    /// The node follows the log. After the owner's key has ended it claims by its rank, from 0.
    Standby(u32),
    /// The node has nothing to do with the shard.
    Nothing,
}

/// The circumstances of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The time of the node's clock, in milliseconds.
    pub now: u64,
    /// The term of the node's tenure, if the tenure holds now.
    pub term: Option<u64>,
    /// The engine time for a claim or handoff, in milliseconds; the node's wall clock suffices.
    ///
    /// The time of the last entry is used if it is later.
    pub engine_ms: u64,
}

/// An input of a shard's life.
#[derive(Debug)]
pub enum ShardInput {
    /// Time has passed.
    Tick,
    /// The role by the assignment.
    Role(Role),
    /// The input is `true` if the owner's key is in the bucket. It is a hint when to try.
    OwnerKey(bool),
    /// The input is `true` if the node's wall clock agrees with most nodes, as is assumed at first.
    ClockAgrees(bool),
    /// The input is `true` if the node waits for members that could not read its entries.
    OlderMembers(bool),
    /// The input is `true` if the node's records have nearly all of the log, as is assumed at
    /// first.
    ///
    /// An engine would start over them at once. Until then the owner is not asked for the shard.
    RecordsAreClose(bool),
    /// The answer to the question with this number. Any other number is too late and ignored.
    Answered(u64, Answer),
    /// Another node asks for the shard.
    ReleaseAsked {
        /// The node that asks.
        by: NodeName,
    },
    /// The engine's admission is closed, and all admitted work is in the log.
    Drained,
    /// The engine has stopped.
    EngineStopped,
    /// The engine did not start, or ended by itself.
    EngineFailed,
    /// The engine appended this entry.
    Appended(Bytes),
    /// The engine could not append: the log has another writer's entry, or less than before.
    NotAppended(Settled),
}

/// A question to the log, the bucket or another node.
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
    /// The process that holds this node's key. It must be read after the question was asked.
    Lease {
        /// The node.
        node: NodeName,
    },
    /// Ask this node to hand the shard over.
    Release {
        /// The node.
        node: NodeName,
    },
    /// The epoch of a repair that has started the shard again.
    Repaired,
    /// Append this entry, until it is known whether it is in the log.
    Append {
        /// Its position.
        at: Position,
        /// Its bytes.
        bytes: Bytes,
    },
}

/// The answer to a question.
#[derive(Debug)]
pub enum Answer {
    /// The replica from the disk.
    Restored(Box<Replica>),
    /// The log starts behind entries that no checkpoint has.
    Unrestorable {
        /// The first position of the log.
        first: Position,
    },
    /// The requested entries are trimmed: the log starts later.
    Trimmed,
    /// Entries, and the last position of the log.
    Entries {
        /// The entries, oldest first; the list may be incomplete.
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
    /// The answer of the other node.
    Release(ReleaseAnswer),
    /// A repair has started the shard again with this epoch.
    Repaired {
        /// The epoch.
        epoch: u64,
    },
    /// The append is settled.
    Settled(Settled),
    /// No answer arrived.
    Nothing,
}

/// The answer of a node that was asked for a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseAnswer {
    /// The node hands the shard over; the log will have a handoff.
    Accepted,
    /// The node does not own the shard, and will not without another claim.
    NotOwner,
    /// The node's own claim is under way. Ask again.
    Busy,
}

/// The reason why a shard has stopped and waits for a repair.
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
    /// The entry in the log does not follow the applied ones.
    #[error("the entry behind {applied} does not fit: {what}")]
    Broken {
        /// The last position that was applied.
        applied: Position,
        /// The reason why it does not fit.
        what: String,
    },
}

/// An action of a shard's life.
#[derive(Debug)]
pub enum ShardOutput {
    /// Ask this question, and answer with the number.
    Ask(u64, Question),
    /// Apply this entry to the view.
    Apply(Entry),
    /// Start the engine over the view; its entries have this epoch.
    StartEngine {
        /// The epoch.
        epoch: u64,
    },
    /// Admit nothing new, finish the current work, and send [`ShardInput::Drained`].
    CloseAdmission,
    /// Stop the engine at once, whatever it does, and send [`ShardInput::EngineStopped`].
    StopEngine,
    /// Answer the node that asked for the shard.
    AnswerRelease(ReleaseAnswer),
    /// The shard has stopped; only a repair can start it again.
    Stopped(StopReason),
}

/// The state of a shard on a node.
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
    /// The log lost something, and the shard has stopped.
    Stopped,
}
