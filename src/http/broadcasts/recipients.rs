//! The recipients in a body: read one by one into eight bytes each, so that a million of them are
//! never a million texts.

use std::borrow::Cow;
use std::fmt;

use postrider_actors::domain::Phone;
use postrider_actors::{Audience, Variables};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess};
use serde::de::{Error, Visitor};
use serde_json::value::RawValue;

use crate::http::pipeline::ApiError;

/// Most bad recipients that a refusal names.
const BAD_MAX: usize = 20;
/// Most variables of a recipient: no template has as many places.
const VARIABLES_MAX: usize = 100;

/// The recipients of a body, good and bad.
#[derive(Debug, Default)]
pub(super) struct Recipients {
    audience: Audience,
    /// The first bad ones: which, and what they must be.
    bad: Vec<(String, String)>,
    bad_count: usize,
}

impl Recipients {
    /// The audience, when every recipient is good.
    pub(super) fn audience(self) -> Result<Audience, ApiError> {
        if self.bad.is_empty() {
            return Ok(self.audience);
        }
        let mut rules: Vec<(&str, Vec<String>)> = Vec::new();
        for (path, rule) in &self.bad {
            let path = format!("`{path}`");
            match rules.iter_mut().find(|(known, _)| *known == rule.as_str()) {
                Some((_, paths)) => paths.push(path),
                None => rules.push((rule.as_str(), vec![path])),
            }
        }
        let said = rules.iter().map(|(rule, paths)| format!("{} {rule}", paths.join(", ")));
        let mut message = said.collect::<Vec<_>>().join("; ");
        if self.bad_count > self.bad.len() {
            message.push_str(&format!("; and {} more", self.bad_count - self.bad.len()));
        }
        Err(ApiError::invalid(message))
    }

    fn refuse(&mut self, path: String, rule: impl fmt::Display) {
        self.bad_count += 1;
        if self.bad.len() < BAD_MAX {
            self.bad.push((path, rule.to_string()));
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
                while list.next_element_seed(One { recipients: &mut recipients, index })?.is_some()
                {
                    index += 1;
                }
                Ok(recipients)
            }
        }

        deserializer.deserialize_seq(List)
    }
}

/// Reads one recipient: a phone, or an object with `to` and `variables`.
struct One<'a> {
    recipients: &'a mut Recipients,
    index: usize,
}

impl One<'_> {
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

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for One<'_> {
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
        // Not read before it is known what it must be: it may be anything, of any size.
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

/// The texts of a list that is not too long; none where there is no list.
fn texts(list: Option<&RawValue>) -> Option<Variables> {
    struct Few(Vec<Box<str>>);

    impl<'de> Deserialize<'de> for Few {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_seq(FewTexts).map(Self)
        }
    }

    let few: Option<Few> = match list {
        None => None,
        Some(list) => serde_json::from_str(list.get()).ok()?,
    };
    Some(few.map_or_else(Variables::default, |few| few.0.into()))
}

/// Reads a list of texts, and gives up where it gets too long.
struct FewTexts;

impl<'de> Visitor<'de> for FewTexts {
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
    use crate::http::pipeline::body;

    #[derive(serde::Deserialize)]
    struct Body {
        recipients: Recipients,
    }

    fn read(recipients: &str) -> Result<usize, String> {
        let text = format!(r#"{{"recipients": {recipients}}}"#);
        let body = body::parse::<Body>(text.as_bytes());
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
