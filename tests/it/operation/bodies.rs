//! What a request's body may be.

use serde_json::json;

use crate::support::{Api, TestServer};

const JSON: [(&str, &str); 1] = [("Content-Type", "application/json")];

async fn send_text(api: &Api, body: impl AsRef<[u8]>) -> crate::support::Reply {
    api.call("POST", "/v1/otp/send", &JSON, body.as_ref()).await
}

#[tokio::test]
async fn what_is_not_a_json_object_is_refused() {
    let server = TestServer::start().await;
    let demo = server.demo();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let huge = format!("{{\"phone\": \"{}\"}}", "+".repeat(1_000_000));
    let bodies: [&[u8]; 23] = [
        b"",
        b"   \n",
        b"{",
        b"}",
        b"{\"phone\"}",
        b"{\"phone\":}",
        b"{\"phone\": \"+15550123456\"",
        b"{\"phone\": \"+15550123456\",}",
        b"{'phone': '+15550123456'}",
        b"{phone: \"+15550123456\"}",
        b"{\"phone\": \"+15550123456\"} {}",
        b"{\"phone\": \"+15550123456\"}x",
        b"[]",
        b"[\"+15550123456\"]",
        b"[{\"phone\": \"+15550123456\"}]",
        b"null",
        b"true",
        b"7",
        b"\"+15550123456\"",
        b"{\"phone\": \"\xff\xfe\"}",
        b"\xef\xbb\xbf{\"phone\": \"+15550123456\"}",
        deep.as_bytes(),
        huge.as_bytes(),
    ];
    for body in bodies {
        let start = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let refused = send_text(&demo, body).await;
        assert_eq!(refused.status, 400, "{start}: {}", refused.text());
        let refused = refused.check(400, "VALIDATION_ERROR");
        let message = refused["message"].as_str().unwrap();
        assert!(message.len() < 500, "the message repeats the body: {start}");
    }
}

