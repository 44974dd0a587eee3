//! Faults that tests plant, each of which the simulation must catch.

/// A fault in the rules or in how a node follows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Planted {
    /// An entry is applied whether or not it follows the one before it.
    NoChainCheck,
    /// A refused publish means that another owns the shard.
    RefusalIsFenced,
    /// A publish without answer means that nothing was appended.
    TimeoutIsFailed,
    /// The right ends with the lease, by the node's own clock.
    NoMargin,
    /// The end and the entries of the log are read from a follower.
    TailFromFollower,
    /// A write is answered when it was published.
    AnswerBeforeAcknowledgement,
    /// The right is measured by the wall clock.
    TenureOnWallClock,
    /// The right is a flag that a timer clears.
    TenureAsFlag,
    /// A claim is appended before the entries below it are applied.
    ClaimWithoutCatchingUp,
    /// An owner whose position was taken goes on behind the entry that is there.
    TakenIgnored,
    /// A log that ends before what was applied is followed from its end.
    LogLostIgnored,
    /// A claim whose position was taken is made again behind it, whoever took it.
    OwnerNotAskedAgain,
    /// What was owned stays owned when the node's key was gone and is made anew.
    TermOutlivesKey,
    /// A node whose own claim is under way says that it does not own the shard.
    ReleasedWhileClaiming,
}

impl Planted {
    /// Every fault.
    pub(crate) const ALL: [Self; 14] = [
        Self::NoChainCheck,
        Self::RefusalIsFenced,
        Self::TimeoutIsFailed,
        Self::NoMargin,
        Self::TailFromFollower,
        Self::AnswerBeforeAcknowledgement,
        Self::TenureOnWallClock,
        Self::TenureAsFlag,
        Self::ClaimWithoutCatchingUp,
        Self::TakenIgnored,
        Self::LogLostIgnored,
        Self::OwnerNotAskedAgain,
        Self::TermOutlivesKey,
        Self::ReleasedWhileClaiming,
    ];
}
