//! Refuses fields of a body that its operation does not know, and suggests the nearest known one.
//!
//! A name that nobody reads is a mistake of the caller. A misspelt time would send at once, and a
//! misspelt filter would match everybody. The OpenAPI document lists the fields of a body. In a
//! change a client may send back fields that it has read, such as `id`.

use std::collections::HashMap;

use serde::de::Deserialize;
use serde_ignored::Path;
use serde_json::{Map, Value};
use utoipa::openapi::OpenApi;

use super::error::ApiError;

/// The extension of the document that names the permission a caller needs.
pub(crate) const PERMISSION: &str = "x-permission";

/// The permissions of the requests that send. Nobody sends back the answer of such a request.
const SENDS: [&str; 4] = ["broadcasts:write", "inbox:write", "messages:send", "otp:send"];

/// The similarity from which on a name is suggested in place of another, as clap does it.
const ALIKE: f64 = 0.7;

/// The maximum depth to which references between schemas are followed.
const DEPTH_MAX: usize = 16;

/// The keywords of a schema that determine its fields.
const SHAPE: [&str; 7] =
    ["$ref", "additionalProperties", "allOf", "anyOf", "items", "oneOf", "properties"];

/// The fields of the bodies of all operations.
#[derive(Default)]
pub(crate) struct KnownFields {
    schemas: Map<String, Value>,
    /// The operations, by path and method.
    operations: HashMap<(String, String), OperationFields>,
}

/// The schemas of one operation.
struct OperationFields {
    body: Value,
    /// The schemas of its answers, and of the answers to a reading of the same path.
    answers: Vec<Value>,
}

/// The fields of one operation's body.
#[derive(Clone, Copy)]
pub(crate) struct BodyFields<'a> {
    all: &'a KnownFields,
    operation: Option<&'a OperationFields>,
}

impl KnownFields {
    /// Returns the fields of the operations of a document.
    pub(crate) fn of(document: &OpenApi) -> Self {
        // A document of texts and numbers always has a JSON form.
        Self::of_json(serde_json::to_value(document).unwrap_or_default())
    }

    fn of_json(mut document: Value) -> Self {
        let mut known = Self::default();
        if let Some(Value::Object(schemas)) = document.pointer_mut("/components/schemas") {
            known.schemas = std::mem::take(schemas);
            known.schemas.values_mut().for_each(strip);
        }
        for (path, item) in document["paths"].as_object().into_iter().flatten() {
            let read = answers(&item["get"]);
            for (method, operation) in item.as_object().into_iter().flatten() {
                let Some(body) = json_schema(&operation["requestBody"]) else { continue };
                let needs = operation[PERMISSION].as_str().unwrap_or_default();
                let answers = match method == "post" && SENDS.contains(&needs) {
                    true => Vec::new(),
                    false => answers(operation).into_iter().chain(read.clone()).collect(),
                };
                let key = (path.clone(), method.to_ascii_uppercase());
                known.operations.insert(key, OperationFields { body, answers });
            }
        }
        known
    }

    /// Returns the fields of one operation's body.
    pub(crate) fn of_body(&self, path: &str, method: &str) -> BodyFields<'_> {
        let operation = self.operations.get(&(path.to_owned(), method.to_owned()));
        BodyFields { all: self, operation }
    }

    /// Returns the names that an object at a place within a schema may have.
    fn names<'a>(&'a self, schema: &'a Value, place: &[FieldStep<'_>]) -> Vec<&'a str> {
        let mut forms = Vec::new();
        self.forms(schema, 0, &mut forms);
        for step in place {
            let within = std::mem::take(&mut forms);
            for inner in within.into_iter().filter_map(|form| step.schema_in(form)) {
                self.forms(inner, 0, &mut forms);
            }
        }
        let fields = forms.into_iter().filter_map(|form| form["properties"].as_object());
        fields.flat_map(|fields| fields.keys().map(String::as_str)).collect()
    }

    /// Collects the schemas that a schema includes or refers to.
    fn forms<'a>(&'a self, schema: &'a Value, depth: usize, forms: &mut Vec<&'a Value>) {
        if depth == DEPTH_MAX {
            return;
        }
        let named = schema["$ref"].as_str().and_then(|name| name.rsplit('/').next());
        if let Some(schema) = named.and_then(|name| self.schemas.get(name)) {
            self.forms(schema, depth + 1, forms);
        }
        for of in ["allOf", "anyOf", "oneOf"] {
            let alternatives = schema[of].as_array().into_iter().flatten();
            alternatives.for_each(|schema| self.forms(schema, depth + 1, forms));
        }
        forms.push(schema);
    }
}

