//! Checks every answer and every posted event against the OpenAPI document.
//!
//! A status or a field that the document does not have fails the test.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::{Registry, Validator};
use serde_json::{Map, Value, json};

use super::Reply;

static DOCUMENT: LazyLock<Document> = LazyLock::new(Document::new);

/// Checks the answer to a request.
#[track_caller]
pub fn check_answer(method: &str, path: &str, reply: &Reply) {
    let path = path.split('?').next().unwrap();
    let method = method.to_lowercase();
    // The statuses that every request may get, whether or not its path exists.
    let anywhere = [401, 403, 404, 405, 429, 503].contains(&reply.status);
    let Some(route) = DOCUMENT.route(path) else {
        // The page that shows the document is not part of it.
        let known = anywhere || path.starts_with("/docs");
        return assert!(known, "{path} is not in the document: {}", reply.status);
    };
    let Some(operation) = DOCUMENT.whole["paths"][route].get(&method) else {
        let known = anywhere || method == "head";
        return assert!(known, "{method} {route} is not in the document: {}", reply.status);
    };
    let status = reply.status.to_string();
    let documented = operation["responses"].get(&status);
    assert!(documented.is_some(), "{method} {route} may not answer {status}: {}", reply.text());
    let content =
        documented.and_then(|documented| documented.pointer("/content/application~1json/schema"));
    let kind = reply.header("content-type").unwrap_or_default();
    let is_json = kind == "application/json";
    let media = kind.split(';').next().unwrap_or_default();
    let is_file =
        documented.is_some_and(|documented| documented["content"][media].is_object()) && !is_json;
    if is_file && ["text/csv", "application/x-ndjson"].contains(&media) {
        return;
    }
    assert_eq!(is_json, content.is_some(), "{method} {route} {status}: {}", reply.text());
    if is_json && route != "/openapi.json" {
        let at = ["paths", route, &method, "responses", &status, "content", JSON, "schema"];
        DOCUMENT.check(&fragment(&at), &reply.json());
        if route == "/v1/events" && reply.status == 200 {
            reply.json()["data"].as_array().unwrap().iter().for_each(check_event);
        }
    }
}

/// Checks an event, as it is listed or posted.
#[track_caller]
pub fn check_event(event: &Value) {
    let kind = event["type"].as_str().unwrap();
    assert!(DOCUMENT.whole["webhooks"][kind].is_object(), "{kind} is not in the document");
    let at = ["components", "schemas", &format!("Event-{kind}")];
    DOCUMENT.check(&fragment(&at), event);
}

const JSON: &str = "application/json";
/// The URI of the document in the schemas' references.
const URI: &str = "urn:openapi";

struct Document {
    /// The document, with every object of an answer closed against fields that it does not name.
    whole: Value,
    /// The registry that contains the document.
    registry: Registry<'static>,
    /// The validators that were needed so far, by the place of their schema.
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

impl Document {
    fn new() -> Self {
        let mut whole = serde_json::to_value(postrider::openapi_document()).unwrap();
        close(&mut whole["paths"], true);
        // Each of the schemas is closed by those that refer to it.
        let schemas = whole["components"]["schemas"].as_object_mut().unwrap();
        schemas.values_mut().for_each(|schema| close(schema, false));
        let registry = Registry::new().add(URI, whole.clone()).unwrap().prepare().unwrap();
        Self { whole, registry, validators: Mutex::default() }
    }

    /// Returns the path in the document that matches a request's path.
    fn route(&self, path: &str) -> Option<&str> {
        let paths = self.whole["paths"].as_object().unwrap();
        if let Some((exact, _)) = paths.get_key_value(path) {
            return Some(exact);
        }
        let is_of =
            |route: &&String| {
                let (mut places, mut parts) = (route.split('/'), path.split('/'));
                places.by_ref().zip(parts.by_ref()).all(|(place, part)| {
                    place == part || (place.starts_with('{') && !part.is_empty())
                }) && route.split('/').count() == path.split('/').count()
            };
        paths.keys().find(is_of).map(String::as_str)
    }

    #[track_caller]
    fn check(&self, at: &str, value: &Value) {
        let made = self.validators.lock().unwrap().get(at).cloned();
        let validator = made.unwrap_or_else(|| {
            let made = Arc::new(self.make(at));
            self.validators.lock().unwrap().insert(at.to_owned(), Arc::clone(&made));
            made
        });
        let errors: Vec<_> = validator.iter_errors(value).map(|it| it.to_string()).collect();
        assert!(errors.is_empty(), "{at} is not what the document tells: {errors:?}\n{value}");
    }

    fn make(&self, at: &str) -> Validator {
        let schema = json!({"$ref": format!("{URI}#{at}")});
        let options = jsonschema::options().with_registry(&self.registry);
        options.build(&schema).unwrap_or_else(|error| panic!("{at}: {error}"))
    }
}

/// Closes every object that is used by itself; the parts of an `allOf` are closed together.
fn close(value: &mut Value, alone: bool) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| close(item, alone)),
        Value::Object(object) => {
            let parts = object.get("allOf").is_some();
            let names =
                object.contains_key("properties") && !object.contains_key("additionalProperties");
            if alone && (parts || names || is_reference(object)) {
                object.insert("unevaluatedProperties".to_owned(), false.into());
            }
            for (name, inner) in object.iter_mut() {
                close(inner, name != "allOf");
            }
        }
        _ => {}
    }
}

fn is_reference(object: &Map<String, Value>) -> bool {
    object.get("$ref").is_some_and(Value::is_string)
}

/// Returns the place of a part of the document, as the fragment of a URI.
fn fragment(parts: &[&str]) -> String {
    let escapes = [("~", "~0"), ("/", "~1"), ("{", "%7B"), ("}", "%7D")];
    let escaped = |part: &&str| {
        escapes.iter().fold((*part).to_owned(), |part, (from, to)| part.replace(from, to))
    };
    parts.iter().map(|part| format!("/{}", escaped(part))).collect()
}
