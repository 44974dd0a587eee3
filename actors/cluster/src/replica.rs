//! Pure: the state of a shard that follows from the entries that a node has applied.
//!
//! It owns the end of the replica's chain, its engine time, and the owner of the shard by the log.
//! It promises that an entry which does not follow the one before it is never taken.

use bytes::Bytes;
use postrider_log::{
    BodyError, Chain, ChainFault, CheckpointNote, Claim, Entry, EntryFault, EntryHash, Handoff,
    Kind, LogId, Mark, Position,
};

use crate::name::{NameError, NodeName};
#[cfg(test)]
use crate::planted::Planted;

/// The node that claimed a shard last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The node.
    pub node: NodeName,
    /// The incarnation of its process.
    pub incarnation: [u8; 16],
}

/// The reason why an entry cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplicaFault {
    /// The bytes are no entry.
    #[error("{0}")]
    Entry(#[from] EntryFault),
    /// The entry does not follow the one before it.
    #[error("{0}")]
    Chain(#[from] ChainFault),
    /// The body of the entry does not match its kind.
    #[error("{0}")]
    Body(#[from] BodyError),
    /// A claim or a handoff has an invalid node name.
    #[error("{0}")]
    Name(#[from] NameError),
}

/// The applied state of one shard.
#[derive(Debug, Clone)]
pub struct Replica {
    chain: Chain,
    owner: Option<Owner>,
    handed_to: Option<NodeName>,
    time_ms: u64,
    checkpoint: Option<Position>,
    /// The data format that a reader must know from here on.
    format: u16,
    #[cfg(test)]
    pub(crate) planted: Option<Planted>,
}

impl Replica {
    /// Returns a replica before the first entry of a log.
    #[must_use]
    pub const fn empty(log: LogId, shard: u16) -> Self {
        Self {
            chain: Chain::new(log, shard, Position::START, 0, EntryHash::NONE),
            owner: None,
            handed_to: None,
            time_ms: 0,
            checkpoint: None,
            format: 0,
            #[cfg(test)]
            planted: None,
        }
    }

    /// Returns a replica that has loaded a checkpoint, which was made while `owner` owned the
    /// shard.
    #[must_use]
    pub const fn at(log: LogId, shard: u16, mark: &Mark, owner: Owner, time_ms: u64) -> Self {
        Self {
            chain: Chain::new(log, shard, mark.position, mark.epoch, mark.hash),
            owner: Some(owner),
            handed_to: None,
            time_ms,
            checkpoint: Some(mark.position),
            format: 0,
            #[cfg(test)]
            planted: None,
        }
    }

    /// Returns the same replica, behind which a reader must know this data format.
    #[must_use]
    pub(crate) const fn of_format(mut self, format: u16) -> Self {
        self.format = format;
        self
    }

    /// Returns the data format that a reader must know, by the log or the checkpoint.
    ///
    /// It is 0 before the first claim.
    #[must_use]
    pub const fn format(&self) -> u16 {
        self.format
    }

    /// Returns the end of the applied chain.
    #[must_use]
    pub const fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Returns the position, epoch and hash of the last applied entry.
    #[must_use]
    pub const fn mark(&self) -> Mark {
        Mark { position: self.chain.last(), epoch: self.chain.epoch(), hash: self.chain.hash() }
    }

    /// Returns the node that claimed the shard last.
    #[must_use]
    pub const fn owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }

    /// Returns the node to which the owner has handed the shard; the owner answers for it no more.
    #[must_use]
    pub const fn handed_to(&self) -> Option<&NodeName> {
        self.handed_to.as_ref()
    }

    /// Returns the position of the newest checkpoint that the log names, or that was loaded.
    #[must_use]
    pub const fn checkpoint(&self) -> Option<Position> {
        self.checkpoint
    }

    /// Returns the engine time of the last entry, in milliseconds; 0 before the first one.
    #[must_use]
    pub const fn time_ms(&self) -> u64 {
        self.time_ms
    }

    /// Checks and applies the next entry.
    ///
    /// # Errors
    /// See [`ReplicaFault`]; the replica is unchanged then.
    pub fn take(&mut self, bytes: Bytes) -> Result<Entry, ReplicaFault> {
        let entry = Entry::decode(bytes)?;
        let checked = self.chain.check(&entry.header);
        #[cfg(test)]
        let checked = if self.planted == Some(Planted::NoChainCheck) { Ok(()) } else { checked };
        checked?;
        match entry.header.kind {
            Kind::Claim => {
                let claim = Claim::decode(entry.body())?;
                let node = NodeName::new(&claim.node)?;
                self.format = claim.readable_from;
                self.owner = Some(Owner { node, incarnation: claim.incarnation });
                self.handed_to = None;
            }
            Kind::Handoff => {
                self.handed_to = Some(NodeName::new(&Handoff::decode(entry.body())?.node)?);
            }
            Kind::Checkpoint => {
                self.checkpoint = Some(CheckpointNote::decode(entry.body())?.position);
            }
            Kind::Group => {}
        }
        self.chain.push(&entry);
        self.time_ms = entry.header.time_ms;
        Ok(entry)
    }

    /// Pretends that the chain ends here, like a faulty program that ignores a loss.
    #[cfg(test)]
    pub(crate) const fn pretend(&mut self, last: Position, epoch: u64, hash: EntryHash) {
        self.chain = Chain::new(self.chain.log(), self.chain.shard(), last, epoch, hash);
    }
}
