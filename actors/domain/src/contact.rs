//! Pure: the fields of a contact, each validated when it is made.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Phone, UserId, json, printable};

/// The maximum number of characters of a name.
pub const NAME_CHARS_MAX: usize = 200;
/// The maximum bytes of an e-mail address (RFC 5321, section 4.5.3.1.3, without angle brackets).
pub const EMAIL_BYTES_MAX: usize = 254;
/// The maximum number of bytes of the part before the `@` (RFC 5321, section 4.5.3.1.1).
const EMAIL_LOCAL_BYTES_MAX: usize = 64;
/// The maximum number of tags of a contact.
pub const TAGS_MAX: usize = 50;
/// The maximum number of characters of a tag.
pub const TAG_CHARS_MAX: usize = 64;
/// The maximum number of bytes of the custom fields, written as JSON without spaces.
pub const CUSTOM_FIELDS_BYTES_MAX: usize = 16 * 1024;
/// Deepest nesting of the custom fields; the object itself is the first level.
pub const CUSTOM_FIELDS_DEPTH_MAX: usize = 8;

/// The reason for which a value is not valid in a field of a contact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ContactError {
    /// A name that is empty, blank or too long, or that has control characters.
    #[error("must have 1 to 200 characters that are not all spaces, none of them control")]
    Name,
    /// A text that is not an e-mail address.
    #[error("must be an e-mail address, such as ana@example.com")]
    Email,
    /// Too many tags, or one that is empty, blank or too long, or that has control characters.
    #[error("must be at most 50 texts of 1 to 64 characters, none of them control")]
    Tags,
    /// The custom fields are not a JSON object.
    #[error("must be a JSON object")]
    FieldsShape,
    /// The custom fields have too many bytes.
    #[error("must take at most 16384 bytes as JSON")]
    FieldsSize,
    /// The custom fields are nested too deep.
    #[error("must be nested at most 8 levels deep")]
    FieldsDepth,
    /// An integer among the custom fields does not fit 64 bits, so it would lose precision.
    #[error("must have no whole number of more than 64 bits: give it as text")]
    FieldsNumber,
    /// An object among the custom fields has a name that JSON parsers take for an instruction.
    #[error("must have no name that begins with {}", json::PRIVATE)]
    FieldsName,
}

/// The name of a contact: 1 to 200 characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContactName(Box<str>);

impl ContactName {
    /// Validates a name. Characters that turn the direction of the text around them are left out.
    ///
    /// # Errors
    /// [`ContactError::Name`]
    pub fn new(text: &str) -> Result<Self, ContactError> {
        let text = printable::without_turns(text);
        let good = !text.trim().is_empty()
            && text.chars().count() <= NAME_CHARS_MAX
            && !printable::has_control(&text);
        if good { Ok(Self(text.into())) } else { Err(ContactError::Name) }
    }

    /// Returns the name of a contact of whom only the phone is known.
    #[must_use]
    pub fn of_phone(phone: Phone) -> Self {
        Self(phone.to_string().into())
    }

    /// Returns the name of a contact of whom only the channel's id is known.
    #[must_use]
    pub fn of_user(id: &UserId) -> Self {
        Self(id.as_str().chars().take(NAME_CHARS_MAX).collect::<String>().into())
    }

    /// Returns the name of a contact of whom only the e-mail address is known.
    #[must_use]
    pub fn of_email(email: &Email) -> Self {
        Self(email.as_str().chars().take(NAME_CHARS_MAX).collect::<String>().into())
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// An e-mail address in its plain form: a local part, one `@`, and a domain with a dot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Email(Box<str>);

impl Email {
    /// Validates an address.
    ///
    /// # Errors
    /// [`ContactError::Email`]
    pub fn new(text: &str) -> Result<Self, ContactError> {
        if is_email(text) { Ok(Self(text.into())) } else { Err(ContactError::Email) }
    }

    /// Returns the address.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.split_once('@') else { return false };
    let in_local = |char: char| {
        !char.is_whitespace() && !char.is_control() && !"()<>[]\\,;:\"@".contains(char)
    };
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|char| char.is_alphanumeric() || char == '-')
    };
    text.len() <= EMAIL_BYTES_MAX
        && (1..=EMAIL_LOCAL_BYTES_MAX).contains(&local.len())
        && !local.starts_with('.')
        && !local.ends_with('.')
        && !local.contains("..")
        && local.chars().all(in_local)
        && domain.contains('.')
        && domain.split('.').all(label)
}

