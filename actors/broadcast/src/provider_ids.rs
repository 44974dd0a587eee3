//! Pure: the provider's ids of a broadcast's messages, packed.
//!
//! [`Table::BroadcastNames`] holds the ids under `workspace ‖ 0 ‖ id ‖ window ‖ place`. A record
//! has the ids that came with the outcomes of one commit, of messages from this place of the window
//! on. So each id is written once, with its outcome, and a window has a record for each commit that
//! settled some of it. An id that was reported before its outcome was known, or in its place, is
//! stored alone. Its key has the place and a bit that no place has.
//!
//! An id of the chat-app channel is `wamid.` and Base64. The Base64 encodes a few bytes, the
//! recipient's digits, a few more bytes, and hexadecimal digits. A record stores the bytes around
//! the digits once, and the digits as numbers: 18 bytes of 62. Any other id is stored unchanged.

use std::ops::ControlFlow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use postrider_domain::{BroadcastId, WorkspaceId};
use postrider_store::{Change, Direction, StoreError, Table, View};
use serde::{Deserialize, Serialize};

use crate::record::{WINDOW, names_key, reported_name_key};

const VERSION: u8 = 1;
/// The prefix of the chat-app channel's ids.
const PREFIX: &str = "wamid.";
/// The number of digits of a phone.
const PHONE_DIGITS: std::ops::RangeInclusive<usize> = 7..=15;
/// The minimum number of hexadecimal digits that are stored as numbers.
const HEX_MIN: usize = 8;
/// The approximate number of bytes of an id in a record.
const BYTES_EACH: usize = 20;

/// The parts that the ids of a record share.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct IdShape {
    before: Vec<u8>,
    between: Vec<u8>,
    after: Vec<u8>,
}

/// The ids of some messages of a window, by their places in it. They are borrowed when written, and
/// owned when read.
#[derive(Debug, Default, Serialize, Deserialize)]
struct PackedIds<Hex, Id> {
    version: u8,
    shape: IdShape,
    /// The ids of that shape: place, phone's digits as a number, and bytes of the hexadecimal
    /// digits.
    shaped: Vec<(u16, u64, Hex)>,
    /// The ids of any other shape.
    others: Vec<(u16, Id)>,
}

/// Returns the changes that write ids, given by the indices of their recipients.
pub fn changes(
    workspace: &WorkspaceId,
    id: BroadcastId,
    ids: &mut [(u32, Box<str>)],
) -> Vec<Change> {
    ids.sort_unstable_by_key(|(index, _)| *index);
    let of_window = ids.chunk_by(|(one, _), (other, _)| one / WINDOW == other / WINDOW);
    let change = |ids: &[(u32, Box<str>)]| {
        let first = ids.first().map_or(0, |(index, _)| *index);
        let bytes = pack(ids.iter().map(|(index, name)| (place(*index), &**name)));
        let key = names_key(workspace, id, first / WINDOW, place(first));
        Change::put(Table::BroadcastNames, key, bytes)
    };
    of_window.map(change).collect()
}

/// Returns the record of a reported id: its key and its value. The index is the recipient's.
pub fn reported(
    workspace: &WorkspaceId,
    id: BroadcastId,
    index: u32,
    name: &str,
) -> (Vec<u8>, Vec<u8>) {
    let key = reported_name_key(workspace, id, index / WINDOW, place(index));
    (key, pack([(place(index), name)].into_iter()))
}

/// Returns the place of a recipient in its window.
fn place(index: u32) -> u16 {
    u16::try_from(index % WINDOW).unwrap_or(u16::MAX)
}

