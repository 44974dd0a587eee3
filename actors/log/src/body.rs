//! Pure: the bodies of the entries, one type for each kind.

use bytes::{Buf, Bytes};

use crate::commit_parts::EncodeError;
use crate::entry::Position;
use crate::table;

#[cfg(test)]
mod tests;

/// The number of the data format that this version writes, and the highest one that it reads.
pub const DATA_FORMAT: u16 = 1;

/// The body of a claim: the identity of the new writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The name of the node.
    pub node: String,
    /// Random bytes of the process, so that two processes of one name differ.
    pub incarnation: [u8; 16],
    /// The version of the program, for people.
    pub program: String,
    /// The lowest data format that a reader must know for the following entries.
    pub readable_from: u16,
}

/// The body of a group commit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupBody {
    /// The encoded frame of journal events; empty when the group changes records only.
    pub frame: Bytes,
    /// The changes of records, in the order in which they apply.
    pub changes: Vec<RecordChange>,
}

/// A change of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordChange {
    /// The number of the table, one of [`table::NUMBERS`].
    pub table: u8,
    /// The record's key.
    pub key: Bytes,
    /// The record's value; `None` deletes it.
    pub value: Option<Bytes>,
}

/// The body of a checkpoint: an archive holds everything up to a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointNote {
    /// The position up to which the archive holds everything.
    pub position: Position,
    /// The name of the archive.
    pub archive: String,
    /// The SHA-256 of the archive.
    pub sha256: [u8; 32],
    /// The length of the archive.
    pub bytes: u64,
}

/// The body of a handoff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handoff {
    /// The node that shall have the shard.
    pub node: String,
}

/// The reason why a body cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The bytes are not a body of this kind.
    #[error("the body of a {0} is not what was written")]
    Damaged(&'static str),
    /// It holds a number that this version does not know.
    #[error("the body was written by a newer version: {field} {number} is not known")]
    Newer {
        /// The field of the number.
        field: &'static str,
        /// The number.
        number: u16,
    },
}

impl Claim {
    /// Encodes it: node, incarnation, program, lowest format. Texts have a length of two bytes.
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] for a text that does not fit.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let mut out = Vec::new();
        put_short("the node's name", self.node.as_bytes(), &mut out)?;
        out.extend_from_slice(&self.incarnation);
        put_short("the program's version", self.program.as_bytes(), &mut out)?;
        out.extend_from_slice(&self.readable_from.to_be_bytes());
        Ok(out)
    }

    /// Decodes the bytes of [`encode`](Self::encode).
    ///
    /// # Errors
    /// [`BodyError::Newer`] if the entries after the claim need a newer reader.
    pub fn decode(mut body: Bytes) -> Result<Self, BodyError> {
        let mut read = || {
            let node = take_text(&mut body)?;
            let incarnation = take_array(&mut body)?;
            let program = take_text(&mut body)?;
            let readable_from = body.try_get_u16().ok()?;
            body.is_empty().then_some(Self { node, incarnation, program, readable_from })
        };
        let claim = read().ok_or(BodyError::Damaged("claim"))?;
        if claim.readable_from > DATA_FORMAT {
            return Err(BodyError::Newer { field: "data format", number: claim.readable_from });
        }
        Ok(claim)
    }
}

/// The operations of changes, as stored on disk.
const DELETE: u8 = 0;
const PUT: u8 = 1;

/// A change of one record, borrowed for the length of a call.
#[derive(Debug, Clone, Copy)]
pub struct ChangeRef<'a> {
    /// The number of the table, one of [`table::NUMBERS`].
    pub table: u8,
    /// The record's key.
    pub key: &'a [u8],
    /// The record's value; `None` deletes it.
    pub value: Option<&'a [u8]>,
}

/// Encodes a group: length and bytes of the frame, count of changes, then each change.
///
/// A change is its table, its operation, length and bytes of the key, and for a put length and
/// bytes of the value.
///
/// # Errors
/// [`EncodeError::TooLong`] for a frame, key or value that does not fit.
pub fn encode_group<'a>(
    frame: &[u8],
    changes: impl ExactSizeIterator<Item = ChangeRef<'a>> + Clone,
) -> Result<Vec<u8>, EncodeError> {
    let size = |change: ChangeRef<'_>| change.key.len() + change.value.map_or(0, <[u8]>::len) + 8;
    let bytes = changes.clone().map(size).sum::<usize>();
    let mut out = Vec::with_capacity(frame.len() + bytes + 8);
    put_long("the frame", frame, &mut out)?;
    put_length("the list of changes", changes.len(), &mut out)?;
    for ChangeRef { table, key, value } in changes {
        out.push(table);
        out.push(if value.is_some() { PUT } else { DELETE });
        put_short("a key", key, &mut out)?;
        if let Some(value) = value {
            put_long("a value", value, &mut out)?;
        }
    }
    Ok(out)
}

