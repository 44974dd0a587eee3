//! The index that lists and searches contacts, written in the commit of the contact itself.
//!
//! All is in [`Table::ContactIndex`]: `workspace ‖ 0 ‖ l ‖ number` are bitmaps of the places that
//! have a contact. `t ‖ chunk` are the texts of the search, `f ‖ chunk` the facets that segments
//! need: the tags and custom fields of 64 neighbours in one record, as hashes.
//!
//! A search reads all texts, some 60 bytes a contact. That takes the same time for every word,
//! finds words of any length in any script, and counts the matches on the way. An index of words
//! or of their parts would be faster for rare words only. It would be slower for common ones and
//! many times larger.

use memchr::memmem::Finder;
use postrider_domain::fold::fold;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{Email, Phone, UserId, WorkspaceId};
use postrider_store::{StoreError, Table};
use serde_json::{Number, Value};
use xxhash_rust::xxh3::xxh3_64;

use crate::contacts::occupancy::{Mask, chunk_of, slot_of};
use crate::contacts::record::Contact;
use crate::contacts::{occupancy, record};
use crate::core::command::Context;
use crate::core::view::Reader;

const INDEX: Table = Table::ContactIndex;

/// Ends a contact's text. Neither byte is in any UTF-8.
const END: u8 = 0xfe;
/// Ends a field, so that no match reaches from one into the next.
const FIELD_END: u8 = 0xff;

/// Reads the index entries of the contact at a place, for a command.
///
/// # Errors
/// [`StoreError`]: the store cannot be read.
pub(crate) fn read_ahead(
    reader: &mut Reader<'_>,
    workspace: &WorkspaceId,
    place: u64,
) -> Result<(), StoreError> {
    let chunk = chunk_of(place);
    for (kind, number) in [(b'l', occupancy::bitmap_of(chunk)), (b't', chunk), (b'f', chunk)] {
        reader.get(INDEX, record::key(workspace, kind, number))?;
    }
    Ok(())
}

/// Makes the index show the contact at `place` as it is now: `None` when it is removed.
///
/// Changes nothing if it fails.
pub(crate) fn update(
    context: &mut Context<'_>,
    place: u64,
    contact: Option<&Contact>,
) -> Result<(), Unavailable> {
    let (chunk, slot) = (chunk_of(place), slot_of(place));
    let key = |kind, number| record::key(&context.core.id, kind, number);
    let keys = [key(b'l', occupancy::bitmap_of(chunk)), key(b't', chunk), key(b'f', chunk)];
    let text = contact.map(text_of);
    let entry = contact.map(entry_of);
    let mut old = Vec::with_capacity(keys.len());
    for key in &keys {
        old.push(context.get(INDEX, key)?);
    }
    let new = [
        occupancy::with_place(old[0].clone(), place, contact.is_some()),
        with_text(old[1].as_deref(), slot, text.as_deref()),
        with_entry(old[2].as_deref(), slot, entry.as_deref()),
    ];
    for ((key, old), new) in keys.into_iter().zip(old).zip(new) {
        match new {
            new if new == old => {}
            Some(value) => context.put(INDEX, key, value),
            None => context.delete(INDEX, key),
        }
    }
    Ok(())
}

/// Returns a contact's text: its names, phone and e-mail, in one case.
///
/// The names are the contact's own and those by which the channel knows the person.
pub(crate) fn text_of(contact: &Contact) -> Vec<u8> {
    let mut text = fold(contact.name.as_str()).into_bytes();
    text.push(FIELD_END);
    if let Some(phone) = contact.phone {
        text.extend_from_slice(phone.to_string().as_bytes());
    }
    text.push(FIELD_END);
    text.extend_from_slice(fold(contact.email.as_ref().map_or("", Email::as_str)).as_bytes());
    let user_id = contact.user_id.as_ref().map(UserId::as_str);
    for name in user_id.into_iter().chain(contact.username.as_deref()) {
        text.push(FIELD_END);
        text.extend_from_slice(fold(name).as_bytes());
    }
    // A search by another form of the phone also finds the contact.
    for form in contact.phone.into_iter().flat_map(other_forms) {
        text.push(FIELD_END);
        text.extend_from_slice(form.to_string().as_bytes());
    }
    text
}

/// Returns the forms of a phone in which it was not written.
fn other_forms(phone: Phone) -> impl Iterator<Item = Phone> {
    phone.forms().filter(move |form| form.as_u64() != phone.as_u64())
}