/// Returns the provider's id of the message to the recipient at this index, if it is known.
pub fn name(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: BroadcastId,
    index: u32,
) -> Result<Option<Box<str>>, StoreError> {
    let place = place(index);
    let from = names_key(workspace, id, index / WINDOW, place);
    let prefix = &from[..from.len() - 2];
    let (mut found, mut damage) = (None, None);
    let (table, direction) = (Table::BroadcastNames, Direction::Backward);
    store.scan(table, prefix, Some(&from), direction, &mut |_, value| {
        match PackedIds::decode(value) {
            Ok(names) => found = names.get(place),
            Err(error) => damage = Some(error),
        }
        match found.is_none() && damage.is_none() {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    if let Some(damage) = damage {
        return Err(damage);
    }
    if found.is_some() {
        return Ok(found);
    }
    let key = reported_name_key(workspace, id, index / WINDOW, place);
    let reported = store.get(Table::BroadcastNames, &key)?;
    Ok(reported.map(|bytes| PackedIds::decode(&bytes)).transpose()?.and_then(|it| it.get(place)))
}

/// Returns the record of these ids. A broadcast's actor writes hundreds at a time, so it allocates
/// nothing for each.
fn pack<'a>(ids: impl ExactSizeIterator<Item = (u16, &'a str)>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ids.len() * BYTES_EACH);
    let (mut decoded, mut hex) = (Vec::new(), Vec::with_capacity(ids.len() * BYTES_EACH));
    let (mut shape, mut shaped, mut others) = (None, Vec::with_capacity(ids.len()), Vec::new());
    for (place, id) in ids {
        let parts = IdParts::of(id, &mut decoded);
        match parts.filter(|parts| shape.get_or_insert_with(|| parts.shape()).is_of(parts)) {
            Some(parts) => {
                let start = hex.len();
                hex.extend(parts.packed());
                shaped.push((place, parts.digits, start..hex.len()));
            }
            None => others.push((place, id)),
        }
    }
    let shaped = shaped.into_iter().map(|(place, digits, range)| (place, digits, &hex[range]));
    let shape = shape.unwrap_or_default();
    let names = PackedIds { version: VERSION, shape, shaped: shaped.collect(), others };
    postrider_domain::event::encode(&names, &mut bytes);
    bytes
}

impl PackedIds<Vec<u8>, Box<str>> {
    fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let read = postcard::from_bytes(bytes).ok().filter(|names: &Self| names.version == VERSION);
        read.ok_or_else(|| StoreError::Damaged("ids of a broadcast's messages".to_owned()))
    }

    fn get(&self, at: u16) -> Option<Box<str>> {
        let shaped = self.shaped.iter().find(|(place, ..)| *place == at);
        let shaped = shaped.map(|(_, digits, hex)| self.shape.join(*digits, hex));
        let other = || self.others.iter().find(|(place, _)| *place == at);
        shaped.or_else(|| other().map(|(_, id)| id.clone()))
    }
}

/// The parts of an id that has a shape, digits and hexadecimal digits only.
struct IdParts<'a> {
    before: &'a [u8],
    digits: u64,
    between: &'a [u8],
    /// An even number of hexadecimal digits.
    hex: &'a [u8],
    after: &'a [u8],
}

impl<'a> IdParts<'a> {
    /// Parses an id. The buffer holds the decoded bytes.
    fn of(id: &str, decoded: &'a mut Vec<u8>) -> Option<Self> {
        decoded.clear();
        BASE64_STANDARD.decode_vec(id.strip_prefix(PREFIX)?, decoded).ok()?;
        let start = decoded.windows(2).position(|two| two.iter().all(u8::is_ascii_digit))?;
        let (before, rest) = decoded.split_at(start);
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        // A number would lose a leading zero.
        if !PHONE_DIGITS.contains(&digits) || rest.first() == Some(&b'0') {
            return None;
        }
        let (digits, rest) = rest.split_at(digits);
        let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'A'..=b'F');
        let end = rest.iter().rposition(is_hex)? + 1;
        let hex = rest[..end].iter().rev().take_while(|byte| is_hex(byte)).count() & !1;
        if hex < HEX_MIN {
            return None;
        }
        let (between, hex) = rest[..end].split_at(end - hex);
        let digits = std::str::from_utf8(digits).ok()?.parse().ok()?;
        Some(Self { before, digits, between, hex, after: &rest[end..] })
    }

    fn shape(&self) -> IdShape {
        let [before, between, after] = [self.before, self.between, self.after].map(<[u8]>::to_vec);
        IdShape { before, between, after }
    }

    /// Returns the hexadecimal digits, two in each byte.
    fn packed(&self) -> impl Iterator<Item = u8> {
        let of = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default() as u8;
        self.hex.as_chunks().0.iter().map(move |[high, low]| of(*high) << 4 | of(*low))
    }
}

impl IdShape {
    fn is_of(&self, parts: &IdParts<'_>) -> bool {
        self.before == parts.before && self.between == parts.between && self.after == parts.after
    }

