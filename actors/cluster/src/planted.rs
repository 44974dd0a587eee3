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
    /// A write is answered as soon as it was published.
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
    /// A claim whose position was taken is repeated behind it, whoever took it.
    OwnerNotAskedAgain,
    /// An owned shard stays owned after the node's key had expired and was written again.
    TermOutlivesKey,
    /// A node whose own claim is under way replies that it does not own the shard.
    ReleasedWhileClaiming,
    /// An answer that was asked for before a pause and read after it counts as fresh.
    LateAnswerTakenForFresh,
    /// The next owner's windows are empty.
    WindowsForgotten,
    /// The next owner's buckets are full.
    BucketsForgotten,
    /// Buckets are saved each ten seconds.
    BucketsSavedLate,
    /// A node whose wall clock differs claims as any other.
    ClockNotCompared,
    /// The next owner's engine time begins with its wall clock, whatever the log says.
    TimeGoesBack,
    /// A message is handed over while its claim is still under way.
    HandedOverBeforeClaim,
    /// A message that the owner before had claimed is handed over as if it had not been.
    ClaimedSentAgain,
    /// A message leaves the process without a check of the tenure.
    HandedOverUnchecked,
    /// A shard is claimed when its handoff was promised, and not when it is in the log.
    HandoffNotAwaited,
    /// A promised handoff is waited for without end.
    HandoffAwaitedForever,
    /// Each look at the bucket may start two moves, however many are under way.
    MovesNotCounted,
    /// The log is trimmed to the newest checkpoint, whatever the older one needs.
    TrimsPastOlder,
    /// An owner that was idle appends without a check of its tenure.
    IdleOwnerNotAsked,
    /// An engine starts with a server's copy of its log, which may lack entries before its claim.
    ReadEndsEarly,
}

impl Planted {
    /// Every fault.
    pub(crate) const ALL: [Self; 29] = [
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
        Self::LateAnswerTakenForFresh,
        Self::WindowsForgotten,
        Self::BucketsForgotten,
        Self::BucketsSavedLate,
        Self::ClockNotCompared,
        Self::TimeGoesBack,
        Self::HandedOverBeforeClaim,
        Self::ClaimedSentAgain,
        Self::HandedOverUnchecked,
        Self::HandoffNotAwaited,
        Self::HandoffAwaitedForever,
        Self::MovesNotCounted,
        Self::TrimsPastOlder,
        Self::IdleOwnerNotAsked,
        Self::ReadEndsEarly,
    ];
}