impl BodyFields<'_> {
    /// Returns the names that the body may have at a place.
    fn names(&self, place: &[FieldStep<'_>]) -> Vec<&str> {
        self.operation.map(|it| self.all.names(&it.body, place)).unwrap_or_default()
    }

    /// Returns whether a client may have read the field and sent it back.
    fn is_read(&self, place: &[FieldStep<'_>], name: &str) -> bool {
        let mut answers = self.operation.iter().flat_map(|it| &it.answers);
        answers.any(|answer| self.all.names(answer, place).contains(&name))
    }

    /// Returns the refusal of a field, if the field is unknown.
    #[cold]
    fn unknown(self, path: &Path<'_>) -> Option<ApiError> {
        let steps = steps(path);
        let Some((FieldStep::Field(name), place)) = steps.split_last() else { return None };
        let known = self.names(place);
        // A handler that parses the body in parts ignores the fields of the other parts.
        if known.contains(name) || self.is_read(place, name) {
            return None;
        }
        let known = known.into_iter().map(|known| (strsim::jaro(known, name), known));
        let nearest = known.filter(|(like, known)| *like > ALIKE && is_word(name, known));
        let nearest = nearest.max_by(|a, b| a.0.total_cmp(&b.0));
        let path = path_text(&steps);
        Some(match nearest {
            Some((_, known)) => {
                let place = [place, &[FieldStep::Field(known)]].concat();
                let known = path_text(&place);
                ApiError::field(&path, format_args!("is not known; did you mean `{known}`?"))
            }
            None => ApiError::field(&path, "is not known"),
        })
    }
}

/// Parses a body, which is known to be an object. `fields` is called if a field is ignored.
///
/// # Errors
/// The refusal of the first unknown field, or else `None` if the body does not fit.
pub(super) fn parse<'a, 'f, T: Deserialize<'a>>(
    body: &'a [u8],
    fields: impl Fn() -> BodyFields<'f>,
) -> Result<T, Option<ApiError>> {
    let mut refusal = None;
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let mut note = |path: Path<'_>| {
        if refusal.is_none() {
            refusal = fields().unknown(&path);
        }
    };
    let parsed = serde_ignored::deserialize(&mut deserializer, &mut note);
    let parsed = parsed.and_then(|parsed: T| deserializer.end().map(|()| parsed));
    match (parsed, refusal) {
        (Ok(parsed), None) => Ok(parsed),
        // A missing field may well be the misspelt one.
        (_, refusal) => Err(refusal),
    }
}

/// Returns whether a name is long enough to be a misspelling of a known one.
fn is_word(name: &str, known: &str) -> bool {
    2 * name.chars().count() >= known.chars().count()
}

/// A step from a value to a value within it.
#[derive(Clone, Copy)]
enum FieldStep<'a> {
    Field(&'a str),
    Element(usize),
}

impl FieldStep<'_> {
    /// Returns the schema of the value at this step, within a value of the given schema.
    fn schema_in(self, schema: &Value) -> Option<&Value> {
        match self {
            Self::Field(name) => {
                schema["properties"].get(name).or_else(|| schema.get("additionalProperties"))
            }
            Self::Element(_) => schema.get("items"),
        }
    }
}

fn steps<'a>(path: &'a Path<'a>) -> Vec<FieldStep<'a>> {
    let (parent, step) = match path {
        Path::Root => return Vec::new(),
        Path::Map { parent, key } => (parent, Some(FieldStep::Field(key))),
        Path::Seq { parent, index } => (parent, Some(FieldStep::Element(*index))),
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => (parent, None),
    };
    let mut steps = steps(parent);
    steps.extend(step);
    steps
}

