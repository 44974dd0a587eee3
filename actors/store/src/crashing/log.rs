//! Pure: encodes the log of the crashing store, as bytes that a crash can tear.

use crate::{Change, Frame, Position, Table};

const _: () = assert!(Table::ALL.len() <= 1 << u8::BITS);

/// One entry of the log. A change's table is stored as one byte.
pub(super) enum Entry {
    Commit(Option<Frame>, Vec<Change>),
    Trim(Position),
}

/// Appends an entry: its length and its CRC-32 (u32 each), then the entry itself. All numbers are
/// big endian.
pub(super) fn append(log: &mut Vec<u8>, entry: &Entry) {
    let field = |out: &mut Vec<u8>, bytes: &[u8]| {
        out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        out.extend_from_slice(bytes);
    };
    let mut body = Vec::new();
    match entry {
        Entry::Trim(through) => {
            body.push(0);
            body.extend_from_slice(&through.0.to_be_bytes());
        }
        Entry::Commit(frame, changes) => {
            body.push(1);
            let mut encoded = Vec::new();
            frame.iter().for_each(|frame| frame.encode_into(&mut encoded));
            field(&mut body, &encoded);
            for Change { table, key, value } in changes {
                body.extend_from_slice(&[*table as u8, u8::from(value.is_some())]);
                field(&mut body, key);
                field(&mut body, value.as_deref().unwrap_or_default());
            }
        }
    }
    log.extend_from_slice(&(body.len() as u32).to_be_bytes());
    log.extend_from_slice(&crc32fast::hash(&body).to_be_bytes());
    log.extend_from_slice(&body);
}

/// Takes the first entry off a log. Returns `None` at the end and at the first torn entry.
pub(super) fn take(log: &mut &[u8]) -> Option<Entry> {
    let word = |from: &mut &[u8]| {
        let (word, rest) = from.split_first_chunk()?;
        *from = rest;
        Some(u32::from_be_bytes(*word))
    };
    let length = word(log)?;
    let checksum = word(log)?;
    let (mut body, rest) = log.split_at_checked(length as usize)?;
    if crc32fast::hash(body) != checksum {
        return None;
    }
    *log = rest;
    let field = |from: &mut &[u8]| {
        let length = word(from)?;
        let (field, rest) = from.split_at_checked(length as usize)?;
        *from = rest;
        Some(field.to_vec())
    };
    let (&kind, rest) = body.split_first()?;
    body = rest;
    if kind == 0 {
        return Some(Entry::Trim(Position(u64::from_be_bytes(body.try_into().ok()?))));
    }
    let frame = field(&mut body)?;
    let frame = if frame.is_empty() { None } else { Some(Frame::decode(&frame).ok()?) };
    let mut changes = Vec::new();
    while let Some((&[table, is_put], rest)) = body.split_first_chunk() {
        body = rest;
        let (key, value) = (field(&mut body)?, field(&mut body)?);
        let table = *Table::ALL.get(usize::from(table))?;
        changes.push(Change { table, key, value: (is_put == 1).then_some(value) });
    }
    Some(Entry::Commit(frame, changes))
}
