//! Parses the recipients of a broadcast one by one.
//!
//! Each phone becomes eight bytes at once, so a million recipients are never a million strings.

use std::borrow::Cow;
use std::fmt;

use postrider_actors::domain::Phone;
use postrider_actors::{Audience, Variables};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess};
use serde::de::{Error, Visitor};
use serde_json::value::RawValue;
use utoipa::openapi::schema::{Array, OneOf, Schema, SchemaType};
use utoipa::openapi::{ObjectBuilder, RefOr, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::http::pipeline::ApiError;

/// The maximum number of invalid recipients that a refusal names.
const INVALID_SHOWN_MAX: usize = 20;
/// The maximum number of variables of a recipient. No template has more placeholders.
const VARIABLES_MAX: usize = 100;

/// The schema of a recipient: a phone, or an object.
pub(super) struct RecipientSchema;

impl PartialSchema for RecipientSchema {
    fn schema() -> RefOr<Schema> {
        let phone = || {
            let text = ObjectBuilder::new().schema_type(Type::String);
            text.pattern(Some(r"^\+[1-9][0-9]{6,14}$")).build()
        };
        let text = ObjectBuilder::new().schema_type(Type::String);
        let mut variables = Array::new(text);
        variables.max_items = Some(VARIABLES_MAX);
        variables.schema_type = SchemaType::Array(vec![Type::Array, Type::Null]);
        let object = ObjectBuilder::new()
            .property("to", phone())
            .property("variables", variables)
            .required("to");
        let mut recipient = OneOf::new();
        recipient.items = vec![phone().into(), object.build().into()];
        RefOr::T(Schema::OneOf(recipient))
    }
}

impl ToSchema for RecipientSchema {
    fn name() -> Cow<'static, str> {
        "RecipientInput".into()
    }
}

/// The recipients of a body, valid and invalid ones.
#[derive(Debug, Default)]
pub(super) struct Recipients {
    audience: Audience,
    /// The first invalid recipients, each with its path and the violated rule.
    invalid: Vec<(String, String)>,
    invalid_count: usize,
}

impl Recipients {
    /// Returns the audience, or a refusal when any recipient is invalid.
    pub(super) fn audience(self) -> Result<Audience, ApiError> {
        if self.invalid.is_empty() {
            return Ok(self.audience);
        }
        let mut rules: Vec<(&str, Vec<String>)> = Vec::new();
        for (path, rule) in &self.invalid {
            let path = format!("`{path}`");
            match rules.iter_mut().find(|(known, _)| *known == rule.as_str()) {
                Some((_, paths)) => paths.push(path),
                None => rules.push((rule.as_str(), vec![path])),
            }
        }
        let said = rules.iter().map(|(rule, paths)| format!("{} {rule}", paths.join(", ")));
        let mut message = said.collect::<Vec<_>>().join("; ");
        if self.invalid_count > self.invalid.len() {
            message.push_str(&format!("; and {} more", self.invalid_count - self.invalid.len()));
        }
        Err(ApiError::invalid(message))
    }

    fn refuse(&mut self, path: String, rule: impl fmt::Display) {
        self.invalid_count += 1;
        if self.invalid.len() < INVALID_SHOWN_MAX {
            self.invalid.push((path, rule.to_string()));
        }
    }
}

impl<'de> Deserialize<'de> for Recipients {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;

        impl<'de> Visitor<'de> for List {
            type Value = Recipients;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of phones")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Recipients, A::Error> {
                let mut recipients = Recipients::default();
                let mut index = 0;
                while list
                    .next_element_seed(RecipientSeed { recipients: &mut recipients, index })?
                    .is_some()
                {
                    index += 1;
                }
                Ok(recipients)
            }
        }

        deserializer.deserialize_seq(List)
    }
}

/// Parses one recipient: a phone, or an object with `to` and `variables`.
struct RecipientSeed<'a> {
    recipients: &'a mut Recipients,
    index: usize,
}

