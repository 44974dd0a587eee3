//! Pure: the rule for the parameters of each part of a template, and their form for the channel.
//!
//! A parameter keeps only the fields that the channel knows, with bounded lengths. The channel
//! refuses unknown fields, and it does so only after the message was charged.

use serde_json::{Map, Value};

use super::super::placeholders::{self, Placeholders};
use super::{Misfit, append_line, text_of, word};
use crate::printable;

/// The maximum number of characters of a parameter in a body.
const BODY_CHARS_MAX: usize = 1024;
/// The maximum number of characters of a parameter in a header.
const HEADER_CHARS_MAX: usize = 60;
/// The maximum number of characters of the suffix of a button's URL.
const URL_CHARS_MAX: usize = 2000;
/// The maximum number of characters of the payload that a button returns.
const PAYLOAD_CHARS_MAX: usize = 256;
/// The maximum number of characters of a coupon code.
const COUPON_CHARS_MAX: usize = 20;

/// The rule for the parameters that a part of a template takes.
#[derive(Debug)]
pub(super) enum ParameterRule<'a> {
    /// Texts for the placeholders of a text. In a body, amounts of money and dates are also
    /// allowed.
    Texts { text: &'a str, places: Placeholders<'a>, chars_max: usize },
    /// A file, a location or a product.
    Object(&'static str),
    /// A button's parameter: its `sub_type`, its `type`, and whether it is optional.
    Button { sub_type: &'static str, kind: &'static str, chars_max: usize, optional: bool },
    /// The end of an offer, and whether it is optional.
    Offer { text: &'a str, optional: bool },
    /// The cards of a carousel.
    Carousel(&'a [Value]),
    /// Any content: the part has no meaning here.
    Anything,
    /// No parameters.
    Nothing,
}

impl<'a> ParameterRule<'a> {
    fn texts(text: Option<&'a str>, chars_max: usize) -> Self {
        let text = text.unwrap_or_default();
        Self::Texts { text, places: Placeholders::of(text), chars_max }
    }

    pub(super) fn of_header(header: &'a Value) -> Self {
        match word(header, "format").to_ascii_uppercase().as_str() {
            "IMAGE" => Self::Object("image"),
            "VIDEO" => Self::Object("video"),
            "GIF" => Self::Object("gif"),
            "DOCUMENT" => Self::Object("document"),
            "LOCATION" => Self::Object("location"),
            "PRODUCT" => Self::Object("product"),
            "" | "TEXT" => Self::texts(text_of(header), HEADER_CHARS_MAX),
            _ => Self::Anything,
        }
    }

    pub(super) fn of_body(body: &'a Value) -> Self {
        // A body whose text the channel supplies has one parameter, the code.
        Self::texts(text_of(body).or(Some("{{1}}")), BODY_CHARS_MAX)
    }

    pub(super) fn of_offer(offer: &'a Value) -> Self {
        let offer = offer.get("limited_time_offer").unwrap_or(offer);
        let ends = offer.get("has_expiration").and_then(Value::as_bool);
        Self::Offer { text: word(offer, "text"), optional: ends != Some(true) }
    }

    pub(super) fn of_button(button: &Value) -> Self {
        let has_place = Placeholders::of(word(button, "url")).count() > 0;
        let (sub_type, kind, chars_max, optional) =
            match word(button, "type").to_ascii_uppercase().as_str() {
                "URL" if has_place => ("url", "text", URL_CHARS_MAX, false),
                "OTP" => ("url", "text", URL_CHARS_MAX, false),
                "QUICK_REPLY" => ("quick_reply", "payload", PAYLOAD_CHARS_MAX, true),
                "VOICE_CALL" => ("voice_call", "payload", PAYLOAD_CHARS_MAX, true),
                "COPY_CODE" => ("copy_code", "coupon_code", COUPON_CHARS_MAX, false),
                "FLOW" => ("flow", "action", 0, true),
                "CATALOG" => ("catalog", "action", 0, true),
                "SPM" => ("spm", "action", 0, true),
                "MPM" => ("mpm", "action", 0, false),
                "URL" | "PHONE_NUMBER" | "APP" | "REQUEST_CONTACT_INFO" | "" => {
                    return Self::Nothing;
                }
                _ => return Self::Anything,
            };
        Self::Button { sub_type, kind, chars_max, optional }
    }

    /// Returns the least number of parameters.
    pub(super) fn needed(&self) -> usize {
        match self {
            Self::Texts { places, .. } => places.count(),
            Self::Object(_) => 1,
            Self::Button { optional, .. } | Self::Offer { optional, .. } => usize::from(!optional),
            Self::Carousel(cards) => usize::from(super::needs_cards(cards)),
            Self::Anything | Self::Nothing => 0,
        }
    }

    /// Returns whether its one parameter is optional.
    pub(super) const fn is_optional(&self) -> bool {
        matches!(self, Self::Button { optional: true, .. } | Self::Offer { optional: true, .. })
    }

    /// Appends the text that the recipient reads.
    pub(super) fn show(&self, filled: &[Value], out: &mut String) {
        match self {
            Self::Texts { text, places, .. } => {
                let values: Vec<_> = filled.iter().map(shown_text).collect();
                let mut line = String::with_capacity(text.len());
                placeholders::fill(text, places, &values, &mut line);
                append_line(out, &line);
            }
            Self::Offer { text, .. } => append_line(out, text),
            _ => {}
        }
    }

    /// Checks a parameter of this type.
    pub(super) fn check(
        &self,
        is_body: bool,
        (given, kind): (&Value, &str),
        path: &str,
    ) -> Result<(), Misfit> {
        let in_kind = format!("{path}.{kind}");
        match (self, kind) {
            (Self::Texts { chars_max, .. }, "text") => {
                check_text(given.get(kind), *chars_max, in_kind)
            }
            (Self::Texts { chars_max, .. }, "currency" | "date_time") if is_body => {
                let value = given.pointer(&format!("/{kind}/fallback_value"));
                check_text(value, *chars_max, format!("{in_kind}.fallback_value"))
            }
            (Self::Object(wanted), kind) if *wanted == kind => check_object(given, kind, in_kind),
            (Self::Offer { .. }, "limited_time_offer") => check_object(given, kind, in_kind),
            // It is optional, and the flow or the catalog defines its content.
            (Self::Button { kind: "action", .. }, "action") => match &given[kind] {
                Value::Object(_) => Ok(()),
                _ => Err(Misfit::new(in_kind, "must be an object")),
            },
            (Self::Button { kind: wanted, chars_max, .. }, kind) if *wanted == kind => {
                check_text(given.get(kind), *chars_max, in_kind)
            }
            _ => {
                let rule = format!("must be {}", self.allowed_types(is_body));
                Err(Misfit::new(format!("{path}.type"), rule))
            }
        }
    }

    fn allowed_types(&self, is_body: bool) -> &'static str {
        match self {
            Self::Texts { .. } if is_body => "text, currency or date_time",
            Self::Object(object) => object,
            Self::Button { kind, .. } => kind,
            Self::Offer { .. } => "limited_time_offer",
            _ => "text",
        }
    }
}

/// Returns the text that a parameter shows.
fn shown_text(parameter: &Value) -> &str {
    let at = match word(parameter, "type") {
        "currency" => "/currency/fallback_value",
        "date_time" => "/date_time/fallback_value",
        _ => "/text",
    };
    parameter.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

fn check_text(value: Option<&Value>, chars_max: usize, path: String) -> Result<(), Misfit> {
    let text = value.and_then(Value::as_str).unwrap_or_default();
    if (1..=chars_max).contains(&text.chars().count()) && !printable::has_control(text) {
        Ok(())
    } else {
        let rule = format!("must be a text of 1 to {chars_max} characters, none of them control");
        Err(Misfit::new(path, rule))
    }
}

fn check_object(given: &Value, kind: &str, path: String) -> Result<(), Misfit> {
    let object = given.get(kind).and_then(Value::as_object);
    let has = |name: &str| {
        object.and_then(|object| object.get(name)).is_some_and(|value| !value.is_null())
    };
    let (fits, rule) = match kind {
        "location" => (has("latitude") && has("longitude"), "latitude and longitude"),
        "product" => (has("product_retailer_id"), "a product_retailer_id"),
        "limited_time_offer" => {
            let ends_at = object.and_then(|object| object.get("expiration_time_ms"));
            (ends_at.is_some_and(Value::is_u64), "an expiration_time_ms, a number")
        }
        _ => (has("link") || has("id"), "a link or an id"),
    };
    if fits { Ok(()) } else { Err(Misfit::new(path, format!("must have {rule}"))) }
}

/// Sorts named parameters in the order of their placeholders. Each must be given once. If none has
/// a name, they fill the placeholders in order.
pub(super) fn in_order(
    names: &[&str],
    mut given: Vec<Value>,
    path: &str,
) -> Result<Vec<Value>, Misfit> {
    if given.iter().all(|parameter| parameter.get("parameter_name").is_none()) {
        for (parameter, name) in given.iter_mut().zip(names) {
            parameter["parameter_name"] = (*name).into();
        }
        return Ok(given);
    }
    let name_of = |parameter: &Value| word(parameter, "parameter_name").to_owned();
    for (index, parameter) in given.iter().enumerate() {
        let name = name_of(parameter);
        let again = given[..index].iter().any(|before| name_of(before) == name);
        if again || !names.contains(&name.as_str()) {
            let rule = format!("must be each of {} once", names.join(", "));
            return Err(Misfit::new(format!("{path}[{index}].parameter_name"), rule));
        }
    }
    given.sort_by_key(|parameter| names.iter().position(|name| *name == name_of(parameter)));
    Ok(given)
}

/// The maximum number of characters of one text of a parameter, such as a link or a caption.
const TEXT_CHARS_MAX: usize = 2048;
/// The maximum number of bytes of a value that is passed on unchanged.
const WHOLE_BYTES_MAX: usize = 16 * 1024;

/// The fields of the parameters that are objects.
const FIELDS: [(&str, &[&str]); 9] = [
    ("currency", &["fallback_value", "code", "amount_1000"]),
    (
        "date_time",
        &[
            "fallback_value",
            "day_of_week",
            "year",
            "month",
            "day_of_month",
            "hour",
            "minute",
            "calendar",
        ],
    ),
    ("image", &["link", "id"]),
    ("video", &["link", "id"]),
    ("gif", &["link", "id"]),
    ("product", &["product_retailer_id", "catalog_id"]),
    ("limited_time_offer", &["expiration_time_ms"]),
    ("document", &["link", "id", "filename"]),
    ("location", &["latitude", "longitude", "name", "address"]),
];

/// Checks that an object has no other fields than these.
pub(super) fn check_fields(given: &Value, known: &[&str], path: &str) -> Result<(), Misfit> {
    let fields = given.as_object();
    match fields.into_iter().flat_map(Map::keys).find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let known: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
            let rule = format!("is not known; there may be {}", known.join(", "));
            Err(Misfit::new(format!("{path}.{name}"), rule))
        }
    }
}

