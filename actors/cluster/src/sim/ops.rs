//! The changes of the groups of a simulation, in the form that their entries carry.

/// One change of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// A code was issued.
    Issue(u32),
    /// A code was verified.
    Verify(u32),
    /// A message was accepted.
    Accept(u32),
    /// A message is about to be handed over.
    Claim(u32),
    /// A message was handed over, and its outcome is known.
    Sent(u32),
    /// A message was claimed by an owner before, and its outcome is not known.
    Unknown(u32),
    /// One more message in the window with this number.
    Count(u32),
    /// The bucket is empty until this engine time.
    Save(u32),
    /// The virtual time at which the group was made: only the judge sees it.
    Stamp(u32),
}

impl Change {
    const BYTES: usize = 5;

    const fn parts(self) -> (u8, u32) {
        match self {
            Self::Issue(it) => (0, it),
            Self::Verify(it) => (1, it),
            Self::Accept(it) => (2, it),
            Self::Claim(it) => (3, it),
            Self::Sent(it) => (4, it),
            Self::Unknown(it) => (5, it),
            Self::Count(it) => (6, it),
            Self::Save(it) => (7, it),
            Self::Stamp(it) => (8, it),
        }
    }

    const fn of(tag: u8, it: u32) -> Self {
        match tag {
            0 => Self::Issue(it),
            1 => Self::Verify(it),
            2 => Self::Accept(it),
            3 => Self::Claim(it),
            4 => Self::Sent(it),
            5 => Self::Unknown(it),
            6 => Self::Count(it),
            7 => Self::Save(it),
            _ => Self::Stamp(it),
        }
    }
}

/// Encodes the body of a group.
pub(super) fn body(changes: impl Iterator<Item = Change>) -> Vec<u8> {
    let mut body = Vec::with_capacity(4 * Change::BYTES);
    for change in changes {
        let (tag, it) = change.parts();
        body.push(tag);
        body.extend_from_slice(&it.to_be_bytes());
    }
    body
}

/// Decodes the changes in a body.
pub(super) fn changes(body: &[u8]) -> impl Iterator<Item = Change> {
    let numbers = body.chunks_exact(Change::BYTES);
    numbers.map(|it| Change::of(it[0], u32::from_be_bytes([it[1], it[2], it[3], it[4]])))
}