/// At most 50 distinct tags, in the order in which they were given.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tags(Vec<Box<str>>);

impl Tags {
    /// Validates tags and drops duplicates.
    ///
    /// # Errors
    /// [`ContactError::Tags`]
    pub fn new<T: AsRef<str>>(
        texts: impl ExactSizeIterator<Item = T>,
    ) -> Result<Self, ContactError> {
        if texts.len() > TAGS_MAX {
            return Err(ContactError::Tags);
        }
        let mut tags: Vec<Box<str>> = Vec::new();
        for text in texts {
            let text = text.as_ref();
            let fits = !text.trim().is_empty() && text.chars().count() <= TAG_CHARS_MAX;
            if !fits || printable::has_control(text) {
                return Err(ContactError::Tags);
            }
            if !tags.iter().any(|tag| **tag == *text) {
                tags.push(text.into());
            }
        }
        Ok(Self(tags))
    }

    /// Returns the tags.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(|tag| &**tag)
    }
}

/// A JSON object of at most 16 KiB and 8 levels, serialized without spaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomFields(Box<str>);

impl Default for CustomFields {
    /// Returns an empty object.
    fn default() -> Self {
        Self("{}".into())
    }
}

impl CustomFields {
    /// Validates fields.
    ///
    /// # Errors
    /// [`ContactError::FieldsShape`], [`ContactError::FieldsSize`], [`ContactError::FieldsDepth`],
    /// [`ContactError::FieldsName`]
    pub fn new(fields: &Value) -> Result<Self, ContactError> {
        if !fields.is_object() {
            return Err(ContactError::FieldsShape);
        }
        if depth(fields) > CUSTOM_FIELDS_DEPTH_MAX {
            return Err(ContactError::FieldsDepth);
        }
        if json::has_private_name(fields) {
            return Err(ContactError::FieldsName);
        }
        let text = fields.to_string();
        if text.len() > CUSTOM_FIELDS_BYTES_MAX {
            return Err(ContactError::FieldsSize);
        }
        Ok(Self(text.into()))
    }

    /// Returns the value of a field.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<Value> {
        // The fields were made from an object.
        json::tree(&self.0)?.get_mut(name).map(Value::take)
    }

    /// Parses and validates JSON text.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new), and [`ContactError::FieldsNumber`]
    pub fn parse(json: &str) -> Result<Self, ContactError> {
        // With all the spaces that people write. A tree of values takes many times the text.
        if json.len() > 4 * CUSTOM_FIELDS_BYTES_MAX {
            return Err(ContactError::FieldsSize);
        }
        // serde_json has no error category for JSON that is nested too deep to be parsed.
        let fields = json::parse(json).map_err(|error| {
            let is_deep = error.to_string().starts_with("recursion limit");
            if is_deep { ContactError::FieldsDepth } else { ContactError::FieldsShape }
        })?;
        if has_long_number(json) { Err(ContactError::FieldsNumber) } else { Self::new(&fields) }
    }

    /// Returns the fields as JSON.
    #[must_use]
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// Returns the fields, a JSON object.
    #[must_use]
    pub fn to_value(&self) -> Value {
        // It was serialized from a value, so it always parses.
        json::tree(&self.0).unwrap_or_default()
    }
}

/// Returns whether an integer in JSON text has more than 64 bits, so that parsing would change it.
fn has_long_number(json: &str) -> bool {
    let bytes = json.as_bytes();
    let (mut at, mut in_text) = (0, false);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_text => at += 1,
            b'"' => in_text = !in_text,
            b'-' | b'0'..=b'9' if !in_text => {
                let rest = &json[at..];
                let of_number = |char: char| char.is_ascii_digit() || "+-.eE".contains(char);
                let end = rest.find(|char| !of_number(char)).unwrap_or(rest.len());
                let number = &rest[..end];
                let is_whole = !number.contains(['.', 'e', 'E']);
                if is_whole && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
                    return true;
                }
                at += end - 1;
            }
            _ => {}
        }
        at += 1;
    }
    false
}

