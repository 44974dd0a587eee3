//! Pure: the recipients of a broadcast, in immutable segments, and their index by phone.
//!
//! A recipient is packed in eight bytes. Variables are stored beside, where a recipient has any.

use std::ops::ControlFlow;

use hashbrown::HashSet;
use postrider_domain::national_forms::canonical;
use postrider_domain::{BroadcastId, Phone, WorkspaceId};
use postrider_store::{Change, Direction, StoreError, Table, View};
use serde_json::{Value, json};

use crate::record::{SEGMENT, SegmentPart, parts_prefix, phones_key, segment_key};

/// The values of one recipient's body parameters, in their order.
pub type Variables = Box<[Box<str>]>;

/// The number of recipients in one chunk of the index by phone.
const CHUNK: usize = 1000;
/// The bytes of one entry of the index, big endian: the phone in canonical form (u64) and its index
/// (u32).
const ENTRY: usize = 12;

/// Recipients in the order in which they were added. A broadcast sends to each of them once.
#[derive(Debug, Clone, Default)]
pub struct Audience {
    /// The recipients' phones, in the form of [`Phone::as_u64`].
    pub phones: Vec<u64>,
    /// The variables of every recipient; `None` while no recipient has any.
    pub variables: Option<Vec<Variables>>,
}

impl Audience {
    /// Returns an audience without recipients.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a recipient. If the same phone is added again, the first one counts.
    pub fn add(&mut self, phone: Phone, variables: Variables) {
        if !variables.is_empty() && self.variables.is_none() {
            self.variables = Some(vec![Variables::default(); self.phones.len()]);
        }
        self.phones.push(phone.as_u64());
        if let Some(all) = &mut self.variables {
            all.push(variables);
        }
    }

    /// Returns the number of recipients that were added.
    #[must_use]
    pub fn len(&self) -> usize {
        self.phones.len()
    }

    /// Returns whether there are no recipients.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.phones.is_empty()
    }

    /// Removes duplicate recipients, in whatever form, and keeps the first of each. It sorts
    /// indices, which takes a third of the memory of a hash set.
    pub fn leave_each_once(&mut self) {
        if self.phones.is_sorted_by(|one, next| canonical(*one) < canonical(*next)) {
            return;
        }
        let mut order: Vec<u32> = (0..).take(self.phones.len()).collect();
        order.sort_unstable_by_key(|at| (canonical(self.phones[*at as usize]), *at));
        let mut repeated = vec![false; self.phones.len()];
        for pair in order.windows(2) {
            let [one, next] = [pair[0], pair[1]].map(|at| at as usize);
            repeated[next] = canonical(self.phones[one]) == canonical(self.phones[next]);
        }
        let mut at = repeated.iter();
        self.phones.retain(|_| at.next() == Some(&false));
        if let Some(variables) = &mut self.variables {
            let mut at = repeated.iter();
            variables.retain(|_| at.next() == Some(&false));
        }
    }

    /// Moves the recipients that have opted out behind the others. Returns how many others there
    /// are.
    pub fn set_aside(&mut self, opted_out: &HashSet<Phone>) -> usize {
        if opted_out.is_empty() {
            return self.phones.len();
        }
        let is_out = |phone| opted_out.contains(&phone);
        let aside = |at: &usize| Phone::from_digits(self.phones[*at]).is_ok_and(is_out);
        let (out, stay): (Vec<_>, Vec<_>) = (0..self.phones.len()).partition(aside);
        let sendable = stay.len();
        let order = || stay.iter().chain(&out);
        let phones = order().map(|at| self.phones[*at]).collect();
        if let Some(variables) = &mut self.variables {
            *variables = order().map(|at| std::mem::take(&mut variables[*at])).collect();
        }
        self.phones = phones;
        sendable
    }

    /// Returns the changes that write one segment.
    pub fn segment(&self, workspace: &WorkspaceId, id: BroadcastId, segment: u32) -> Vec<Change> {
        let from = segment as usize * SEGMENT as usize;
        let to = self.phones.len().min(from + SEGMENT as usize);
        let packed: Vec<u8> =
            self.phones[from..to].iter().flat_map(|phone| phone.to_be_bytes()).collect();
        let key = |part| segment_key(workspace, id, segment, part);
        let mut changes =
            vec![Change::put(Table::BroadcastAudience, key(SegmentPart::Phones), packed)];
        if let Some(variables) = &self.variables {
            let mut value = Vec::new();
            postrider_domain::event::encode(&&variables[from..to], &mut value);
            let key = key(SegmentPart::Variables);
            changes.push(Change::put(Table::BroadcastAudience, key, value));
        }
        changes
    }

    /// Returns the number of segments.
    pub fn segments(&self) -> u32 {
        u32::try_from(self.phones.len().div_ceil(SEGMENT as usize)).unwrap_or(u32::MAX)
    }
}

/// One segment as it was read from the store.
#[derive(Debug, Default)]
pub struct Segment {
    /// The position of this segment in the audience, from 0.
    pub number: u32,
    phones: Vec<u64>,
    variables: Option<Vec<Variables>>,
}