/// Returns whether a contact's text contains `needle`, which is in one case.
pub(crate) fn contact_has(contact: &Contact, needle: &str) -> bool {
    memchr::memmem::find(&text_of(contact), needle.as_bytes()).is_some()
}

/// Returns `texts` with the text of a slot replaced or removed; `None` if no slot has one.
pub(crate) fn with_text(texts: Option<&[u8]>, slot: u8, text: Option<&[u8]>) -> Option<Vec<u8>> {
    let mut slots: Vec<&[u8]> = texts.map(slots).into_iter().flatten().collect();
    let slot = usize::from(slot);
    if slots.len() <= slot {
        slots.resize(slot + 1, &[]);
    }
    slots[slot] = text.unwrap_or_default();
    let used = slots.iter().rposition(|text| !text.is_empty())? + 1;
    let mut joined = Vec::with_capacity(slots.iter().map(|text| text.len() + 1).sum());
    for text in &slots[..used] {
        joined.extend_from_slice(text);
        joined.push(END);
    }
    Some(joined)
}

/// Returns the texts by slot.
fn slots(texts: &[u8]) -> impl Iterator<Item = &[u8]> {
    texts.split_inclusive(|byte| *byte == END).map(|text| &text[..text.len() - 1])
}

/// Returns the mask of the slots whose text contains the needle.
pub(crate) fn matching(texts: &[u8], needle: &Finder<'_>) -> Mask {
    let mut mask = 0;
    let (mut slot, mut seen) = (0, 0);
    while let Some(found) = needle.find(&texts[seen..]) {
        let found = seen + found;
        slot += memchr::memchr_iter(END, &texts[seen..found]).count();
        mask |= 1_u64.checked_shl(slot as u32).unwrap_or(0);
        let Some(end) = memchr::memchr(END, &texts[found..]) else { break };
        seen = found + end + 1;
        slot += 1;
    }
    mask
}

/// Returns the name in a slot, in one case.
pub(crate) fn name_in(texts: &[u8], slot: u64) -> &[u8] {
    let text = usize::try_from(slot).ok().and_then(|slot| slots(texts).nth(slot));
    text.and_then(|text| text.split(|byte| *byte == FIELD_END).next()).unwrap_or_default()
}

/// Returns the phones by slot, of those contacts that have one.
pub(crate) fn phones_in(texts: &[u8]) -> impl Iterator<Item = (u32, Phone)> {
    slots(texts).zip(0..).filter_map(|(text, slot)| {
        let phone = text.split(|byte| *byte == FIELD_END).nth(1)?;
        Some((slot, std::str::from_utf8(phone).ok()?.parse().ok()?))
    })
}

/// The hash of a tag, a field or a field's value.
///
/// Two with the same hash count as the same. With 64 bits a collision happens only to a workspace
/// that provokes it, and affects only that workspace.
pub(crate) type FacetHash = [u8; 8];

/// The entry of one contact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facet<'a> {
    pub(crate) slot: u8,
    tags: &'a [u8],
    fields: &'a [u8],
}

impl<'a> Facet<'a> {
    fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let [slot, tags, low, high, rest @ ..] = bytes else { return None };
        let (tags, rest) = rest.split_at_checked(usize::from(*tags) * 8)?;
        let fields = usize::from(u16::from_le_bytes([*low, *high]));
        let (fields, rest) = rest.split_at_checked(fields * 16)?;
        Some((Self { slot: *slot, tags, fields }, rest))
    }

    /// Returns the entries of a record.
    pub(crate) fn all(mut facets: &'a [u8]) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            let (facet, rest) = Self::split(facets)?;
            facets = rest;
            Some(facet)
        })
    }

    pub(crate) fn tags(&self) -> impl Iterator<Item = FacetHash> + use<'a> {
        self.tags.as_chunks().0.iter().copied()
    }

    pub(crate) fn has_tag(&self, tag: &FacetHash) -> bool {
        self.tags.chunks_exact(8).any(|known| known == tag)
    }

    pub(crate) fn has_name(&self, name: &FacetHash) -> bool {
        self.fields.chunks_exact(16).any(|known| known[..8] == *name)
    }

    pub(crate) fn has_field(&self, field: &FacetHash) -> bool {
        self.fields.chunks_exact(16).any(|known| known[8..] == *field)
    }
}