#[tokio::test]
async fn text_that_is_none_is_refused_wherever_it_stands() {
    let server = TestServer::start().await;
    let demo = server.demo();
    let bodies: [&[u8]; 9] = [
        b"{\"phone\": \"+15550123456\", \"x\": \"\xff\"}",
        b"{\"phone\": \"+15550123456\", \"\xc3\": 1}",
        b"{\"phone\": \"+15550123456\", \"x\": [{\"y\": \"\xed\xa0\x80\"}]}",
        br#"{"phone": "+15550123456", "x": "\ud800"}"#,
        br#"{"phone": "+15550123456", "x": "\udc00"}"#,
        br#"{"phone": "+15550123456", "x": "\ud800\ud800"}"#,
        br#"{"phone": "+15550123456", "x": "\uD83Dx\uDE00"}"#,
        br#"{"phone": "+15550123456", "x": ["\\\udfff"]}"#,
        br#"{"phone": "+15550123456", "\udabc": null}"#,
    ];
    for body in bodies {
        let refused = send_text(&demo, body).await.check(400, "VALIDATION_ERROR");
        let message = refused["message"].as_str().unwrap();
        let shown = String::from_utf8_lossy(body);
        assert!(message.contains("UTF-8") || message.contains("surrogate"), "{shown}: {message}");
    }
    for (last, good) in
        [r#""\ud83d\ude00""#, r#""\\ud800""#, r#""\\\\udc00""#, r#""é\u00e9""#].iter().enumerate()
    {
        let body = format!(r#"{{"phone": "+1555012345{last}", "reference": {good}}}"#);
        send_text(&demo, body).await.ok();
    }
}

/// Names that the JSON parser takes for instructions of its own, as they may be written.
const PRIVATE: [&str; 4] = [
    "$serde_json::private::RawValue",
    "$serde_json::private::Number",
    "$serde_json::private::",
    r"\u0024serde_json\u003a\u003aprivate::RawValue",
];

/// Paths below `/v1`, fields of theirs that take objects, and a body before and after an object.
fn with_places_for_objects() -> [(&'static str, &'static str, String, &'static str); 8] {
    let (phone, sale) = (r#""+15550123456""#, r#""name": "Sale", "template_name": "offer""#);
    [
        ("otp/send", "metadata", format!(r#"{{"phone": {phone}, "metadata": "#), "}"),
        (
            "messaging/send",
            "metadata",
            format!(r#"{{"to": {phone}, "type": "text", "text": "Hi", "metadata": "#),
            "}",
        ),
        (
            "messaging/send",
            "template.components[0]",
            format!(
                r#"{{"to": {phone}, "type": "template",
                    "template": {{"name": "offer", "components": ["#
            ),
            "]}}",
        ),
        ("contacts", "custom_fields", r#"{"phone": "+15550123457", "custom_fields": "#.into(), "}"),
        (
            "contacts/batch",
            "contacts[0].custom_fields.a",
            r#"{"contacts": [{"phone": "+15550123457", "custom_fields": {"a": "#.into(),
            "}}]}",
        ),
        (
            "messaging/broadcasts",
            "metadata",
            format!(r#"{{{sale}, "recipients": [{phone}], "metadata": "#),
            "}",
        ),
        (
            "messaging/broadcasts",
            "components[0]",
            format!(r#"{{{sale}, "recipients": [{phone}], "components": ["#),
            "]}",
        ),
        ("messaging/broadcasts", "recipients[0]", format!(r#"{{{sale}, "recipients": ["#), "]}"),
    ]
}

#[tokio::test]
async fn names_that_would_make_records_unreadable_are_refused() {
    let server = TestServer::with(&[("LIMITS__KEY_REQUESTS_PER_HOUR", "0")]).await;
    let api = server.workspace("acme").await;
    let post = async |path: &str, body: &str| {
        api.call("POST", &format!("/v1/{path}"), &JSON, body.as_bytes()).await
    };
    let template = json!({"name": "offer", "language": "en", "category": "marketing",
        "components": [{"type": "BODY", "text": "Sale for {{1}}"}]});
    let admin = server.admin();
    admin.post("/admin/v1/workspaces/acme/templates", template).await.ok();
    let contact = json!({"phone": "+15550123456", "name": "Ada"});
    let contact = api.post("/v1/contacts", contact).await.ok()["id"].clone();
    let contact = format!("contacts/{}", contact.as_str().unwrap());
    for (path, field, before, after) in with_places_for_objects() {
        for name in PRIVATE {
            for object in
                [format!(r#"{{"{name}": "x"}}"#), format!(r#"{{"a": "b", "{name}": "1"}}"#)]
            {
                let body = format!("{before}{object}{after}");
                post(path, &body).await.check_field(field);
            }
        }
    }
    let change = format!(r#"{{"custom_fields": {{"{}": "x"}}}}"#, PRIVATE[0]);
    let path = format!("/v1/{contact}");
    api.call("PATCH", &path, &JSON, change.as_bytes()).await.check_field("custom_fields");
    let events = api.get("/v1/events").await.ok();
    let is_sent = |event: &serde_json::Value| event["type"] != "contact.created";
    assert!(!events["data"].as_array().unwrap().iter().any(is_sent), "{events}");
    // A text may be one.
    let body = json!({"phone": "+15550123456", "metadata": {"a": PRIVATE[0]}});
    let request = api.post("/v1/otp/send", &body).await.ok()["request_id"].clone();
    let events = api.get("/v1/events?type=otp.sent").await.ok();
    let data = &events["data"][0]["data"];
    assert_eq!((&data["request_id"], &data["metadata"]["a"]), (&request, &json!(PRIVATE[0])));
}

#[tokio::test]
async fn a_wrong_field_is_named() {
    let server = TestServer::with(&[("LIMITS__KEY_REQUESTS_PER_HOUR", "0")]).await;
    let demo = server.demo();
    let phone = "+15550123456";
    for (body, field) in [
        (json!({}), "phone"),
        (json!({"phone": null}), "phone"),
        (json!({"phone": 15_550_123_456_u64}), "phone"),
        (json!({"phone": ["+15550123456"]}), "phone"),
        (json!({"phone": {"number": phone}}), "phone"),
        (json!({"phone": true}), "phone"),
        (json!({"Phone": phone}), "phone"),
        (json!({"phone": phone, "expiry": 59}), "expiry"),
        (json!({"phone": phone, "expiry": 901}), "expiry"),
        (json!({"phone": phone, "expiry": 0}), "expiry"),
        (json!({"phone": phone, "expiry": -300}), "expiry"),
        (json!({"phone": phone, "expiry": 300.5}), "expiry"),
        (json!({"phone": phone, "expiry": 1e300}), "expiry"),
        (json!({"phone": phone, "expiry": "300"}), "expiry"),
        (json!({"phone": phone, "expiry": []}), "expiry"),
        (json!({"phone": phone, "expiry": {}}), "expiry"),
        (json!({"phone": phone, "expiry": false}), "expiry"),
        (json!({"phone": phone, "expiry": u64::MAX}), "expiry"),
        (json!({"phone": phone, "expiry": i64::MIN}), "expiry"),
        (json!({"phone": phone, "expiry": 4_294_967_596_i64}), "expiry"),
        (json!({"phone": phone, "length": 3}), "length"),
        (json!({"phone": phone, "length": 9}), "length"),
        (json!({"phone": phone, "length": -6}), "length"),
        (json!({"phone": phone, "length": 6.5}), "length"),
        (json!({"phone": phone, "length": "6"}), "length"),
        (json!({"phone": phone, "length": 262}), "length"),
    ] {
        demo.post("/v1/otp/send", &body).await.check_field(field);
    }
    for text in [
        r#"{"phone": "+15550123456", "expiry": 1e400}"#,
        r#"{"phone": "+15550123456", "expiry": 601e-1}"#,
        r#"{"phone": "+15550123456", "expiry": 99999999999999999999999}"#,
        r#"{"phone": "+15550123456", "expiry": 60, "expiry": 60}"#,
    ] {
        send_text(&demo, text).await.check_field("expiry");
    }
    let doubled = r#"{"phone": "+15550123456", "phone": "+15550123456"}"#;
    send_text(&demo, doubled).await.check_field("phone");
    let messages = demo.get("/v1/sandbox/messages").await.ok();
    assert_eq!(messages["data"], json!([]), "nothing was sent");
}

#[tokio::test]
async fn a_phone_is_strict_e164() {
    let server = TestServer::start().await;
    let demo = server.demo();
    let bad = [
        "",
        "+",
        "15550123456",
        "0015550123456",
        "+0155501234",
        "+123456",
        "+1234567890123456",
        "+1 555 012 3456",
        "+1-555-012-3456",
        "+1(555)0123456",
        " +15550123456",
        "+15550123456 ",
        "+15550123456\n",
        "++15550123456",
        "+1555012345a",
        "+١٥٥٥٠١٢٣٤٥٦",
        "＋15550123456",
        "+1555012345６",
        "tel:+15550123456",
        "+15550123456;ext=1",
        "+15550123456\u{0}",
    ];
    for phone in bad {
        demo.post("/v1/otp/send", json!({"phone": phone})).await.check_field("phone");
    }
    for phone in ["+1234567", "+123456789012345", "+999999999999999", "+15550123456"] {
        demo.post("/v1/otp/send", json!({"phone": phone})).await.ok();
    }
}

#[tokio::test]
async fn null_is_the_same_as_nothing() {
    let server = TestServer::start().await;
    let demo = server.demo();
    for body in [
        r#"{"phone": "+15550123456", "expiry": null, "length": null}"#,
        r#" { "reference" : "\ud83d\ude00" , "phone" : "\u002b15550123456" } "#,
        r#"{"phone": "+15550123456", "expiry": 60, "length": 4}"#,
        r#"{"phone": "+15550123457", "expiry": 6e1, "length": 4.0}"#,
    ] {
        send_text(&demo, body).await.ok();
    }
}

#[tokio::test]
async fn a_field_that_is_not_known_is_refused_whatever_it_holds() {
    let server = TestServer::start().await;
    let demo = server.demo();
    // However deep it is: what is ignored costs no stack.
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep = format!("{{\"phone\": \"+15550123457\", \"x\": {deep}}}");
    for (body, field) in [
        (r#"{"phone": "+15550123456", "x": {"a": [1, null, 1e99]}, "y": 1}"#, "x"),
        (r#"{"phone": "+15550123456", "x": 1, "x": 2}"#, "x"),
        (r#"{"phone": "+15550123456", "Expiry": 1}"#, "Expiry"),
        (
            r#"{"phone": "+15550123456", "context": {"ip_address": "1.2.3.4"}}"#,
            "context.ip_address",
        ),
        (&deep, "x"),
    ] {
        send_text(&demo, body).await.check_field(field);
    }
}

#[tokio::test]
async fn only_json_is_taken() {
    let server = TestServer::start().await;
    let demo = server.demo();
    let body = json!({"phone": "+15550123456"}).to_string();
    let send = async |headers: &[(&str, &str)]| {
        demo.call("POST", "/v1/otp/send", headers, body.as_bytes()).await
    };
    for (index, good) in [
        "application/json",
        "application/json; charset=utf-8",
        "APPLICATION/JSON",
        "Application/Json ;a=b",
    ]
    .iter()
    .enumerate()
    {
        assert_eq!(send(&[("Content-Type", good)]).await.status, 200, "{index}");
    }
    send(&[]).await.check(415, "UNSUPPORTED_MEDIA_TYPE");
    for bad in [
        "",
        "text/plain",
        "text/json",
        "application/xml",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "json",
        "application/json, text/plain",
    ] {
        let refused = send(&[("Content-Type", bad)]).await;
        assert_eq!(refused.status, 415, "{bad}");
        refused.check(415, "UNSUPPORTED_MEDIA_TYPE");
    }
    for coding in ["gzip", "br", "deflate"] {
        let headers = [JSON[0], ("Content-Encoding", coding)];
        send(&headers).await.check(415, "UNSUPPORTED_MEDIA_TYPE");
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_however_it_comes() {
    let server = TestServer::with(&[("SERVER__MAX_BODY_BYTES", "2048")]).await;
    let demo = server.demo();
    let start = r#"{"phone": "+15550123456""#;
    let padded = |length: usize| {
        let body = format!("{start}{}}}", " ".repeat(length - start.len() - 1));
        assert_eq!(body.len(), length);
        body
    };
    send_text(&demo, padded(2048)).await.ok();
    send_text(&demo, padded(2049)).await.check(413, "PAYLOAD_TOO_LARGE");
    send_text(&demo, padded(3_000_000)).await.check(413, "PAYLOAD_TOO_LARGE");

    let chunked = [JSON[0], ("Transfer-Encoding", "chunked")];
    for (length, status) in [(2048, 200), (2049, 413), (100_000, 413)] {
        let body = padded(length);
        let mut connection = server.connect().await;
        connection.send(demo.request("POST", "/v1/otp/send", &chunked, b"")).await;
        for part in body.as_bytes().chunks(700) {
            connection.send(format!("{:x}\r\n", part.len())).await;
            connection.send([part, b"\r\n"].concat()).await;
        }
        connection.send("0\r\n\r\n").await;
        let reply = connection.reply().await.unwrap();
        assert_eq!(reply.status, status, "{length}: {}", reply.text());
        reply.check_always("/v1/otp/send");
    }
}
