//! Pure: keeps of a parameter only the fields that the channel knows, with bounded lengths.
//!
//! The channel refuses unknown fields, and it does so only after the message was charged.

use serde_json::{Map, Value};

use super::Misfit;

/// Most characters of a link, a caption and the like.
const TEXT_CHARS_MAX: usize = 2048;
/// Most bytes of what is passed on as it was given.
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

/// The parameter with its known fields; `kind` is its type. Unknown fields are dropped, as in every
/// request body.
pub(super) fn parameter(
    given: &Map<String, Value>,
    kind: &str,
    path: &str,
) -> Result<Value, Misfit> {
    let mut kept = Map::new();
    kept.insert("type".to_owned(), kind.into());
    keep(given, "parameter_name", path, &mut kept)?;
    match FIELDS.iter().find(|(of, _)| *of == kind) {
        // It is of a flow or a catalog, whose fields are their owner's.
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
            if let Some(object) = given.get(kind).and_then(Value::as_object) {
                let path = format!("{path}.{kind}");
                fields.iter().try_for_each(|name| keep(object, name, &path, &mut inner))?;
            }
            kept.insert(kind.to_owned(), Value::Object(inner));
        }
    }
    Ok(Value::Object(kept))
}

/// What is passed on as it was given, because it is of no known type.
pub(super) fn whole(given: &Value, path: &str) -> Result<Value, Misfit> {
    if given.to_string().len() <= WHOLE_BYTES_MAX {
        return Ok(given.clone());
    }
    Err(Misfit::new(path, format!("must have at most {WHOLE_BYTES_MAX} bytes")))
}

/// Copies a field, if it is there.
fn keep(
    from: &Map<String, Value>,
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

    #[test]
    fn what_is_not_known_is_left_out() {
        let junk = json!({"deep": [1, [2]]});
        let table = [
            (
                json!({"type": "TEXT", "text": "a", "junk": junk}),
                json!({"type": "text", "text": "a"}),
            ),
            (
                json!({"text": "a", "parameter_name": "who", "currency": {}}),
                json!({"type": "text", "text": "a", "parameter_name": "who"}),
            ),
            (
                json!({"currency": {"fallback_value": "$5", "code": "USD", "amount_1000": 5000, "x": junk}}),
                json!({"type": "currency", "currency": {"fallback_value": "$5", "code": "USD", "amount_1000": 5000}}),
            ),
            (
                json!({"document": {"link": "https://x", "id": null, "filename": "a.pdf", "x": 1}}),
                json!({"type": "document", "document": {"link": "https://x", "filename": "a.pdf"}}),
            ),
            (
                json!({"coupon_code": "5OFF", "text": "a"}),
                json!({"type": "coupon_code", "coupon_code": "5OFF"}),
            ),
        ];
        for (given, kept) in table {
            let kind = kept["type"].as_str().unwrap();
            let read = parameter(given.as_object().unwrap(), kind, "p").unwrap();
            assert_eq!(read, kept);
            assert_eq!(parameter(read.as_object().unwrap(), kind, "p").unwrap(), kept);
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
            let misfit = parameter(given.as_object().unwrap(), kind, "p").unwrap_err();
            assert!(misfit.to_string().contains(&format!("`{field}`")), "{misfit}");
        }
    }
}
