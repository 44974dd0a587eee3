//! Finds, beside the actor, the broadcast that a message may be a reply to.
//!
//! [`Table::Analytics`] has a record of each phone that has written, under
//! `workspace ‖ 0 ‖ p ‖ phone`. It is the version (1) and the start of the newest searched
//! broadcast. Then it has, for each broadcast of which the phone is a recipient, its start, its id
//! and the recipient's place (u32). All are big endian.
//!
//! So each broadcast's audience is searched once for a phone, by its first message after the
//! broadcast started. A further message reads four records however many broadcasts there are. The
//! record can be rebuilt from the audiences: it is written when a phone writes, and not for a
//! million recipients of whom few do. It is deleted with the messages of the phone.

use postrider_broadcast::phone_index::place_of;
use postrider_broadcast::record::{WINDOW, window_key};
use postrider_domain::{BroadcastId, Phone, Timestamp, WorkspaceId};
use postrider_store::{StoreError, Table};

use crate::broadcasts::reply_attribution::{Live, LiveBroadcasts, went_out};
use crate::core::command::Context;
use crate::core::read_ahead::Reader;
use crate::sweep::{Look, RecordKeys};

const VERSION: u8 = 1;
/// The bytes of a start, an id and a place.
const ENTRY_BYTES: usize = 8 + 16 + 4;
/// The value for no place.
const NOWHERE: u32 = u32::MAX;

/// One recipient of a broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recipient {
    pub(super) broadcast: BroadcastId,
    pub(super) place: u32,
}

/// The result of the lookup of a message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Found {
    /// The recipient that replies with it, unless they have before.
    pub(super) recipient: Option<Recipient>,
    /// The new record of the phone, if it has changed.
    remembered: Option<Vec<u8>>,
}

impl Found {
    /// Writes the new record of the phone.
    pub(super) fn keep(&self, context: &mut Context<'_>, phone: Phone) {
        if let Some(remembered) = &self.remembered {
            let key = phone_key(&context.core.id, &phone.key_bytes());
            context.put(Table::Analytics, key, remembered.clone());
        }
    }
}

/// Returns the key of the record of a phone.
pub(crate) fn phone_key(workspace: &WorkspaceId, phone: &[u8; 8]) -> Vec<u8> {
    [workspace.as_str().as_bytes(), b"\0p", phone].concat()
}

/// Returns the record of a phone, if there is one.
///
/// # Errors
/// [`StoreError`]: the store cannot be read.
pub(crate) fn remembered(look: &Look<'_>, phone: &[u8; 8]) -> Result<RecordKeys, StoreError> {
    let key = phone_key(look.workspace, phone);
    let is_there = look.store.get(Table::Analytics, &key)?.is_some();
    Ok(is_there.then_some((Table::Analytics, key)).into_iter().collect())
}

/// The record of a phone.
#[derive(Debug, Default, PartialEq, Eq)]
struct OfPhone {
    /// The start of the newest searched broadcast.
    last: Timestamp,
    /// The broadcasts of which the phone is a recipient, with its place.
    ///
    /// The other broadcasts of the last moment are included, with `None`.
    broadcasts: Vec<(Timestamp, BroadcastId, Option<u32>)>,
}

impl OfPhone {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.last.as_millis().to_be_bytes());
        for (begun, id, place) in &self.broadcasts {
            bytes.extend_from_slice(&begun.as_millis().to_be_bytes());
            bytes.extend_from_slice(id.as_bytes());
            bytes.extend_from_slice(&place.unwrap_or(NOWHERE).to_be_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let damaged = || StoreError::Damaged("the broadcasts that a phone may reply to".into());
        let moment = |bytes: &[u8; 8]| Timestamp::from_millis(u64::from_be_bytes(*bytes));
        let (version, rest) = bytes.split_first().ok_or_else(damaged)?;
        let (last, rest) = rest.split_first_chunk().ok_or_else(damaged)?;
        let (entries, left) = rest.as_chunks::<ENTRY_BYTES>();
        if *version != VERSION || !left.is_empty() {
            return Err(damaged());
        }
        let entry = |entry: &[u8; ENTRY_BYTES]| {
            let (begun, rest) = entry.split_first_chunk()?;
            let (id, place) = rest.split_first_chunk()?;
            let place = u32::from_be_bytes(place.try_into().ok()?);
            let place = (place != NOWHERE).then_some(place);
            Some((moment(begun), BroadcastId::from_bytes(*id), place))
        };
        let broadcasts = entries.iter().map(entry).collect::<Option<_>>().ok_or_else(damaged)?;
        Ok(Self { last: moment(last), broadcasts })
    }

    /// Returns the phone's place in a broadcast; the outer `None` if it was not searched.
    fn place_in(&self, live: &Live) -> Option<Option<u32>> {
        let known = self.broadcasts.iter().find(|(_, id, _)| *id == live.id);
        known.map(|(.., place)| *place).or_else(|| (live.begun < self.last).then_some(None))
    }
}

