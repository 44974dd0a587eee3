//! Pure: what a message has beside its text, bounded: strangers write it.

use postrider_domain::json::PRIVATE;
use serde_json::{Map, Value};

/// Most bytes of content as JSON.
pub const BYTES_MAX: usize = 16 * 1024;
/// How deep lists and objects may stand in each other. The content is stored and emitted inside
/// other objects, and whoever parses them has a bound too.
const DEPTH_MAX: usize = 24;

/// The object of a message in the channel's own form, of at most [`BYTES_MAX`] bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct InboundContent {
    fields: Map<String, Value>,
    truncated: bool,
}

impl InboundContent {
    /// The content of an object. What does not fit is left out: its largest fields, and of a field
    /// that is a list the last elements. So is what could not be read again.
    #[must_use]
    pub fn new(mut fields: Map<String, Value>) -> Self {
        let is_incomplete = drop_private(&mut fields);
        let names: usize = fields.keys().map(|name| text_bytes(name) + 1).sum();
        let empty = Size { bytes: names + 3, depth: 1 };
        match fields.values().map(Size::of).fold(empty, Size::with).fits() {
            true => Self { fields, truncated: is_incomplete },
            false => Self { fields: smallest(fields), truncated: true },
        }
    }

    /// What there is of it.
    #[must_use]
    pub const fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// What there is of it.
    #[must_use]
    pub fn into_fields(self) -> Map<String, Value> {
        self.fields
    }

    /// Whether something is left out.
    #[must_use]
    pub const fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Sets a field to one of our ids.
    pub fn insert(&mut self, field: &str, value: Value) {
        self.fields.insert(field.to_owned(), value);
    }
}

impl std::fmt::Debug for InboundContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InboundContent").field("truncated", &self.truncated).finish_non_exhaustive()
    }
}

/// Drops the fields, at any depth, whose names a parser would take for instructions. Returns
/// whether there were any.
fn drop_private(fields: &mut Map<String, Value>) -> bool {
    let before = fields.len();
    fields.retain(|name, _| !name.starts_with(PRIVATE));
    let mut any = fields.len() < before;
    fields.values_mut().for_each(|value| any |= drop_private_in(value));
    any
}

fn drop_private_in(value: &mut Value) -> bool {
    match value {
        Value::Object(fields) => drop_private(fields),
        Value::Array(elements) => {
            elements.iter_mut().fold(false, |any, value| drop_private_in(value) | any)
        }
        _ => false,
    }
}

/// The fields of an object that fit, the small ones first.
fn smallest(fields: Map<String, Value>) -> Map<String, Value> {
    let sized =
        |(name, value): (String, Value)| (text_bytes(&name) + 2, Size::of(&value), name, value);
    let mut sized: Vec<_> = fields.into_iter().map(sized).collect();
    sized.sort_by_key(|(name_bytes, size, ..)| name_bytes + size.bytes);
    let mut left = BYTES_MAX - 3;
    let fits = sized.into_iter().filter_map(|(name_bytes, size, name, value)| {
        let room = left.checked_sub(name_bytes)?;
        let value = match value {
            value if size.bytes <= room && size.depth < DEPTH_MAX => value,
            Value::Array(elements) => Value::Array(first(elements, room)),
            _ => return None,
        };
        left = room.checked_sub(Size::of(&value).bytes)?;
        Some((name, value))
    });
    fits.collect()
}

/// The elements of a list that fit into so many bytes.
fn first(elements: Vec<Value>, room: usize) -> Vec<Value> {
    let mut left = room.saturating_sub(3);
    let fits = elements.into_iter().map_while(|value| {
        let size = Size::of(&value);
        left = left.checked_sub(size.bytes + 1).filter(|_| size.depth + 1 < DEPTH_MAX)?;
        Some(value)
    });
    fits.collect()
}

/// How large a value is as JSON.
#[derive(Clone, Copy, Default)]
struct Size {
    /// At least its bytes, with a comma for each element.
    bytes: usize,
    depth: usize,
}

impl Size {
    fn of(value: &Value) -> Self {
        match value {
            Value::Null | Value::Bool(_) => Self { bytes: 6, depth: 0 },
            Value::Number(number) => Self { bytes: number.to_string().len() + 1, depth: 0 },
            Value::String(text) => Self { bytes: text_bytes(text) + 1, depth: 0 },
            Value::Array(elements) => elements.iter().map(Self::of).fold(Self::EMPTY, Self::with),
            Value::Object(fields) => {
                let names: usize = fields.keys().map(|name| text_bytes(name) + 1).sum();
                let empty = Self { bytes: names + 3, depth: 1 };
                fields.values().map(Self::of).fold(empty, Self::with)
            }
        }
    }

    /// A list without elements.
    const EMPTY: Self = Self { bytes: 3, depth: 1 };

    fn with(self, inner: Self) -> Self {
        Self { bytes: self.bytes + inner.bytes, depth: self.depth.max(inner.depth + 1) }
    }

    const fn fits(self) -> bool {
        self.bytes <= BYTES_MAX && self.depth <= DEPTH_MAX
    }
}

/// The bytes of a text as JSON, with its quotes.
fn text_bytes(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    };
    2 + text.bytes().map(escaped).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kept(value: Value) -> (Value, bool) {
        let Value::Object(fields) = value else { panic!("an object") };
        let content = InboundContent::new(fields);
        let value = Value::Object(content.fields().clone());
        assert!(value.to_string().len() <= BYTES_MAX);
        (value, content.is_truncated())
    }

    #[test]
    fn what_fits_is_kept_as_it_is() {
        for value in [json!({}), json!({"a": [1, null, {"b": "\u{1}\"é"}], "c": -1.5, "d": true})]
        {
            assert_eq!(kept(value.clone()), (value.clone(), false));
            assert!(Size::of(&value).bytes >= value.to_string().len(), "{value}");
        }
    }

    #[test]
    fn an_object_loses_its_largest_fields() {
        let long = "\u{1}".repeat(BYTES_MAX / 6);
        let value = json!({"name": "shop", "latitude": 1.5, "address": long, "url": "https://x"});
        let expected = json!({"name": "shop", "latitude": 1.5, "url": "https://x"});
        assert_eq!(kept(value), (expected, true));
    }

    #[test]
    fn a_list_loses_its_last_elements() {
        let card = json!({"name": {"formatted_name": "a".repeat(1000)}});
        let cards = |count| json!({"contacts": vec![card.clone(); count]});
        assert_eq!(kept(cards(15)), (cards(15), false));
        assert_eq!(kept(cards(40)), (cards(15), true));
    }

    #[test]
    fn what_could_not_be_read_again_is_left_out() {
        let named = |name: &str| json!({"a": 1, (format!("{PRIVATE}{name}")): "1"});
        let inner = json!({"a": 1});
        for name in ["RawValue", "Number", ""] {
            let (value, is_truncated) = kept(json!({"b": [[named(name)]], "c": named(name)}));
            assert_eq!((&value, is_truncated), (&json!({"b": [[inner]], "c": inner}), true));
            assert_eq!(kept(named(name)), (inner.clone(), true));
            let text = value.to_string();
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
    }

    #[test]
    fn what_is_too_deep_is_left_out() {
        let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!({"a": inner}));
        assert_eq!(kept(json!({"a": 1, "b": nested(100)})), (json!({"a": 1}), true));
        assert_eq!(kept(json!({"a": [1, nested(100), 2]})), (json!({"a": [1]}), true));
        assert_eq!(kept(nested(100)), (json!({}), true));
        assert!(!kept(nested(DEPTH_MAX)).1);
    }
}
