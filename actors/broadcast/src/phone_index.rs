//! Pure: the index of a broadcast's audience by phone.
//!
//! It is written in chunks with the audience, so that a reply finds its broadcast without a scan of
//! every recipient.

use std::ops::ControlFlow;

use postrider_domain::national_forms::canonical;
use postrider_domain::{BroadcastId, Phone, WorkspaceId};
use postrider_store::{Change, Direction, StoreError, Table, View};

use super::record::{parts_prefix, phones_key};

/// The number of recipients in one chunk.
const CHUNK: usize = 1000;
/// The bytes of one entry, big endian: the phone in canonical form (u64) and its index (u32).
const ENTRY: usize = 12;

/// The indices of an audience, sorted by phone.
pub struct ByPhone(Vec<u32>);

impl ByPhone {
    /// Sorts the recipients with these phones.
    pub fn of(phones: &[u64]) -> Self {
        let mut places: Vec<_> = (0..u32::try_from(phones.len()).unwrap_or(u32::MAX)).collect();
        places.sort_unstable_by_key(|place| canonical(phones[*place as usize]));
        Self(places)
    }

    /// Returns the changes that write all chunks. The iterator makes each change when it reaches
    /// it.
    pub fn changes<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        id: BroadcastId,
        phones: &'a [u64],
    ) -> impl Iterator<Item = Change> + 'a {
        self.0.chunks(CHUNK).map(move |places| {
            let mut value = Vec::with_capacity(places.len() * ENTRY);
            for place in places {
                value.extend_from_slice(&canonical(phones[*place as usize]).to_be_bytes());
                value.extend_from_slice(&place.to_be_bytes());
            }
            let first = places.first().map_or(0, |place| canonical(phones[*place as usize]));
            Change::put(Table::BroadcastPhones, phones_key(workspace, id, first), value)
        })
    }
}

/// Returns the index of a phone in a broadcast's audience.
///
/// # Errors
/// The errors of [`View::scan`].
pub fn place_of(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: BroadcastId,
    phone: Phone,
) -> Result<Option<u32>, StoreError> {
    let phone = phone.canonical();
    let (prefix, from) = (parts_prefix(workspace, id), phones_key(workspace, id, phone.as_u64()));
    let mut place = None;
    let mut visit = |_: &[u8], value: &[u8]| {
        let (entries, _) = value.as_chunks::<ENTRY>();
        let phone = phone.key_bytes();
        let found = entries.binary_search_by(|entry| entry[..8].cmp(&phone));
        place =
            found.ok().and_then(|at| entries[at].last_chunk()).map(|at| u32::from_be_bytes(*at));
        ControlFlow::Break(())
    };
    store.scan(Table::BroadcastPhones, &prefix, Some(&from), Direction::Backward, &mut visit)?;
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use postrider_store::Store;
    use postrider_store::{Group, MemoryStore};

    #[test]
    fn every_phone_has_its_place_and_no_other_has_one() {
        let (store, workspace) = (MemoryStore::new(), "acme".parse().unwrap());
        let id = BroadcastId::from_bytes([7; 16]);
        // The phones are unordered, and with gaps.
        let phones: Vec<u64> = (0..2500).map(|at| 1_000_000 + (at * 7919 % 2500) * 3).collect();
        let changes: Vec<_> = ByPhone::of(&phones).changes(&workspace, id, &phones).collect();
        assert_eq!(changes.len(), 3);
        store.commit(Group::new(None, &changes)).unwrap();
        let place = |id, digits| {
            place_of(&store, &workspace, id, Phone::from_digits(digits).unwrap()).unwrap()
        };
        for (at, digits) in phones.iter().enumerate() {
            assert_eq!(place(id, *digits), Some(at as u32));
            assert_eq!(place(id, digits + 1), None);
        }
        assert_eq!(place(id, 9_999_999), None);
        assert_eq!(place(BroadcastId::from_bytes([8; 16]), phones[0]), None);
        assert_eq!(place(BroadcastId::from_bytes([6; 16]), phones[0]), None);
    }

    #[test]
    fn a_phone_has_its_place_in_every_form() {
        let (store, workspace) = (MemoryStore::new(), "acme".parse().unwrap());
        let id = BroadcastId::from_bytes([9; 16]);
        let phones = [15_550_123_456, 551_187_654_321, 5_511_987_654_320];
        let changes: Vec<_> = ByPhone::of(&phones).changes(&workspace, id, &phones).collect();
        store.commit(Group::new(None, &changes)).unwrap();
        for (digits, at) in [(551_187_654_321, 1), (5_511_987_654_321, 1), (551_187_654_320, 2)] {
            let phone = Phone::from_digits(digits).unwrap();
            assert_eq!(place_of(&store, &workspace, id, phone), Ok(Some(at)));
        }
    }
}