/// Finds the broadcast to which a message of a phone, written at `at`, is a reply.
///
/// # Errors
/// [`StoreError`]: the store cannot be read.
pub(crate) fn look_up(
    reader: &mut Reader<'_>,
    workspace: &WorkspaceId,
    (phone, at): (Phone, Timestamp),
    broadcasts: &LiveBroadcasts,
) -> Result<Found, StoreError> {
    let key = phone_key(workspace, &phone.key_bytes());
    let bytes = reader.get(Table::Analytics, key)?;
    // It can be rebuilt, so an unreadable one costs no message.
    let before = bytes.map(|bytes| OfPhone::decode(&bytes)).transpose().unwrap_or_else(|error| {
        tracing::warn!(%workspace, %error, "it is made again");
        None
    });
    let before = before.unwrap_or_default();
    let last = broadcasts.live.first().map_or(before.last, |live| live.begun.max(before.last));
    let (mut recipient, mut is_found) = (None, false);
    let mut remembered = OfPhone { last, broadcasts: Vec::new() };
    for live in &broadcasts.live {
        let place = match before.place_in(live) {
            Some(place) => place,
            None => place_of(reader.store(), workspace, live.id, phone)?,
        };
        if place.is_some() || live.begun == last {
            remembered.broadcasts.push((live.begun, live.id, place));
        }
        let may_reply = live.begun <= at && live.end.is_none_or(|end| at < end);
        let Some(place) = place.filter(|_| may_reply && !is_found) else { continue };
        let key = window_key(workspace, live.id, place / WINDOW);
        let marks = reader.store().get(Table::BroadcastOutcomes, &key)?;
        let reports = reader.get(Table::BroadcastReports, key)?;
        let in_window = (place % WINDOW) as usize;
        let (went_out, mut reports) = went_out(marks, reports, in_window)?;
        is_found = went_out;
        let is_first = went_out && reports.reply(in_window);
        recipient = is_first.then_some(Recipient { broadcast: live.id, place });
    }
    let is_news = remembered != before;
    Ok(Found { recipient, remembered: is_news.then(|| remembered.encode()) })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use postrider_domain::golden::{AT, Sheet, UNIQUE};

    #[test]
    fn what_is_remembered_of_a_phone_is_stored_as_ever() {
        let [first, second] = [1, 2].map(|number| BroadcastId::from_parts(AT, UNIQUE + number));
        let mut sheet = Sheet::default();
        sheet.text("key", &phone_key(&"acme".parse().unwrap(), &15_550_123_456_u64.to_be_bytes()));
        for of_phone in [
            OfPhone::default(),
            OfPhone { last: AT, broadcasts: vec![(AT, first, Some(0x0102)), (AT, second, None)] },
        ] {
            sheet.bytes("broadcasts", &of_phone.encode());
            assert_eq!(OfPhone::decode(&of_phone.encode()), Ok(of_phone));
        }
        sheet.is(expect![[r#"
            key: acme\x00p\x00\x00\x00\x03\x9e\xdc\r\xc0
            broadcasts: 010000000000000000
            broadcasts:
                010000018bcfe5687b0000018bcfe5687b018bcfe5687b0102030405060708090b00000102000001
                8bcfe5687b018bcfe5687b0102030405060708090cffffffff
        "#]]);
        for damaged in [&[][..], &[2; 9], &[VERSION; 8], &[VERSION; 10]] {
            assert!(OfPhone::decode(damaged).is_err(), "{damaged:?}");
        }
    }
}
