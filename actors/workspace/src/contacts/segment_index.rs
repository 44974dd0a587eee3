//! The index for segments: tags and custom fields of 64 neighbours in one record, as hashes.
//!
//! A contact's entry is its slot, the number of its tags and the number of its fields (two bytes).
//! Then follow 8 bytes for each tag and 16 for each field: the hash of its name, and that of its
//! name and value. Entries are in the order of their slots.

use serde_json::{Number, Value};
use xxhash_rust::xxh3::xxh3_64;

use crate::contacts::record::Contact;

/// The hash of a tag, a field or a field's value.
///
/// Two with the same hash count as the same. With 64 bits a collision happens only to a workspace
/// that provokes it, and affects only that workspace.
pub(crate) type Hash = [u8; 8];

/// Returns the hash of a tag.
pub(crate) fn tag_hash(tag: &str) -> Hash {
    xxh3_64(tag.as_bytes()).to_le_bytes()
}

/// Returns the hash of a field's name.
pub(crate) fn name_hash(name: &str) -> Hash {
    xxh3_64(name.as_bytes()).to_le_bytes()
}

/// Returns the hash of a field and its value.
pub(crate) fn field_hash(name: &str, value: &Value) -> Hash {
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
pub(crate) fn with(facets: Option<&[u8]>, slot: u8, entry: Option<&[u8]>) -> Option<Vec<u8>> {
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

    pub(crate) fn tags(&self) -> impl Iterator<Item = Hash> + use<'a> {
        self.tags.as_chunks().0.iter().copied()
    }

    pub(crate) fn has_tag(&self, tag: &Hash) -> bool {
        self.tags.chunks_exact(8).any(|known| known == tag)
    }

    pub(crate) fn has_name(&self, name: &Hash) -> bool {
        self.fields.chunks_exact(16).any(|known| known[..8] == *name)
    }

    pub(crate) fn has_field(&self, field: &Hash) -> bool {
        self.fields.chunks_exact(16).any(|known| known[8..] == *field)
    }
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
    fn an_entry_has_tags_names_and_values() {
        let entry = entry(&["vip", "b"], &json!({"plan": "gold", "n": [1]}));
        let facets = with(None, 9, Some(&entry)).unwrap();
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
        let facets = with(None, 0, Some(&entry(&["t"], &fields))).unwrap();
        let facets = with(Some(&facets), 1, Some(&entry(&["u"], &json!({"x": 1})))).unwrap();
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
}