/// Returns the hash of a tag.
pub(crate) fn tag_hash(tag: &str) -> FacetHash {
    xxh3_64(tag.as_bytes()).to_le_bytes()
}

/// Returns the hash of a field's name.
pub(crate) fn name_hash(name: &str) -> FacetHash {
    xxh3_64(name.as_bytes()).to_le_bytes()
}

/// Returns the hash of a field and its value.
pub(crate) fn field_hash(name: &str, value: &Value) -> FacetHash {
    // A name cannot be confused with another one and the start of its value: JSON quotes it.
    xxh3_64(format!("{}{}", Value::from(name), plain(value)).as_bytes()).to_le_bytes()
}

/// Returns the value with each number in one form: 100, 100.0 and 1e2 are equal.
fn plain(value: &Value) -> Value {
    /// Beyond it some whole numbers have no exact form as a fraction.
    const EXACT_MAX: f64 = (1_u64 << 53) as f64;
    match value {
        Value::Number(number) if number.is_f64() => match number.as_f64() {
            Some(float) if float.fract() == 0.0 && float.abs() <= EXACT_MAX => {
                Value::Number(Number::from(float as i64))
            }
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), plain(value))).collect()
        }
        other => other.clone(),
    }
}

/// Returns a contact's entry, without its slot.
///
/// An entry is the slot, the number of its tags and the number of its fields (two bytes). Then
/// follow 8 bytes for each tag and 16 for each field: the hash of its name, and that of its name
/// and value. Entries are in the order of their slots.
pub(crate) fn entry_of(contact: &Contact) -> Vec<u8> {
    let fields = contact.custom_fields.to_value();
    let fields = fields.as_object().into_iter().flatten();
    let (mut count, mut hashes) = (0_u16, Vec::new());
    hashes.extend(contact.tags.iter().flat_map(tag_hash));
    for (name, value) in fields {
        // 16 KiB of JSON have far fewer fields than the counter can hold.
        count += 1;
        hashes.extend(name_hash(name));
        hashes.extend(field_hash(name, value));
    }
    let [low, high] = count.to_le_bytes();
    // A contact has 50 tags at the most.
    [&[contact.tags.iter().len() as u8, low, high], hashes.as_slice()].concat()
}