/// Returns the parameter with its fields; `kind` is its type.
pub(super) fn canonical_parameter(given: &Value, kind: &str, path: &str) -> Result<Value, Misfit> {
    check_fields(given, &["type", "parameter_name", kind], path)?;
    let mut kept = Map::new();
    kept.insert("type".to_owned(), kind.into());
    copy_field(given, "parameter_name", path, &mut kept)?;
    match FIELDS.iter().find(|(of, _)| *of == kind) {
        // It belongs to a flow or a catalog, whose owner defines its fields.
        None if kind == "action" => {
            let action =
                given.get(kind).map(|action| bounded_value(action, &format!("{path}.{kind}")));
            kept.extend(action.transpose()?.map(|action| (kind.to_owned(), action)));
        }
        None => {
            // The template's slot has checked its length.
            let text = given.get(kind).filter(|text| text.is_string());
            kept.extend(text.map(|text| (kind.to_owned(), text.clone())));
        }
        Some((_, fields)) => {
            let mut inner = Map::new();
            if let Some(object) = given.get(kind).filter(|object| object.is_object()) {
                let path = format!("{path}.{kind}");
                check_fields(object, fields, &path)?;
                fields.iter().try_for_each(|name| copy_field(object, name, &path, &mut inner))?;
            }
            kept.insert(kind.to_owned(), Value::Object(inner));
        }
    }
    Ok(Value::Object(kept))
}

