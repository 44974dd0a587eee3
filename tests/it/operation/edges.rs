//! Every value that the document's schemas allow is accepted as well-formed.

use serde_json::{Map, Value, json};

use crate::support::{Api, TestServer};

/// The texts for the patterns of the document, by the start of the pattern.
const SAMPLES: [(&str, &[&str]); 34] = [
    ("^otp_", &["otp_01jd3v0x5n8m7k2q4r6s8t0w2y"]),
    (r"[^\s]", &["a", " é\n"]),
    ("^[a-z]{2,3}(_", &["en", "pt_BR"]),
    ("^[a-z_]{1,40}$", &["text"]),
    ("^(?:[^{}]|", &["{code}", "{minutes} {code}"]),
    (r"^(?:[^{}\x00", &["Code", "{code}"]),
    ("^whsec_", &["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]),
    (r"^[A-Z]{2}\.", &["US.1", "DE.ENT.A9"]),
    (r"^\+[1-9]", &["+1555012", "+155501234567890"]),
    (r"^(\*|", &["*", "+15550123456"]),
    ("^[1-9][0-9]{0,6}$", &["1", "9999999"]),
    ("^[a-z0-9_]{1,512}$", &["a", "z_9"]),
    ("^[a-z0-9-]{1,40}$", &["a", "z-9"]),
    ("^[a-z0-9-]{1,32}$", &["a", "pr-9"]),
    ("^[a-zA-Z0-9_]{2,15}$", &["en", "en_US"]),
    ("^[a-zA-Z0-9_-]{1,64}$", &["1", "A_z-9"]),
    ("^[!-~]{1,1024}$", &["!", "~secret"]),
    ("^[0-9a-fA-F]{32}$", &["00000000000000000000000000000000"]),
    ("^[0-9a-fA-F:.]", &["192.0.2.7", "10.1.0.0/16", "2001:db8::/32"]),
    ("^msg_", &["msg_01jd3v0x5n8m7k2q4r6s8t0w2y"]),
    ("^med_", &["med_01jd3v0x5n8m7k2q4r6s8t0w2y"]),
    ("^num_", &["num_01jd3v0x5n8m7k2q4r6s8t0w2y"]),
    ("^brd_", &["brd_01jd3v0x5n8m7k2q4r6s8t0w2y"]),
    ("^con_", &["con_01jd3v0x5n8m7k2q4r6s8t0w2y"]),
    ("^AQ", &["AQAAAAAAAAAA"]),
    ("^A[g-v", &["AgAAAAAAAAAAAAAAAAAAAAA"]),
    ("^A[Q-Z", &["AQAAAAAAAAAAAAAAAAAAAAA"]),
    (r"^(\+[1-9]", &["+15550123456", "US.1"]),
    ("^(name|", &["name", "custom_fields.city"]),
    (r"^(otp\.", &["otp.sent", "otp.sent,otp.verified"]),
    ("^(evt_", &["0"]),
    (r"^[^\u0000-\u001f\u007f-\u009f/", &["a.pdf"]),
    (r"^[^\u0000-\u001f\u007f-\u009f]*$", &["a", "é 名 \u{a0}"]),
    (r"^[^\u0000-\u001f\u007f-\u009f]*[^\s", &["a", " é "]),
];

/// The values that the server refuses for facts that no schema can contain.
const KNOWN_BY_THE_SERVER: [(&str, &str); 4] = [
    // Sums, and values that are only known once others are.
    ("readCampaignAnalytics", "from"),
    ("readAdAnalytics", "from"),
    ("readOtpAnalytics", "from"),
    ("readConversationDays", "from"),
];

struct Document(Value);

impl Document {
    fn new() -> Self {
        Self(serde_json::to_value(postrider::openapi_document()).unwrap())
    }

    /// Returns the schema itself, which may be behind a reference.
    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(place) => self.0.pointer(&place[1..]).unwrap(),
            None => schema,
        }
    }

    /// Returns values at the edges of a schema. The first is an ordinary one.
    fn edges(&self, schema: &Value) -> Vec<Value> {
        let schema = self.resolve(schema);
        if let Some(parts) = schema["oneOf"].as_array() {
            let mut edges: Vec<_> = parts.iter().flat_map(|part| self.edges(part)).collect();
            edges.sort_by_key(Value::is_null);
            return edges;
        }
        let types = match &schema["type"] {
            Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
            Value::String(kind) => vec![kind.as_str()],
            _ => Vec::new(),
        };
        let mut edges = Vec::new();
        if let Some(words) = schema["enum"].as_array() {
            edges.extend(words.iter().cloned());
        } else if types.contains(&"string") {
            edges.extend(texts(schema).into_iter().map(Value::from));
        } else if types.contains(&"integer") {
            edges.extend(numbers(schema));
        } else if types.contains(&"number") {
            let example = schema.get("example").filter(|example| example.is_number());
            edges.extend(example.cloned());
            edges.extend([0, -1, 1].map(|sign| json!(f64::from(sign) * 0.5)));
            edges.extend(numbers(schema));
        } else if types.contains(&"boolean") {
            edges.extend([json!(true), json!(false)]);
        } else if types.contains(&"array") {
            edges.extend(self.lists(schema));
        } else if schema["allOf"].is_array() || schema["properties"].is_object() {
            edges.extend(self.bodies(schema));
        } else if types != ["null"] {
            edges.push(schema.get("example").cloned().unwrap_or_else(|| json!({})));
        }
        if types.contains(&"null") && !edges.contains(&Value::Null) {
            edges.push(Value::Null);
        }
        edges
    }

    fn lists(&self, schema: &Value) -> Vec<Value> {
        let items = self.resolve(&schema["items"]);
        // For objects of any shape, only the example is known to be valid.
        if items["type"] == "object" && !items["properties"].is_object() {
            return vec![schema.get("example").cloned().unwrap_or_else(|| json!([]))];
        }
        let mut lists: Vec<_> = self.edges(items).into_iter().map(|item| json!([item])).collect();
        if schema["minItems"].as_u64().unwrap_or(0) == 0 {
            lists.push(json!([]));
        }
        if let (Some(max), Some(first)) = (schema["maxItems"].as_u64(), lists.first()) {
            lists.push(vec![first[0].clone(); usize::try_from(max).unwrap()].into());
        }
        lists
    }

    /// Returns bodies that each have one field at an edge; the others have their required fields.
    fn bodies(&self, schema: &Value) -> Vec<Value> {
        let (object, alternatives) = match schema["allOf"].as_array() {
            Some(parts) => (&parts[0], parts[1]["oneOf"].as_array().unwrap().clone()),
            None => (schema, vec![json!({})]),
        };
        let properties = object["properties"].as_object().unwrap();
        let mut bodies = Vec::new();
        for alternative in &alternatives {
            let mut whole = Map::new();
            for part in [object, alternative] {
                for name in part["required"].as_array().into_iter().flatten() {
                    let name = name.as_str().unwrap();
                    whole.insert(name.to_owned(), self.ordinary(&properties[name]));
                }
            }
            let fixed = alternative["properties"].as_object().cloned().unwrap_or_default();
            for (name, only) in &fixed {
                if let Some(word) = only["enum"].as_array() {
                    whole.insert(name.clone(), word[0].clone());
                }
            }
            bodies.push(whole.clone().into());
            for (name, property) in properties.iter().filter(|(name, _)| !fixed.contains_key(*name))
            {
                for edge in self.edges(property) {
                    let mut body = whole.clone();
                    body.insert(name.clone(), edge);
                    bodies.push(body.into());
                }
            }
            for name in fixed.keys().filter(|name| fixed[*name]["enum"].is_null()) {
                let given = whole.contains_key(name);
                for edge in
                    self.edges(&properties[name]).into_iter().filter(|it| it.is_null() != given)
                {
                    let mut body = whole.clone();
                    body.insert(name.clone(), edge);
                    bodies.push(body.into());
                }
            }
        }
        bodies
    }

    /// Returns the example, or else the first edge.
    fn ordinary(&self, schema: &Value) -> Value {
        let schema = self.resolve(schema);
        let example = schema.get("example").filter(|example| !example.is_null());
        example.cloned().unwrap_or_else(|| self.edges(schema)[0].clone())
    }
}

