//! The sources of the variables for a segment's contacts.

use std::borrow::Cow;

use postrider_actors::VariableSource;
use serde_json::Value;
use utoipa::openapi::schema::{OneOf, Schema};
use utoipa::openapi::{ObjectBuilder, RefOr, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::http::pipeline::ApiError;

/// The maximum number of placeholders that are filled. No template has more.
const SOURCES_MAX: usize = 100;
/// The maximum lengths of a text for all contacts and of a custom field's name, in characters.
const TEXT_CHARS_MAX: usize = 1024;
const FIELD_CHARS_MAX: usize = 200;
const FIELD: &str = "custom_fields.";

/// The schema of a source: a word, or an object.
pub(super) struct SourceSchema;

impl PartialSchema for SourceSchema {
    fn schema() -> RefOr<Schema> {
        let word = ObjectBuilder::new().schema_type(Type::String);
        let word = word.pattern(Some(r"^(name|custom_fields\..{1,200})$")).build();
        let text = ObjectBuilder::new().schema_type(Type::String);
        let text = text.min_length(Some(1)).max_length(Some(TEXT_CHARS_MAX)).build();
        let object = ObjectBuilder::new().property("text", text).required("text");
        let mut source = OneOf::new();
        source.items = vec![word.into(), object.build().into()];
        RefOr::T(Schema::OneOf(source))
    }
}

impl ToSchema for SourceSchema {
    fn name() -> Cow<'static, str> {
        "VariableSource".into()
    }
}

/// Checks the sources of a body.
pub(super) fn sources(given: &[Value]) -> Result<Vec<VariableSource>, ApiError> {
    if given.len() > SOURCES_MAX {
        let rule = format_args!("must have at most {SOURCES_MAX} entries");
        return Err(ApiError::field("variables_from", rule));
    }
    let read = |(at, value): (usize, &Value)| {
        source(value).ok_or_else(|| {
            let rule = "must be `name`, `custom_fields.` and a field's name, or an object with a \
                        `text` of 1 to 1024 characters";
            ApiError::field(&format!("variables_from[{at}]"), rule)
        })
    };
    given.iter().enumerate().map(read).collect()
}

fn source(value: &Value) -> Option<VariableSource> {
    match value {
        Value::String(word) if word == "name" => Some(VariableSource::Name),
        Value::String(word) => {
            let field = word.strip_prefix(FIELD)?;
            let fits = (1..=FIELD_CHARS_MAX).contains(&field.chars().count());
            fits.then(|| VariableSource::CustomField(field.into()))
        }
        Value::Object(fields) => {
            let text = fields.get("text").filter(|_| fields.len() == 1)?.as_str()?;
            let fits = (1..=TEXT_CHARS_MAX).contains(&text.chars().count());
            fits.then(|| VariableSource::Text(text.into()))
        }
        _ => None,
    }
}
