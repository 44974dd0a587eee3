//! Takes an object in a body for nothing but an object, wherever the document has one.

use serde_json::{Map, Value, json};

use crate::support::TestServer;

/// Lists whose elements the handlers check themselves, once the body is parsed.
const CHECKED_LATER: [&str; 2] = ["recipients", "variables_from"];

/// Walks the schemas of a body.
struct Walk<'a> {
    schemas: &'a Map<String, Value>,
    /// The way to each object with known fields: names, and `[]` for an element.
    found: Vec<Vec<String>>,
}

impl<'a> Walk<'a> {
    /// The schema that a reference names, with its alternatives.
    fn alternatives(&self, schema: &'a Value) -> Vec<&'a Value> {
        if let Some(name) = schema["$ref"].as_str().and_then(|it| it.rsplit('/').next()) {
            return self.alternatives(&self.schemas[name]);
        }
        let others = ["oneOf", "anyOf", "allOf"].iter().filter_map(|of| schema[of].as_array());
        let others = others.flatten().flat_map(|it| self.alternatives(it));
        std::iter::once(schema).chain(others).collect()
    }

    fn value(&mut self, schema: &'a Value, way: &[String]) {
        let step = |name: &str| [way, &[name.to_owned()]].concat();
        for schema in self.alternatives(schema) {
            let fields = schema["properties"].as_object();
            if fields.is_some() && !way.is_empty() && !self.found.iter().any(|it| it == way) {
                self.found.push(way.to_vec());
            }
            for (name, field) in fields.into_iter().flatten() {
                self.value(field, &step(name));
            }
            for (part, name) in [("items", "[]"), ("additionalProperties", "x")] {
                if schema[part].is_object() {
                    self.value(&schema[part], &step(name));
                }
            }
        }
    }
}

/// A body that has a list at the end of the way.
fn with_a_list(way: &[String]) -> Value {
    way.iter().rev().fold(json!([]), |value, step| match &**step {
        "[]" => json!([value]),
        name => json!({ name: value }),
    })
}

/// For a struct serde takes a list of its fields too.
#[tokio::test]
async fn a_list_is_no_object() {
    let server = TestServer::start().await;
    let (demo, admin) = (server.demo(), server.admin());
    let segment = demo.post("/v1/segments", json!({"name": "All", "filter": {}})).await.ok();
    let segment = segment["id"].as_str().unwrap();
    let document = server.stranger().get("/openapi.json").await.ok();
    let mut count = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            let schemas = document["components"]["schemas"].as_object().unwrap();
            let mut walk = Walk { schemas, found: Vec::new() };
            walk.value(schema, &[]);
            let api = if path.starts_with("/admin/") { &admin } else { &demo };
            let path = path.replace("{workspace}", "demo").replace("{segment_id}", segment);
            for way in walk.found {
                if CHECKED_LATER.contains(&&*way[0]) {
                    continue;
                }
                let (method, body) = (method.to_uppercase(), with_a_list(&way).to_string());
                let answer = api
                    .call(&method, &path, &[("Content-Type", "application/json")], body.as_bytes())
                    .await;
                let message = answer.json()["message"].to_string();
                let is_refused = message.contains("invalid type: sequence, expected an object");
                assert!(answer.status == 400 && is_refused, "{method} {path} {body}: {message}");
                count += 1;
            }
        }
    }
    assert!(count > 25, "{count}");
    // Such a list would be every contact.
    let every = json!({"filter": [null, null, null, null, null, null], "delete": true});
    demo.post("/v1/contacts/bulk", every).await.check_field("filter");
}