impl GroupBody {
    /// Encodes it as [`encode_group`] does.
    ///
    /// # Errors
    /// Those of [`encode_group`].
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let changes = self.changes.iter().map(|RecordChange { table, key, value }| ChangeRef {
            table: *table,
            key,
            value: value.as_deref(),
        });
        encode_group(&self.frame, changes)
    }

    /// Decodes the bytes of [`encode`](Self::encode). Keys and values share the body's memory.
    ///
    /// # Errors
    /// [`BodyError::Newer`] for a table or an operation that this version does not know.
    pub fn decode(mut body: Bytes) -> Result<Self, BodyError> {
        let damaged = || BodyError::Damaged("group");
        let frame = take_long(&mut body).ok_or_else(damaged)?;
        let count = body.try_get_u32().map_err(|_| damaged())?;
        let mut changes = Vec::new();
        for _ in 0..count {
            let table = body.try_get_u8().map_err(|_| damaged())?;
            let operation = body.try_get_u8().map_err(|_| damaged())?;
            if table::name(table).is_none() {
                return Err(BodyError::Newer { field: "table", number: table.into() });
            }
            let key = take_short(&mut body).ok_or_else(damaged)?;
            let value = match operation {
                DELETE => None,
                PUT => Some(take_long(&mut body).ok_or_else(damaged)?),
                number => {
                    return Err(BodyError::Newer { field: "operation", number: number.into() });
                }
            };
            changes.push(RecordChange { table, key, value });
        }
        if body.is_empty() { Ok(Self { frame, changes }) } else { Err(damaged()) }
    }
}

impl CheckpointNote {
    /// Encodes it: position, name of the archive, SHA-256, length.
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] for a name that does not fit.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let mut out = self.position.0.to_be_bytes().to_vec();
        put_short("the archive's name", self.archive.as_bytes(), &mut out)?;
        out.extend_from_slice(&self.sha256);
        out.extend_from_slice(&self.bytes.to_be_bytes());
        Ok(out)
    }

    /// Decodes the bytes of [`encode`](Self::encode).
    ///
    /// # Errors
    /// [`BodyError::Damaged`] when the bytes are not such a body.
    pub fn decode(mut body: Bytes) -> Result<Self, BodyError> {
        let mut read = || {
            let position = Position(body.try_get_u64().ok()?);
            let archive = take_text(&mut body)?;
            let sha256 = take_array(&mut body)?;
            let bytes = body.try_get_u64().ok()?;
            body.is_empty().then_some(Self { position, archive, sha256, bytes })
        };
        read().ok_or(BodyError::Damaged("checkpoint"))
    }
}

impl Handoff {
    /// Encodes it: the name of the node.
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] for a name that does not fit.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let mut out = Vec::new();
        put_short("the node's name", self.node.as_bytes(), &mut out)?;
        Ok(out)
    }

    /// Decodes the bytes of [`encode`](Self::encode).
    ///
    /// # Errors
    /// [`BodyError::Damaged`] when the bytes are not such a body.
    pub fn decode(mut body: Bytes) -> Result<Self, BodyError> {
        let node = take_text(&mut body).filter(|_| body.is_empty());
        node.map(|node| Self { node }).ok_or(BodyError::Damaged("handoff"))
    }
}

fn put_short(what: &'static str, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let too_long = too_long(what, bytes.len(), u16::MAX.into());
    let length = u16::try_from(bytes.len()).map_err(|_| too_long)?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

fn put_long(what: &'static str, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    put_length(what, bytes.len(), out)?;
    out.extend_from_slice(bytes);
    Ok(())
}

fn put_length(what: &'static str, length: usize, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let too_long = too_long(what, length, u32::MAX as usize);
    out.extend_from_slice(&u32::try_from(length).map_err(|_| too_long)?.to_be_bytes());
    Ok(())
}

const fn too_long(field: &'static str, length: usize, max: usize) -> EncodeError {
    EncodeError::TooLong { field, length, max }
}

fn take_short(body: &mut Bytes) -> Option<Bytes> {
    let length = usize::from(body.try_get_u16().ok()?);
    (body.len() >= length).then(|| body.split_to(length))
}

fn take_long(body: &mut Bytes) -> Option<Bytes> {
    let length = body.try_get_u32().ok()? as usize;
    (body.len() >= length).then(|| body.split_to(length))
}

fn take_text(body: &mut Bytes) -> Option<String> {
    String::from_utf8(take_short(body)?.to_vec()).ok()
}

fn take_array<const N: usize>(body: &mut Bytes) -> Option<[u8; N]> {
    let mut out = [0; N];
    body.try_copy_to_slice(&mut out).ok()?;
    Some(out)
}