    fn join(&self, digits: u64, hex: &[u8]) -> Box<str> {
        let digit = |of: u8| b"0123456789ABCDEF"[usize::from(of & 0xf)];
        let hex: Vec<u8> = hex.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect();
        let digits = digits.to_string();
        let parts = [&*self.before, digits.as_bytes(), &self.between, &hex, &self.after];
        format!("{PREFIX}{}", BASE64_STANDARD.encode(parts.concat())).into()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use postrider_domain::golden::Sheet;
    use postrider_store::{Group, MemoryStore, Store};

    use super::*;

    /// Returns an id as the channel makes them.
    fn wamid(phone: &str, unique: u64) -> Box<str> {
        let unique = format!("{unique:018X}");
        let parts = [
            &[0x1c, 0x18, 0x0b][..],
            phone.as_bytes(),
            &[0x15, 2, 0, 0x11, 0x18, 0x12],
            unique.as_bytes(),
            &[0],
        ];
        format!("wamid.{}", BASE64_STANDARD.encode(parts.concat())).into()
    }

    #[test]
    fn ids_are_read_as_they_were_written_however_they_are_made() {
        let (store, workspace) = (MemoryStore::new(), "acme".parse().unwrap());
        let id = BroadcastId::from_bytes([7; 16]);
        let odd = ["wamid.fake1", "wamid.", "x", "wamid.HBgL", "wamid.MDAwMDAwMDAwMDAwMDAwMA=="];
        let names: Vec<(u32, Box<str>)> = (0..1200)
            .map(|index| match index % 10 {
                0 => (index, odd[index as usize / 10 % odd.len()].into()),
                1 => (index, wamid("01550123456", index.into())),
                _ => (index, wamid(&format!("1555{index:07}"), u64::from(index) << 30)),
            })
            .collect();
        // The ids arrive unordered, some in each commit.
        for part in 0..7 {
            let some = names.iter().filter(|(index, _)| index * 7919 % 7 == part);
            let mut some: Vec<_> = some.rev().cloned().collect();
            let changes = changes(&workspace, id, &mut some);
            assert_eq!(changes.len(), 3, "one for each window");
            store.commit(Group::new(None, &changes)).unwrap();
        }
        for (index, expected) in &names {
            assert_eq!(name(&store, &workspace, id, *index).unwrap().as_ref(), Some(expected));
        }
        assert_eq!(name(&store, &workspace, id, 1200).unwrap(), None);
        // A reported id is stored beside the others, and replaces none.
        for index in [0, 499, 1200] {
            let (key, value) = reported(&workspace, id, index, "wamid.reported");
            let change = Change::put(Table::BroadcastNames, key, value);
            store.commit(Group::new(None, &[change])).unwrap();
        }
        assert_eq!(name(&store, &workspace, id, 1200).unwrap().as_deref(), Some("wamid.reported"));
        for (index, expected) in [&names[0], &names[499]] {
            assert_eq!(name(&store, &workspace, id, *index).unwrap().as_ref(), Some(expected));
        }
        assert_eq!(name(&store, &workspace, BroadcastId::from_bytes([8; 16]), 0).unwrap(), None);
    }

    #[test]
    fn an_id_of_the_channel_takes_a_third_of_its_length() {
        let ids = (0..WINDOW).map(|index| wamid("15550123456", u64::from(index) << 40));
        let mut ids: Vec<_> = (0..).zip(ids).collect();
        let length: usize = ids.iter().map(|(_, id)| id.len()).sum();
        let changes = changes(&"acme".parse().unwrap(), BroadcastId::from_bytes([7; 16]), &mut ids);
        let [Change { value: Some(value), .. }] = &changes[..] else { panic!("one record") };
        assert!(value.len() <= 19 * WINDOW as usize && value.len() * 3 < length, "{}", value.len());
    }

    #[test]
    fn ids_are_stored_as_ever() {
        let mut ids = vec![(501, wamid("15550123456", 0xABC)), (502, "wamid.fake1".into())];
        let changes = changes(&"acme".parse().unwrap(), BroadcastId::from_bytes([7; 16]), &mut ids);
        let [Change { key, value: Some(value), .. }] = &changes[..] else { panic!("one record") };
        let mut sheet = Sheet::default();
        sheet.text("key", key);
        sheet.bytes("ids", value);
        sheet.is(expect![[r#"
            key: acme\x00\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x00\x00\x00\x01\x00\x01
            ids:
                01031c180b0615020011181201000101c09bf0f63909000000000000000abc01020b77616d69642e
                66616b6531
        "#]]);
        assert!(PackedIds::decode(&[2, 0, 0, 0, 0, 0]).is_err());
    }
}
