//! Pure: puts a recipient's variables into the template parameters that all share.

use serde_json::{Value, json};

/// Returns the parameters of a recipient's message. Variables replace the shared body parameters.
pub fn with_variables(components: &[Value], variables: &[Box<str>]) -> Vec<Value> {
    if variables.is_empty() {
        return components.to_vec();
    }
    let is_body = |component: &&Value| {
        component["type"].as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("body"))
    };
    let others = components.iter().filter(|component| !is_body(component)).cloned();
    let texts = variables.iter().map(|text| json!({ "type": "text", "text": text }));
    let body = json!({ "type": "body", "parameters": texts.collect::<Vec<_>>() });
    others.chain([body]).collect()
}
