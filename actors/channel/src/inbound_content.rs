//! Pure: the content of a message beside its text, bounded because strangers write it.

use postrider_domain::json::PRIVATE;
use serde_json::{Map, Value};

/// The maximum number of bytes of content as JSON.
pub const BYTES_MAX: usize = 16 * 1024;
/// The maximum nesting of lists and objects.
///
/// The content is stored and emitted inside other objects, and their parsers have a bound too.
const DEPTH_MAX: usize = 24;

/// The object of a message in the channel's own form, of at most [`BYTES_MAX`] bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct InboundContent {
    fields: Map<String, Value>,
    truncated: bool,
}

impl InboundContent {
    /// Returns the content of an object, cut to its bounds.
    ///
    /// The last elements of lists, the ends of texts and the largest fields are left out if they do
    /// not fit. Fields that could not be read again are left out too.
    #[must_use]
    pub fn new(mut fields: Map<String, Value>) -> Self {
        let is_incomplete = drop_private(&mut fields);
        match Size::of_fields(&fields).fits(BYTES_MAX, DEPTH_MAX) {
            true => Self { fields, truncated: is_incomplete },
            false => Self { fields: smallest(fields, BYTES_MAX, DEPTH_MAX), truncated: true },
        }
    }

    /// Returns the fields of the content.
    #[must_use]
    pub const fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// Returns the fields of the content.
    #[must_use]
    pub fn into_fields(self) -> Map<String, Value> {
        self.fields
    }

    /// Returns whether a part is left out.
    #[must_use]
    pub const fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Sets a field to one of our ids, for which other fields make room.
    pub fn insert(&mut self, field: &str, value: Value) {
        self.fields.insert(field.to_owned(), value);
        let Self { fields, truncated } = Self::new(std::mem::take(&mut self.fields));
        *self = Self { fields, truncated: truncated || self.truncated };
    }
}

impl std::fmt::Debug for InboundContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InboundContent").field("truncated", &self.truncated).finish_non_exhaustive()
    }
}

/// Drops the fields, at any depth, whose names a parser would take for instructions.
///
/// Returns whether there were any.
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

/// Returns the fields of an object that fit, the small ones first.
fn smallest(fields: Map<String, Value>, room: usize, depth: usize) -> Map<String, Value> {
    let sized = |(name, value): (String, Value)| (text_bytes(&name) + 1, name, value);
    let mut sized: Vec<_> = fields.into_iter().map(sized).collect();
    sized.sort_by_cached_key(|(name_bytes, _, value)| name_bytes + Size::of(value).bytes);
    let mut left = room.saturating_sub(3);
    let fits = sized.into_iter().filter_map(|(name_bytes, name, value)| {
        let room = left.checked_sub(name_bytes)?;
        let value = part(value, room, depth.checked_sub(1)?)?;
        left = room.checked_sub(Size::of(&value).bytes)?;
        Some((name, value))
    });
    fits.collect()
}

/// Returns the elements of a list that fit, and at least a part of the first one.
fn first(elements: Vec<Value>, room: usize, depth: usize) -> Vec<Value> {
    let (mut left, inner) = (room.saturating_sub(3), depth.saturating_sub(1));
    let mut elements = elements.into_iter().peekable();
    let mut fits = Vec::new();
    while let Some(value) = elements.next_if(|value| Size::of(value).fits(left, inner)) {
        left -= Size::of(&value).bytes;
        fits.push(value);
    }
    if fits.is_empty() && depth > 0 {
        fits.extend(elements.next().and_then(|value| part(value, left, inner)));
    }
    fits
}

/// Returns the part of a value that fits; `None` if none does.
fn part(value: Value, room: usize, depth: usize) -> Option<Value> {
    if Size::of(&value).fits(room, depth) {
        return Some(value);
    }
    let has_room = depth > 0 && room >= Size::EMPTY.bytes;
    match value {
        Value::String(text) => Some(beginning(&text, room)?.into()),
        Value::Array(elements) if has_room => Some(first(elements, room, depth).into()),
        Value::Object(fields) if has_room => Some(smallest(fields, room, depth).into()),
        _ => None,
    }
}

