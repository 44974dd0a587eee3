//! What segments ask for: tags and custom fields of 64 neighbours in one record, as hashes.
//!
//! A contact's entry is its slot, the number of its tags, the number of its fields (the highest bit
//! says that it has more fields than are told), then 8 bytes for each tag and 16 for each field: the
//! hash of its name, and that of its name and value. Entries come in the order of their slots.

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::record::Contact;

/// Most fields of a contact that are told.
const FIELDS_MAX: usize = 64;
/// Set when there are more.
const MORE: u8 = 0x80;

/// The hash of a tag, a field or a field's value. What has the same hash counts as the same: with 64
/// bits that happens to nobody who does not work for it, and then to nobody else.
pub(super) type Hash = [u8; 8];

/// The hash of a tag.
pub(super) fn tag_hash(tag: &str) -> Hash {
    xxh3_64(tag.as_bytes()).to_le_bytes()
}

/// The hash of a field's name.
pub(super) fn name_hash(name: &str) -> Hash {
    xxh3_64(name.as_bytes()).to_le_bytes()
}

/// The hash of a field and its value.
pub(super) fn field_hash(name: &str, value: &Value) -> Hash {
    // A name cannot be taken for another one and the beginning of its value: JSON quotes it.
    xxh3_64(format!("{}{value}", Value::from(name)).as_bytes()).to_le_bytes()
}

/// A contact's entry, without its slot.
pub(super) fn entry_of(contact: &Contact) -> Vec<u8> {
    let fields = contact.custom_fields.to_value();
    let fields = fields.as_object().into_iter().flatten();
    let (mut told, mut hashes) = (0_u8, Vec::new());
    hashes.extend(contact.tags.iter().flat_map(tag_hash));
    let mut more = 0;
    for (name, value) in fields {
        if usize::from(told) == FIELDS_MAX {
            more = MORE;
            break;
        }
        told += 1;
        hashes.extend(name_hash(name));
        hashes.extend(field_hash(name, value));
    }
    // A contact has 50 tags at the most.
    [&[contact.tags.iter().len() as u8, told | more], hashes.as_slice()].concat()
}

/// `facets` with another entry in a slot, or none; `None` when there is none in any.
pub(super) fn with(facets: Option<&[u8]>, slot: u8, entry: Option<&[u8]>) -> Option<Vec<u8>> {
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

/// The entry of one contact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Facet<'a> {
    pub(super) slot: u8,
    tags: &'a [u8],
    fields: &'a [u8],
    /// It has more fields than are told.
    pub(super) has_more: bool,
}

impl<'a> Facet<'a> {
    fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let [slot, tags, fields, rest @ ..] = bytes else { return None };
        let (tags, rest) = rest.split_at_checked(usize::from(*tags) * 8)?;
        let (told, rest) = rest.split_at_checked(usize::from(fields & !MORE) * 16)?;
        Some((Self { slot: *slot, tags, fields: told, has_more: fields & MORE != 0 }, rest))
    }

    /// The entries of a record.
    pub(super) fn all(mut facets: &'a [u8]) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            let (facet, rest) = Self::split(facets)?;
            facets = rest;
            Some(facet)
        })
    }

    pub(super) fn has_tag(&self, tag: &Hash) -> bool {
        self.tags.chunks_exact(8).any(|told| told == tag)
    }

    pub(super) fn has_name(&self, name: &Hash) -> bool {
        self.fields.chunks_exact(16).any(|told| told[..8] == *name)
    }

    pub(super) fn has_field(&self, field: &Hash) -> bool {
        self.fields.chunks_exact(16).any(|told| told[8..] == *field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{ContactName, CustomFields, Tags, Timestamp};
    use crate::workspace::contacts::record::contact_id;
    use serde_json::json;

    fn entry(tags: &[&str], fields: &Value) -> Vec<u8> {
        let at = Timestamp::from_millis(1);
        entry_of(&Contact {
            id: contact_id(at, 0, 0),
            name: ContactName::new("x").unwrap(),
            phone: None,
            email: None,
            tags: Tags::new(tags.iter()).unwrap(),
            custom_fields: CustomFields::new(fields).unwrap(),
            created_at: at,
            updated_at: at,
        })
    }

    #[test]
    fn entries_are_put_taken_and_told_in_the_order_of_their_slots() {
        let (a, b) = (entry(&["t"], &json!({"f": 1})), entry(&[], &json!({})));
        let mut facets = None;
        for (slot, entry) in [(5, &a), (2, &b), (63, &b), (0, &a), (5, &b)] {
            facets = with(facets.as_deref(), slot, Some(entry));
        }
        let slots = |facets: &Option<Vec<u8>>| {
            let all = Facet::all(facets.as_deref().unwrap_or_default());
            all.map(|facet| (facet.slot, facet.has_tag(&tag_hash("t")))).collect::<Vec<_>>()
        };
        assert_eq!(slots(&facets), [(0, true), (2, false), (5, false), (63, false)]);
        for slot in [2, 63, 0, 7] {
            facets = with(facets.as_deref(), slot, None);
        }
        assert_eq!(slots(&facets), [(5, false)]);
        assert_eq!(with(facets.as_deref(), 5, None), None);
    }

    #[test]
    fn an_entry_tells_tags_names_and_values() {
        let entry = entry(&["vip", "b"], &json!({"plan": "gold", "n": [1]}));
        let facets = with(None, 9, Some(&entry)).unwrap();
        let facet = Facet::all(&facets).next().unwrap();
        assert!(facet.has_tag(&tag_hash("vip")) && !facet.has_tag(&tag_hash("VIP")));
        assert!(facet.has_name(&name_hash("plan")) && !facet.has_name(&name_hash("vip")));
        assert!(facet.has_field(&field_hash("n", &json!([1]))));
        for (name, value) in [("n", json!([2])), ("plan", json!("free")), ("pla", json!("n"))] {
            assert!(!facet.has_field(&field_hash(name, &value)), "{name} {value}");
        }
        assert!(!facet.has_more);
    }

    #[test]
    fn only_so_many_fields_are_told() {
        let fields = |count: usize| {
            let fields = (0..count).map(|at| (format!("f{at:03}"), json!(at)));
            Value::from(fields.collect::<serde_json::Map<_, _>>())
        };
        for (count, told, has_more) in [(64, 64, false), (65, 64, true)] {
            let facets = with(None, 0, Some(&entry(&[], &fields(count)))).unwrap();
            let facet = Facet::all(&facets).next().unwrap();
            assert_eq!((facet.fields.len() / 16, facet.has_more), (told, has_more));
        }
    }
}