/// Returns a value of unknown type, which is passed on unchanged.
pub(super) fn bounded_value(given: &Value, path: &str) -> Result<Value, Misfit> {
    if given.to_string().len() <= WHOLE_BYTES_MAX {
        return Ok(given.clone());
    }
    Err(Misfit::new(path, format!("must have at most {WHOLE_BYTES_MAX} bytes")))
}

/// Copies a field, if it exists.
fn copy_field(
    from: &Value,
    name: &str,
    path: &str,
    to: &mut Map<String, Value>,
) -> Result<(), Misfit> {
    let fits = match from.get(name) {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::String(text)) => text.chars().count() <= TEXT_CHARS_MAX,
        Some(Value::Number(_)) => true,
        Some(_) => false,
    };
    if !fits {
        let rule = format!("must be a text of at most {TEXT_CHARS_MAX} characters, or a number");
        return Err(Misfit::new(format!("{path}.{name}"), rule));
    }
    to.extend(from.get(name).map(|value| (name.to_owned(), value.clone())));
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(given: &Value, kind: &str) -> Result<Value, Misfit> {
        canonical_parameter(given, kind, "p")
    }

    #[test]
    fn the_form_of_the_channel_is_made() {
        let table = [
            (json!({"type": "TEXT", "text": "a"}), json!({"type": "text", "text": "a"})),
            (
                json!({"text": "a", "parameter_name": "who"}),
                json!({"type": "text", "text": "a", "parameter_name": "who"}),
            ),
            (
                json!({"currency": {"fallback_value": "$5", "code": "USD", "amount_1000": 5000}}),
                json!({"type": "currency", "currency": {"fallback_value": "$5", "code": "USD", "amount_1000": 5000}}),
            ),
            (
                json!({"document": {"link": "https://x", "id": null, "filename": "a.pdf"}}),
                json!({"type": "document", "document": {"link": "https://x", "filename": "a.pdf"}}),
            ),
            (json!({"coupon_code": "5OFF"}), json!({"type": "coupon_code", "coupon_code": "5OFF"})),
        ];
        for (given, kept) in table {
            let kind = kept["type"].as_str().unwrap();
            assert_eq!(read(&given, kind).unwrap(), kept);
            assert_eq!(read(&kept, kind).unwrap(), kept);
        }
    }

    #[test]
    fn a_field_that_is_not_known_is_named() {
        for (given, kind, expected) in [
            (
                json!({"type": "text", "text": "a", "parameter_nam": "who"}),
                "text",
                "`p.parameter_nam` is not known; there may be `type`, `parameter_name`, `text`",
            ),
            (
                json!({"type": "text", "text": "a", "currency": {}}),
                "text",
                "`p.currency` is not known; there may be `type`, `parameter_name`, `text`",
            ),
            (
                json!({"type": "document", "document": {"link": "x", "file_name": "a.pdf"}}),
                "document",
                "`p.document.file_name` is not known; there may be `link`, `id`, `filename`",
            ),
        ] {
            assert_eq!(read(&given, kind).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn what_is_too_large_is_named() {
        let long = "x".repeat(TEXT_CHARS_MAX + 1);
        for (given, kind, field) in [
            (json!({"image": {"link": long}}), "image", "p.image.link"),
            (json!({"image": {"link": {"a": 1}}}), "image", "p.image.link"),
            (
                json!({"location": {"latitude": [1], "longitude": 2}}),
                "location",
                "p.location.latitude",
            ),
            (json!({"text": "a", "parameter_name": long}), "text", "p.parameter_name"),
        ] {
            let misfit = canonical_parameter(&given, kind, "p").unwrap_err();
            assert!(misfit.to_string().contains(&format!("`{field}`")), "{misfit}");
        }
    }
}
