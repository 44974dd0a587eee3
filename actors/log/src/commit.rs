//! Pure: the check that appended entries are exactly one commit that follows the last one.

use bytes::Bytes;

use crate::chain::Chain;
use crate::entry::{Entry, Header, Kind, Position};

/// A commit that may be appended.
#[derive(Debug)]
pub struct Checked {
    /// Its entries.
    pub entries: Vec<Entry>,
    /// The chain behind it.
    pub chain: Chain,
}

impl Checked {
    /// Returns the header of the last entry.
    #[must_use]
    pub fn last_header(&self) -> Option<Header> {
        self.entries.last().map(|entry| entry.header.clone())
    }

    /// Returns the bytes of all entries.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.bytes.len()).sum()
    }

    /// Returns the bytes for the disk: the entries, one behind the other.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        match self.entries.as_slice() {
            [only] => only.bytes.clone(),
            all => all.iter().fold(Vec::new(), joined).into(),
        }
    }
}

fn joined(mut all: Vec<u8>, entry: &Entry) -> Vec<u8> {
    all.extend_from_slice(&entry.bytes);
    all
}

/// Checks that the entries are one whole commit that may follow the chain, at position `at`.
///
/// `claimed` is set once the writer has claimed the log; without it only a claim is accepted.
///
/// # Errors
/// The reason for the refusal.
pub fn check(
    chain: &Chain,
    at: Position,
    entries: &[Bytes],
    claimed: bool,
    entry_bytes_max: usize,
) -> Result<Checked, String> {
    let next = chain.last().next();
    if at != next {
        return Err(format!("position {at} is not the next one, which is {next}"));
    }
    let mut chain = chain.clone();
    let mut checked = Vec::with_capacity(entries.len());
    for bytes in entries {
        if bytes.len() > entry_bytes_max {
            let length = bytes.len();
            return Err(format!("an entry of {length} bytes is larger than {entry_bytes_max}"));
        }
        let entry = Entry::decode(bytes.clone()).map_err(|fault| fault.to_string())?;
        if !claimed && entry.header.kind != Kind::Claim {
            return Err("the writer has not claimed the log since it was opened".to_owned());
        }
        if !checked.is_empty() && entry.header.part == 0 {
            return Err("the entries are of more than one commit".to_owned());
        }
        chain.check_and_push(&entry).map_err(|fault| fault.to_string())?;
        checked.push(entry);
    }
    if checked.is_empty() {
        return Err("there are no entries".to_owned());
    }
    if !chain.is_whole() {
        return Err("the last part of the commit is missing".to_owned());
    }
    Ok(Checked { entries: checked, chain })
}