impl Segment {
    /// Reads a segment. `personal` says whether recipients have variables.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if a part of it is missing or cannot be decoded, and the errors of
    /// [`View::get`].
    pub fn read(
        store: &dyn View,
        workspace: &WorkspaceId,
        id: BroadcastId,
        number: u32,
        personal: bool,
    ) -> Result<Self, StoreError> {
        let part = |part| {
            let key = segment_key(workspace, id, number, part);
            store.get(Table::BroadcastAudience, &key)?.ok_or_else(|| {
                StoreError::Damaged(format!("segment {number} of broadcast {id} is missing"))
            })
        };
        let packed = part(SegmentPart::Phones)?;
        let (phones, _) = packed.as_chunks::<8>();
        let phones = phones.iter().map(|phone| u64::from_be_bytes(*phone)).collect();
        let variables = match personal {
            false => None,
            true => Some(postcard::from_bytes(&part(SegmentPart::Variables)?).map_err(|_| {
                StoreError::Damaged(format!("variables of broadcast {id} cannot be read"))
            })?),
        };
        Ok(Self { number, phones, variables })
    }

    /// Returns the recipient at this index of the audience, with its variables.
    pub fn recipient(&self, index: u32) -> Option<(Phone, &[Box<str>])> {
        let at = (index % SEGMENT) as usize;
        let phone = Phone::from_digits(*self.phones.get(at)?).ok()?;
        let variables = self.variables.as_ref().and_then(|all| all.get(at));
        Some((phone, variables.map_or(&[][..], |own| own)))
    }
}

/// The indices of an audience, sorted by phone. They are written in chunks with the audience, so
/// that a reply finds its broadcast without a scan of every recipient.
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

/// Returns the parameters of a recipient's message. Variables replace the shared body parameters.
pub fn with_variables(components: &[Value], variables: &[Box<str>]) -> Vec<Value> {
    if variables.is_empty() {
        return components.to_vec();
    }
    let is_body = |component: &&Value| {
        component["type"].as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("body"))
    };
    let others = components.iter().filter(|component| !is_body(component)).cloned();
    let texts = variables.iter().map(|text| json!({ "type": "text", "text": text }));
    let body = json!({ "type": "body", "parameters": texts.collect::<Vec<_>>() });
    others.chain([body]).collect()
}

#[cfg(test)]
mod tests {
    use postrider_store::{Group, MemoryStore, Store};

    use super::*;

    fn phone(digits: u64) -> Phone {
        Phone::from_digits(digits).unwrap()
    }

    #[test]
    fn a_recipient_counts_once_and_who_opted_out_comes_last() {
        let mut audience = Audience::new();
        for digits in [1_000_003, 1_000_001, 1_000_003, 1_000_002] {
            audience.add(phone(digits), Variables::default());
        }
        audience.add(phone(1_000_004), Box::new(["a".into()]));
        audience.add(phone(1_000_004), Box::new(["b".into()]));
        audience.add(phone(1_000_001), Box::new(["c".into()]));
        audience.leave_each_once();
        assert_eq!(audience.phones, [1_000_003, 1_000_001, 1_000_002, 1_000_004]);
        let opted_out = [1_000_001, 1_000_009].into_iter().map(phone).collect();
        assert_eq!(audience.set_aside(&opted_out), 3);
        assert_eq!(audience.phones, [1_000_003, 1_000_002, 1_000_004, 1_000_001]);
        let variables =
            audience.variables.unwrap().iter().map(|own| own.concat()).collect::<Vec<_>>();
        assert_eq!(variables, ["", "", "a", ""]);
    }

    #[test]
    fn two_forms_of_a_phone_are_one_recipient() {
        let (long, short) = (5_511_987_654_321, 551_187_654_321);
        for (first, second) in [(long, short), (short, long)] {
            let mut audience = Audience::new();
            for digits in [first, 1_000_001, second] {
                audience.add(phone(digits), Variables::default());
            }
            audience.leave_each_once();
            assert_eq!(audience.phones, [first, 1_000_001]);
            let opted_out = std::iter::once(phone(second)).collect();
            assert_eq!(audience.set_aside(&opted_out), 1);
            assert_eq!(audience.phones, [1_000_001, first]);
        }
    }

    #[test]
    fn each_is_left_once_where_it_came_first() {
        for count in [0_u64, 1, 2, 1000] {
            let mut audience = Audience::new();
            // Each of a third of them thrice, far apart.
            let digits = |at: u64| 1_000_000 + at * 7919 % count.div_ceil(3);
            (0..count).for_each(|at| audience.add(phone(digits(at)), Variables::default()));
            let mut seen = HashSet::new();
            let expected: Vec<_> = (0..count).map(digits).filter(|it| seen.insert(*it)).collect();
            audience.leave_each_once();
            assert_eq!(audience.phones, expected, "{count}");
        }
    }

    #[test]
    fn segments_are_read_as_they_were_written() {
        use postrider_store::{Group, Store};

        let store = postrider_store::MemoryStore::new();
        let (workspace, id) = ("acme".parse().unwrap(), BroadcastId::from_bytes([7; 16]));
        let mut audience = Audience::new();
        for at in 0..u64::from(SEGMENT) + 3 {
            audience.add(phone(1_000_000 + at), Box::new([at.to_string().into()]));
        }
        assert_eq!(audience.segments(), 2);
        for segment in 0..2 {
            store.commit(Group::new(None, &audience.segment(&workspace, id, segment))).unwrap();
        }
        let last = Segment::read(&store, &workspace, id, 1, true).unwrap();
        let (found, variables) = last.recipient(SEGMENT + 2).unwrap();
        assert_eq!(found.as_u64(), 1_000_002 + u64::from(SEGMENT));
        assert_eq!(&*variables[0], (SEGMENT + 2).to_string());
        assert!(last.recipient(SEGMENT + 3).is_none());
        assert!(Segment::read(&store, &workspace, id, 2, false).is_err());
    }

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