/// Returns `facets` with the entry of a slot replaced or removed; `None` if no slot has one.
pub(crate) fn with_entry(facets: Option<&[u8]>, slot: u8, entry: Option<&[u8]>) -> Option<Vec<u8>> {
    let facets = facets.unwrap_or_default();
    let mut joined = Vec::with_capacity(facets.len() + entry.map_or(0, |entry| entry.len() + 1));
    let mut pending = entry;
    let mut rest = facets;
    while let Some((facet, after)) = Facet::split(rest) {
        if facet.slot >= slot
            && let Some(entry) = pending.take()
        {
            joined.push(slot);
            joined.extend_from_slice(entry);
        }
        if facet.slot != slot {
            joined.extend_from_slice(&rest[..rest.len() - after.len()]);
        }
        rest = after;
    }
    if let Some(entry) = pending {
        joined.push(slot);
        joined.extend_from_slice(entry);
    }
    (!joined.is_empty()).then_some(joined)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contacts::record::contact_id;
    use postrider_domain::{ContactName, CustomFields, Tags, Timestamp};
    use serde_json::json;

    fn entry(tags: &[&str], fields: &Value) -> Vec<u8> {
        let at = Timestamp::from_millis(1);
        entry_of(&Contact {
            id: contact_id(at, 0, 0),
            name: ContactName::new("x").unwrap(),
            phone: None,
            user_id: None,
            former_ids: Vec::new(),
            username: None,
            renamed_at: None,
            email: None,
            tags: Tags::new(tags.iter()).unwrap(),
            custom_fields: CustomFields::new(fields).unwrap(),
            created_at: at,
            updated_at: at,
        })
    }

    #[test]
    fn entries_are_put_taken_and_listed_in_the_order_of_their_slots() {
        let (a, b) = (entry(&["t"], &json!({"f": 1})), entry(&[], &json!({})));
        let mut facets = None;
        for (slot, entry) in [(5, &a), (2, &b), (63, &b), (0, &a), (5, &b)] {
            facets = with_entry(facets.as_deref(), slot, Some(entry));
        }
        let slots = |facets: &Option<Vec<u8>>| {
            let all = Facet::all(facets.as_deref().unwrap_or_default());
            all.map(|facet| (facet.slot, facet.has_tag(&tag_hash("t")))).collect::<Vec<_>>()
        };
        assert_eq!(slots(&facets), [(0, true), (2, false), (5, false), (63, false)]);
        for slot in [2, 63, 0, 7] {
            facets = with_entry(facets.as_deref(), slot, None);
        }
        assert_eq!(slots(&facets), [(5, false)]);
        assert_eq!(with_entry(facets.as_deref(), 5, None), None);
    }

    #[test]
    fn an_entry_has_tags_names_and_values() {
        let entry = entry(&["vip", "b"], &json!({"plan": "gold", "n": [1]}));
        let facets = with_entry(None, 9, Some(&entry)).unwrap();
        let facet = Facet::all(&facets).next().unwrap();
        assert!(facet.has_tag(&tag_hash("vip")) && !facet.has_tag(&tag_hash("VIP")));
        assert!(facet.has_name(&name_hash("plan")) && !facet.has_name(&name_hash("vip")));
        assert!(facet.has_field(&field_hash("n", &json!([1]))));
        for (name, value) in [("n", json!([2])), ("plan", json!("free")), ("pla", json!("n"))] {
            assert!(!facet.has_field(&field_hash(name, &value)), "{name} {value}");
        }
    }

    #[test]
    fn every_field_is_there() {
        let fields = (0..1200).map(|at| (format!("f{at:04}"), json!(at)));
        let fields = Value::from(fields.collect::<serde_json::Map<_, _>>());
        let facets = with_entry(None, 0, Some(&entry(&["t"], &fields))).unwrap();
        let facets = with_entry(Some(&facets), 1, Some(&entry(&["u"], &json!({"x": 1})))).unwrap();
        let both: Vec<_> = Facet::all(&facets).collect();
        assert!(both[0].has_name(&name_hash("f0000")) && both[0].has_name(&name_hash("f1199")));
        assert!(both[1].has_tag(&tag_hash("u")) && !both[1].has_name(&name_hash("f1199")));
    }

    #[test]
    fn a_number_is_the_same_however_it_is_written() {
        let hash = |json: &str| field_hash("n", &serde_json::from_str(json).unwrap());
        for (one, other) in [("100", "1e2"), ("100", "100.0"), ("-0", "0"), ("[[1]]", "[[1.0]]")] {
            assert_eq!(hash(one), hash(other), "{one} {other}");
        }
        for (one, other) in
            [("1", "1.5"), ("1", "\"1\""), ("9007199254740993", "9007199254740992.0"), ("1", "-1")]
        {
            assert_ne!(hash(one), hash(other), "{one} {other}");
        }
    }

    #[test]
    fn what_matches_is_reported_by_slot() {
        let mut texts = None;
        for (slot, text) in [
            (0, &b"ana\xff+15550100\xffana@example.com"[..]),
            (3, b"bo\xff\xff"),
            (63, b"anana\xff\xff"),
        ] {
            texts = with_text(texts.as_deref(), slot, Some(text));
        }
        let texts = texts.unwrap();
        let find = |needle: &str| matching(&texts, &Finder::new(needle));
        assert_eq!(find("ana"), 1 | 1 << 63);
        assert_eq!(find("an"), 1 | 1 << 63);
        assert_eq!(find("bo"), 1 << 3);
        assert_eq!(find("o"), 1 | 1 << 3);
        assert_eq!(find("555"), 1);
        for none in ["ana+", "0ana", "z", "bob", "anabo"] {
            assert_eq!(find(none), 0, "{none}");
        }
        let phones: Vec<_> =
            phones_in(&texts).map(|(slot, phone)| (slot, phone.to_string())).collect();
        assert_eq!(phones, [(0, "+15550100".to_owned())]);
    }

    #[test]
    fn a_slot_is_emptied_and_the_last_one_takes_the_record_with_it() {
        let one = with_text(None, 5, Some(b"x")).unwrap();
        let two = with_text(Some(&one), 2, Some(b"y")).unwrap();
        assert_eq!(slots(&two).collect::<Vec<_>>(), [&b""[..], b"", b"y", b"", b"", b"x"]);
        assert_eq!(with_text(Some(&two), 2, None).as_ref(), Some(&one));
        assert_eq!(with_text(Some(&one), 5, None), None);
        assert_eq!(slots(&with_text(Some(&two), 5, None).unwrap()).count(), 3);
    }
}