/// Formats the path as refusals write it.
fn path_text(steps: &[FieldStep<'_>]) -> String {
    let mut path = String::new();
    for step in steps {
        match step {
            FieldStep::Field(name) if path.is_empty() => path.push_str(name),
            FieldStep::Field(name) => path.extend([".", name]),
            FieldStep::Element(index) => path.push_str(&format!("[{index}]")),
        }
    }
    path
}

/// Returns the schemas of the JSON answers of an operation.
fn answers(operation: &Value) -> Vec<Value> {
    let all = operation["responses"].as_object().into_iter().flatten();
    let good = all.filter(|(status, _)| status.starts_with('2'));
    good.filter_map(|(_, answer)| json_schema(answer)).collect()
}

fn json_schema(part: &Value) -> Option<Value> {
    let mut schema = part["content"]["application/json"].get("schema")?.clone();
    strip(&mut schema);
    Some(schema)
}

/// Removes the keywords from a schema that do not determine its fields.
fn strip(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    schema.retain(|name, _| SHAPE.contains(&name.as_str()));
    for (name, part) in schema {
        match part {
            Value::Array(parts) => parts.iter_mut().for_each(strip),
            Value::Object(fields) if name == "properties" => {
                fields.values_mut().for_each(strip);
            }
            part => strip(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "read for its fields")]
    struct Body {
        schedule_at: Option<String>,
        filter: Option<Filter>,
        rows: Option<Vec<Filter>>,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "read for its fields")]
    struct Filter {
        tags_any: Option<Vec<String>>,
    }

    /// Returns the fields of a thing that is created and changed at `/things`, and sent at
    /// `/sends`.
    fn known() -> KnownFields {
        let content = |name: &str| {
            let schema = json!({"$ref": format!("#/components/schemas/{name}")});
            json!({"description": "", "content": {"application/json": {"schema": schema}}})
        };
        let operation = |needs: &str| {
            let answers = json!({"200": content("Thing"), "400": content("Filter")});
            json!({"requestBody": content("Body"), "responses": answers, PERMISSION: needs})
        };
        let filter = json!({"properties": {"tags_any": {"type": "array"}}});
        let reference = json!({"$ref": "#/components/schemas/Filter"});
        let document = json!({
            "openapi": "3.1.0", "info": {"title": "", "version": ""},
            "paths": {
                "/things": {"post": operation("contacts:write")},
                "/sends": {"post": operation("otp:send"), "patch": operation("otp:send")},
            },
            "components": {"schemas": {
                "Filter": filter,
                "Body": {"type": "object", "properties": {
                    "schedule_at": {"type": "string"},
                    "filter": {"oneOf": [{"type": "null"}, reference]},
                    "rows": {"type": "array", "items": reference},
                    "more": {"type": "string"},
                }},
                "Thing": {"allOf": [{"type": "object", "properties": {
                    "id": {"type": "string"},
                    "rows": {"type": "array", "items": {"type": "object",
                        "properties": {"count": {"type": "integer"}}}},
                }}]},
            }},
        });
        KnownFields::of_json(document)
    }

    fn refusal(path: &str, method: &str, body: &str) -> Option<String> {
        let known = known();
        let parsed = parse::<Body>(body.as_bytes(), || known.of_body(path, method));
        parsed.err().map(|refusal| match refusal {
            Some(refusal) => refusal.message().to_owned(),
            None => "another".to_owned(),
        })
    }

    #[test]
    fn the_field_is_named_with_the_nearest() {
        for (body, expected) in [
            (
                r#"{"scheduled_at": "x"}"#,
                "`scheduled_at` is not known; did you mean `schedule_at`?",
            ),
            (r#"{"zzz": 1}"#, "`zzz` is not known"),
            (r#"{"": 1}"#, "`` is not known"),
            (
                r#"{"filter": {"tag_any": []}}"#,
                "`filter.tag_any` is not known; did you mean `filter.tags_any`?",
            ),
            (
                r#"{"rows": [{}, {"tags": []}]}"#,
                "`rows[1].tags` is not known; did you mean `rows[1].tags_any`?",
            ),
            (r#"{"rows": [{"id": 1}]}"#, "`rows[0].id` is not known"),
            // The first unknown field is named, before any other error.
            (r#"{"zzz": {"a": [1e99]}, "yyy": 1, "filter": 1}"#, "`zzz` is not known"),
            (r#"{"filter": 1, "zzz": 1}"#, "another"),
        ] {
            assert_eq!(refusal("/things", "POST", body).as_deref(), Some(expected), "{body}");
        }
    }

    #[test]
    fn what_was_read_may_be_sent_back_where_nothing_is_sent() {
        let body = r#"{"id": "x", "rows": [{"count": 1}]}"#;
        for (path, method) in [("/things", "POST"), ("/sends", "PATCH")] {
            assert_eq!(refusal(path, method, body), None, "{method} {path}");
        }
        let expected = Some("`id` is not known".to_owned());
        assert_eq!(refusal("/sends", "POST", body), expected);
        assert_eq!(refusal("/elsewhere", "POST", body), expected);
    }

    #[test]
    fn what_the_document_lists_is_known_though_another_part_reads_it() {
        assert_eq!(refusal("/sends", "POST", r#"{"more": "x"}"#), None);
    }
}