/// Returns the start of a text that fits; `None` if none does.
fn beginning(text: &str, room: usize) -> Option<&str> {
    // Room for its quotes, and a comma.
    let mut left = room.checked_sub(3)?;
    let fits = |char: &char| {
        let bytes = text_bytes(char.encode_utf8(&mut [0; 4])) - 2;
        left.checked_sub(bytes).map(|rest| left = rest).is_some()
    };
    let end: usize = text.chars().take_while(fits).map(char::len_utf8).sum();
    (end > 0).then(|| &text[..end])
}

/// The size of a value as JSON.
#[derive(Clone, Copy, Default)]
struct Size {
    /// An upper bound of its bytes, with a comma for each element.
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
            Value::Object(fields) => Self::of_fields(fields),
        }
    }

    fn of_fields(fields: &Map<String, Value>) -> Self {
        let names: usize = fields.keys().map(|name| text_bytes(name) + 1).sum();
        let empty = Self { bytes: names + 3, depth: 1 };
        fields.values().map(Self::of).fold(empty, Self::with)
    }

    /// The size of a list without elements.
    const EMPTY: Self = Self { bytes: 3, depth: 1 };

    fn with(self, inner: Self) -> Self {
        Self { bytes: self.bytes + inner.bytes, depth: self.depth.max(inner.depth + 1) }
    }

    const fn fits(self, room: usize, depth: usize) -> bool {
        self.bytes <= room && self.depth <= depth
    }
}

/// Returns the number of bytes of a text as JSON, with its quotes.
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
    fn an_object_loses_the_ends_of_its_largest_texts() {
        let long = "\u{1}é".repeat(BYTES_MAX);
        let value = json!({"name": "shop", "latitude": 1.5, "address": long, "a": {"b": long}});
        let (read, is_truncated) = kept(value);
        assert!(is_truncated);
        assert_eq!((&read["name"], &read["latitude"]), (&json!("shop"), &json!(1.5)));
        let address = read["address"].as_str().unwrap();
        assert!(!address.is_empty() && long.starts_with(address));
        // The content fills the room.
        assert!(read.to_string().len() > BYTES_MAX - 40, "{}", read.to_string().len());
        let (read, _) = kept(json!({"response": {"why": long, "day": "Monday"}, "name": "form"}));
        assert_eq!((&read["name"], &read["response"]["day"]), (&json!("form"), &json!("Monday")));
        assert!(long.starts_with(read["response"]["why"].as_str().unwrap()));
    }

    #[test]
    fn a_list_loses_its_last_elements() {
        let card = json!({"name": {"formatted_name": "a".repeat(1000)}});
        let cards = |count| json!({"contacts": vec![card.clone(); count]});
        assert_eq!(kept(cards(15)), (cards(15), false));
        assert_eq!(kept(cards(40)), (cards(15), true));
        let huge = json!({"contacts": [{"name": "Ann", "photo": "x".repeat(BYTES_MAX)}, 1]});
        let (read, is_truncated) = kept(huge);
        assert_eq!((&read["contacts"][0]["name"], is_truncated), (&json!("Ann"), true));
        assert_eq!(read["contacts"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn our_ids_have_their_room() {
        let Value::Object(fields) = json!({"caption": "x".repeat(BYTES_MAX - 20)}) else {
            panic!()
        };
        let mut content = InboundContent::new(fields);
        assert!(!content.is_truncated());
        content.insert("media_id", json!("med_01jd3v0x5n8m7k2q4r6s8t0w2y"));
        assert!(content.is_truncated());
        let fields = content.into_fields();
        assert_eq!(fields["media_id"], "med_01jd3v0x5n8m7k2q4r6s8t0w2y");
        assert!(Value::from(fields).to_string().len() <= BYTES_MAX);
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
        let shells = |depth: usize| (1..depth).fold(json!({}), |inner, _| json!({"a": inner}));
        let (beside, within) = (shells(DEPTH_MAX - 1), shells(DEPTH_MAX - 2));
        let deep = json!({"a": 1, "b": nested(100)});
        assert_eq!(kept(deep), (json!({"a": 1, "b": beside}), true));
        assert_eq!(kept(json!({"a": [1, nested(100), 2]})), (json!({"a": [1]}), true));
        assert_eq!(kept(json!({"a": [nested(100), 2]})), (json!({"a": [within]}), true));
        assert_eq!(kept(nested(100)), (shells(DEPTH_MAX), true));
        assert!(!kept(nested(DEPTH_MAX)).1);
    }
}