/// Returns the nesting depth of objects and arrays. Other values have depth 0.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_have_1_to_200_characters() {
        for good in ["A", "名", &"é".repeat(200), " Ana "] {
            assert_eq!(ContactName::new(good).unwrap().as_str(), good);
        }
        assert_eq!(ContactName::new("\u{202e}Ana\u{202c}").unwrap().as_str(), "Ana");
        for bad in ["", "   ", "\u{3000}", &"é".repeat(201), "a\nb", "a\u{1b}[2J", "\u{202e}"] {
            assert_eq!(ContactName::new(bad), Err(ContactError::Name), "{bad}");
        }
    }

    #[test]
    fn addresses_are_distinguished_from_other_texts() {
        for good in [
            "ana@example.com",
            "a.b+c_d-e'f@sub.example.co",
            "Ana@EXAMPLE.com",
            "用户@例子.公司",
            "x@1.2",
        ] {
            assert!(Email::new(good).is_ok(), "{good}");
        }
        let long_local = format!("{}@example.com", "a".repeat(65));
        let long = format!("a@{}.com", "b".repeat(249));
        for bad in [
            "",
            "@",
            "ana",
            "ana@",
            "@example.com",
            "ana@example",
            "ana@.com",
            "ana@example.",
            "ana@exa..mple.com",
            "ana@@example.com",
            "a@b@example.com",
            "a na@example.com",
            "ana@exam ple.com",
            "ana@-example.com",
            "ana@example-.com",
            ".ana@example.com",
            "a..na@example.com",
            "ana.@example.com",
            "ana@example.com\n",
            "<ana@example.com>",
            "ana@exa_mple.com",
            &long_local,
            &long,
        ] {
            assert_eq!(Email::new(bad), Err(ContactError::Email), "{bad}");
        }
    }

    #[test]
    fn tags_are_few_short_and_listed_once() {
        let tags = Tags::new(["vip", "a b", "vip", "VIP"].iter()).unwrap();
        assert_eq!(tags.iter().collect::<Vec<_>>(), ["vip", "a b", "VIP"]);
        let many: Vec<_> = (0..50).map(|number| format!("t{number}")).collect();
        assert!(Tags::new(many.iter()).is_ok());
        assert_eq!(Tags::new(["x"; 51].iter()), Err(ContactError::Tags));
        assert!(Tags::new(["é".repeat(64)].iter()).is_ok());
        for bad in ["", " ", &"é".repeat(65), "a\tb", "\u{85}"] {
            assert_eq!(Tags::new([bad].iter()), Err(ContactError::Tags), "{bad}");
        }
    }

    #[test]
    fn custom_fields_are_a_small_flat_object() {
        let good = json!({"plan": "gold", "n": [1, {"x": null}]});
        assert_eq!(CustomFields::new(&good).unwrap().to_value(), good);
        assert_eq!(CustomFields::default().to_value(), json!({}));
        for bad in [json!([]), json!("x"), json!(1), json!(null)] {
            assert_eq!(CustomFields::new(&bad), Err(ContactError::FieldsShape), "{bad}");
        }
        let nested = |levels: usize| (1..levels).fold(json!({}), |inner, _| json!({ "x": inner }));
        assert!(CustomFields::new(&nested(8)).is_ok());
        assert_eq!(CustomFields::new(&nested(9)), Err(ContactError::FieldsDepth));
        // {"x":"…"} is 8 bytes and the text.
        let sized = |bytes: usize| json!({"x": "y".repeat(bytes - 8)});
        assert!(CustomFields::new(&sized(16_384)).is_ok());
        assert_eq!(CustomFields::new(&sized(16_385)), Err(ContactError::FieldsSize));
        for good in [
            r#"{"n": 18446744073709551615, "m": [-9223372036854775808], "f": 1.5e300}"#,
            r#"{"99999999999999999999": "1\"99999999999999999999"}"#,
        ] {
            let kept = CustomFields::parse(good).unwrap();
            assert_eq!(kept.to_value(), serde_json::from_str::<Value>(good).unwrap());
        }
        for (bad, why) in [
            (r#"{"n": 18446744073709551616}"#, ContactError::FieldsNumber),
            (r#"{"n": {"m": [-9223372036854775809]}}"#, ContactError::FieldsNumber),
            (r#"{"$serde_json::private::RawValue": "{}"}"#, ContactError::FieldsName),
            (r#"{"a": [{"b": 1, "$serde_json::private::Number": "1"}]}"#, ContactError::FieldsName),
            ("[", ContactError::FieldsShape),
            ("{", ContactError::FieldsShape),
            (r#"{"x": }"#, ContactError::FieldsShape),
            (&r#"{"x":"#.repeat(5000), ContactError::FieldsDepth),
        ] {
            assert_eq!(CustomFields::parse(bad), Err(why), "{bad}");
        }
    }
}
