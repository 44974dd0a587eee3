//! Pure: takes only the fields of a parameter that the channel knows, with bounded lengths.
//!
//! The channel refuses unknown fields, and it does so only after the message was charged.

use serde_json::{Map, Value};

use super::Misfit;

/// The maximum number of characters of a link, a caption and the like.
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
pub(super) fn only(given: &Value, known: &[&str], path: &str) -> Result<(), Misfit> {
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
pub(super) fn parameter(given: &Value, kind: &str, path: &str) -> Result<Value, Misfit> {
    only(given, &["type", "parameter_name", kind], path)?;
    let mut kept = Map::new();
    kept.insert("type".to_owned(), kind.into());
    keep(given, "parameter_name", path, &mut kept)?;
    match FIELDS.iter().find(|(of, _)| *of == kind) {
        // It belongs to a flow or a catalog, whose owner defines its fields.
        None if kind == "action" => {
            let action = given.get(kind).map(|action| whole(action, &format!("{path}.{kind}")));
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
                only(object, fields, &path)?;
                fields.iter().try_for_each(|name| keep(object, name, &path, &mut inner))?;
            }
            kept.insert(kind.to_owned(), Value::Object(inner));
        }
    }
    Ok(Value::Object(kept))
}

/// Returns a value of unknown type, which is passed on unchanged.
pub(super) fn whole(given: &Value, path: &str) -> Result<Value, Misfit> {
    if given.to_string().len() <= WHOLE_BYTES_MAX {
        return Ok(given.clone());
    }
    Err(Misfit::new(path, format!("must have at most {WHOLE_BYTES_MAX} bytes")))
}

/// Copies a field, if it exists.
fn keep(from: &Value, name: &str, path: &str, to: &mut Map<String, Value>) -> Result<(), Misfit> {
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
        parameter(given, kind, "p")
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
            let misfit = parameter(&given, kind, "p").unwrap_err();
            assert!(misfit.to_string().contains(&format!("`{field}`")), "{misfit}");
        }
    }
}