fn texts(schema: &Value) -> Vec<String> {
    if let Some(example) = schema["example"].as_str().filter(|_| schema["format"].is_string()) {
        return vec![example.to_owned()];
    }
    match schema["format"].as_str() {
        Some("date") => return vec!["2026-01-31".to_owned()],
        Some("date-time") => return vec!["2026-01-31T09:25:00Z".to_owned()],
        _ => {}
    }
    let (min, max) = (schema["minLength"].as_u64().unwrap_or(0), schema["maxLength"].as_u64());
    let mut texts = Vec::new();
    if let Some(pattern) = schema["pattern"].as_str() {
        let sample = SAMPLES.iter().find(|(start, _)| pattern.starts_with(start));
        let (_, samples) = sample.unwrap_or_else(|| panic!("no text is known for {pattern}"));
        texts.extend(samples.iter().map(|text| (*text).to_owned()));
        if !pattern.starts_with("^[^") {
            return texts;
        }
    }
    let sized = |chars: u64| "é".repeat(usize::try_from(chars).unwrap());
    texts.push(sized(min.max(1)));
    texts.extend(max.map(sized));
    if min == 0 && schema["pattern"].is_null() {
        texts.push(String::new());
    }
    texts
}

fn numbers(schema: &Value) -> Vec<Value> {
    let bounds = [&schema["minimum"], &schema["maximum"]];
    let mut numbers: Vec<_> =
        bounds.into_iter().filter(|bound| bound.is_number()).cloned().collect();
    // For JSON Schema a number without a fraction is an integer, in any notation.
    numbers.extend(schema["minimum"].as_i64().map(|min| json!(min as f64 + 1.0)));
    if numbers.is_empty() { vec![json!(1)] } else { numbers }
}