impl RecipientSeed<'_> {
    fn add(self, to: &str, variables: Variables) {
        match to.parse::<Phone>() {
            Ok(phone) => self.recipients.audience.add(phone, variables),
            Err(error) => self.recipients.refuse(format!("recipients[{}]", self.index), error),
        }
    }

    fn refuse<E>(self) -> Result<(), E> {
        let path = format!("recipients[{}]", self.index);
        self.recipients.refuse(path, "must be a phone, or an object with `to`");
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for RecipientSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for RecipientSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a phone, or an object with `to`")
    }

    fn visit_str<E: Error>(self, to: &str) -> Result<(), E> {
        self.add(to, Variables::default());
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.refuse()
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.refuse()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.refuse()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.refuse()
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.refuse()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        self.refuse()
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        // A raw value is parsed only after its key is known: it may have any type and any size.
        let (mut to, mut variables) = (None::<&RawValue>, None::<&RawValue>);
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            match &*name {
                "to" => to = Some(map.next_value()?),
                "variables" => variables = Some(map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let path = format!("recipients[{}]", self.index);
        let to = to.and_then(|to| serde_json::from_str::<Cow<'_, str>>(to.get()).ok());
        match (to, texts(variables)) {
            (Some(to), Some(variables)) => self.add(&to, variables),
            (None, _) => self.recipients.refuse(format!("{path}.to"), "must be a phone"),
            (_, None) => {
                let rule = format_args!("must be a list of at most {VARIABLES_MAX} texts");
                self.recipients.refuse(format!("{path}.variables"), rule);
            }
        }
        Ok(())
    }
}

/// Parses a list of variables. A missing list is empty; the result is `None` if the list is
/// invalid.
fn texts(list: Option<&RawValue>) -> Option<Variables> {
    struct Few(Vec<Box<str>>);

    impl<'de> Deserialize<'de> for Few {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_seq(BoundedTexts).map(Self)
        }
    }

    let few: Option<Few> = match list {
        None => None,
        Some(list) => serde_json::from_str(list.get()).ok()?,
    };
    Some(few.map_or_else(Variables::default, |few| few.0.into()))
}

/// Parses a list of texts, and stops at the first one beyond the limit.
struct BoundedTexts;

impl<'de> Visitor<'de> for BoundedTexts {
    type Value = Vec<Box<str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of texts")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = list.next_element::<Cow<'de, str>>()? {
            if texts.len() == VARIABLES_MAX {
                return Err(A::Error::custom("the list is too long"));
            }
            texts.push(text.into());
        }
        Ok(texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::pipeline::json;

    #[derive(serde::Deserialize)]
    struct Body {
        recipients: Recipients,
    }

    fn read(recipients: &str) -> Result<usize, String> {
        let text = format!(r#"{{"recipients": {recipients}}}"#);
        let body = json::parse::<Body>(text.as_bytes());
        let audience = body.and_then(|body| body.recipients.audience());
        audience.map(|audience| audience.len()).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn phones_and_objects_are_read_and_bad_ones_named() {
        assert_eq!(read("[]"), Ok(0));
        assert_eq!(read(r#"["+15550123456", "+15550123457", "+15550123456"]"#), Ok(3));
        let object = r#"[{"to": "+15550123456", "variables": ["a"], "x": [1]}, "+15550123457"]"#;
        assert_eq!(read(object), Ok(2));
        for (bad, expected) in [
            ("7", "`recipients`: invalid type: integer `7`, expected a list of phones"),
            ("null", "`recipients`: invalid type: null"),
            (r#"["+1", "+15550123456", "x"]"#, "`recipients[0]`, `recipients[2]` must be in E.164"),
            (r"[7]", "`recipients[0]` must be a phone, or an object with `to`"),
            (r"[null, [1, [2]], 1.5, true]", "`recipients[0]`, `recipients[1]`, `recipients[2]`"),
            (r#"[{"variables": []}]"#, "`recipients[0].to` must be a phone"),
            (r#"[{"to": "x"}]"#, "`recipients[0]` must be in E.164"),
            (
                r#"[{"to": "+15550123456", "variables": [7]}]"#,
                "`recipients[0].variables` must be a list of at most 100 texts",
            ),
            (r#"[{"to": [[], {"a": 1}]}]"#, "`recipients[0].to` must be a phone"),
            (
                r#"[{"to": "+15550123456", "variables": {"a": []}}]"#,
                "`recipients[0].variables` must be a list of at most 100 texts",
            ),
        ] {
            let message = read(bad).unwrap_err();
            assert!(message.starts_with(expected), "{bad}: {message}");
        }
        let with = |count| {
            let variables = vec![r#""""#; count].join(",");
            read(&format!(r#"[{{"to": "+15550123456", "variables": [{variables}]}}]"#))
        };
        assert_eq!(with(100), Ok(1));
        assert!(with(101).unwrap_err().ends_with("must be a list of at most 100 texts"));
        let null = r#"[{"to": "+15550123456", "variables": null}]"#;
        assert_eq!(read(null), Ok(1));
        let many = format!("[{}]", vec![r#""x""#; 25].join(","));
        let message = read(&many).unwrap_err();
        assert!(message.contains("`recipients[19]`") && !message.contains("`recipients[20]`"));
        assert!(message.ends_with("; and 5 more"), "{message}");
    }
}
