//! Parses the filter and the order of a list of contacts.

use postrider_actors::domain::Tags;
use postrider_actors::{ContactFilter, ContactOrder, ContactSort};
use serde_json::Value;

use crate::http::pipeline::{ApiError, Query};

/// The prefix of a custom field's name.
const FIELD: &str = "custom_fields.";
/// The maximum number of custom fields of a query.
const FIELDS_MAX: usize = 50;
/// The maximum length of a custom field's name or value, in characters.
const FIELD_CHARS_MAX: usize = 200;
/// The words of `sort`; `-` before a word reverses the order.
const SORTS: [&str; 6] =
    ["name", "-name", "created_at", "-created_at", "updated_at", "-updated_at"];

/// Parses the filter of a list of contacts; `search` is its search term.
pub(super) fn filter(query: &Query, search: Option<&str>) -> Result<ContactFilter, ApiError> {
    let fields: Vec<_> = query.below(FIELD).collect();
    let is_long = |(name, value): &(&str, &str)| {
        let chars = name.chars().count();
        !(1..=FIELD_CHARS_MAX).contains(&chars) || value.chars().count() > FIELD_CHARS_MAX
    };
    if fields.len() > FIELDS_MAX || fields.iter().any(is_long) {
        let rule = "must be at most 50 fields, whose names and values have at most 200 characters";
        return Err(ApiError::field("custom_fields", rule));
    }
    let own = |(name, text): (&str, &str)| (name.to_owned(), Value::from(text).to_string());
    Ok(ContactFilter {
        tags_any: tags(query, "tags_any")?,
        tags_all: tags(query, "tags_all")?,
        tags_none: tags(query, "tags_none")?,
        fields: fields.into_iter().map(own).collect(),
        ..ContactFilter::search(search)
    })
}

/// Parses tags that are separated by commas.
fn tags(query: &Query, name: &str) -> Result<Vec<String>, ApiError> {
    let texts = query.text(name)?.unwrap_or_default().split(',');
    let texts: Vec<_> = texts.filter(|tag| !tag.trim().is_empty()).collect();
    let tags = Tags::new(texts.iter()).map_err(|error| ApiError::field(name, error))?;
    Ok(tags.iter().map(str::to_owned).collect())
}

/// Parses the order of the list.
pub(super) fn sort(query: &Query) -> Result<ContactSort, ApiError> {
    let Some(text) = query.text("sort")? else { return Ok(ContactSort::default()) };
    let (descending, by) = match text.strip_prefix('-') {
        Some(by) => (true, by),
        None => (false, text),
    };
    let by = match by {
        "name" => ContactOrder::Name,
        "created_at" => ContactOrder::Created,
        "updated_at" => ContactOrder::Updated,
        _ => {
            let rule = format_args!("must be one of {}", SORTS.join(", ")).to_string();
            return Err(ApiError::field("sort", rule));
        }
    };
    Ok(ContactSort { by, descending })
}