/// Returns the value of a parameter as it occurs in a path, query or header.
fn plain(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let whole = text.strip_suffix(".0").unwrap_or(&text);
    let escaped = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    whole.bytes().map(escaped).collect()
}

/// Returns a path with an id in each of its places.
fn filled(path: &str) -> String {
    let place = |part: &str| match part {
        // This is another workspace than the key's, whose limits must not change.
        "{workspace}" => "changed".to_owned(),
        part if part.starts_with('{') => "none".to_owned(),
        part => part.to_owned(),
    };
    path.split('/').map(place).collect::<Vec<_>>().join("/")
}

/// Returns the method, path and an ordinary body of every operation that takes one.
pub(super) fn ordinary_bodies() -> Vec<(String, String, Vec<u8>)> {
    let document = Document::new();
    let mut all = Vec::new();
    for (path, item) in document.0["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            if let Some(body) = document.edges(schema).first().filter(|body| body.is_object()) {
                all.push((method.to_uppercase(), filled(path), body.to_string().into_bytes()));
            }
        }
    }
    all
}

/// Returns the queries of an operation: each with one parameter at an edge.
fn queries(document: &Document, operation: &Value) -> Vec<String> {
    let id = operation["operationId"].as_str().unwrap();
    let mut queries = vec![String::new()];
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let name = parameter["name"].as_str().unwrap();
        let is_known = parameter["in"] == "query" && !KNOWN_BY_THE_SERVER.contains(&(id, name));
        if is_known {
            let edges = document.edges(&parameter["schema"]).into_iter();
            let edges = edges.filter(|edge| !edge.is_null());
            queries.extend(edges.map(|edge| format!("?{name}={}", plain(&edge))));
        }
    }
    queries
}

#[tokio::test]
async fn nothing_that_a_schema_allows_is_malformed() {
    let settings = [
        ("LIMITS__KEY_REQUESTS_PER_HOUR", "0"),
        ("LIMITS__UNAUTHENTICATED_PER_MINUTE", "0"),
        ("LIMITS__CONTACTS_PER_MINUTE", "0"),
        ("LIMITS__OTP_PER_PHONE_10M", "0"),
    ];
    let server = TestServer::with(&settings).await;
    let keys: [Api; 3] = [server.workspace("edges").await, server.admin(), server.stranger()];
    server.workspace("changed").await;
    let document = Document::new();
    let mut sent = 0;
    let mut refused = Vec::new();
    for (path, item) in document.0["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            // The one does not end by itself; the other's name must be that of the path.
            let id = operation["operationId"].as_str().unwrap();
            if ["streamEvents", "deleteWorkspace"].contains(&id) {
                continue;
            }
            let api = match path.split('/').nth(1) {
                Some("v1") => &keys[0],
                Some("admin") => &keys[1],
                _ => &keys[2],
            };
            let body = &operation["requestBody"]["content"]["application/json"]["schema"];
            let bodies = match body {
                Value::Null => vec![None],
                schema => document.edges(schema).into_iter().map(Some).collect(),
            };
            for query in queries(&document, operation) {
                for body in &bodies {
                    let target = format!("{}{query}", filled(path));
                    let method = method.to_uppercase();
                    let reply = match body {
                        Some(body) => api.send_json(&method, &target, body).await,
                        None => api.call(&method, &target, &[], b"").await,
                    };
                    sent += 1;
                    assert!(![429, 500].contains(&reply.status), "{target}: {}", reply.text());
                    // A schema cannot contain the existing files and their types.
                    let is_of_a_file =
                        id == "receiveSandboxMessage" && reply.text().contains("`content");
                    if reply.status == 400 && !is_of_a_file {
                        let body = body
                            .as_ref()
                            .map(|body| body.to_string().chars().take(300).collect::<String>());
                        refused.push(format!("{method} {target} {body:?}: {}", reply.text()));
                    }
                }
            }
        }
    }
    assert!(refused.is_empty(), "{} of {sent}:\n{}", refused.len(), refused.join("\n"));
    assert!(sent > 500, "only {sent} requests were made");
}
