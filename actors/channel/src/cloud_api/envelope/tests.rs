//! Tests of callbacks whose parts are odd, and of the addressee of each part.

use serde_json::json;

use super::*;

fn inbound(id: &str) -> Value {
    json!({"from": "16505551234", "id": id, "timestamp": "1", "type": "text", "text": {"body": "Hi"}})
}

fn change(about: &Value, messages: &Value) -> Value {
    json!({"field": "messages", "value": {
        "metadata": {"phone_number_id": about}, "messages": messages,
    }})
}

#[test]
fn each_part_names_its_number_or_account() {
    let template = json!({"field": "message_template_status_update", "value": {
        "event": "PAUSED", "message_template_name": "sale", "message_template_language": "en",
    }});
    let first = change(&json!("106"), &json!([inbound("a"), inbound("b")]));
    let second = change(&json!("777"), &json!([inbound("c")]));
    let unsaid = change(&json!(null), &json!([]));
    let body = json!({"entry": [
        {"id": "107", "changes": [first, template]},
        {"id": null, "changes": [second, template, unsaid]},
    ]});
    let parts = read(body.to_string().as_bytes(), &ItemCounts::default()).unwrap();
    let about: Vec<_> = parts.iter().map(|part| part.about.clone()).collect();
    let number = |id: Option<&str>| About::Number(id.map(Into::into));
    let account = |id: Option<&str>| About::Account(id.map(Into::into));
    let expected = [
        number(Some("106")),
        account(Some("107")),
        number(Some("777")),
        account(None),
        number(None),
    ];
    assert_eq!(about, expected);
    let counts: Vec<_> = parts
        .iter()
        .map(|Part { callback, .. }| (callback.inbound.len(), callback.templates.len()))
        .collect();
    assert_eq!(counts, [(2, 0), (0, 1), (1, 0), (0, 1), (0, 0)]);
}

#[test]
fn the_numbers_of_a_callback_are_known_unless_a_part_is_about_something_else() {
    let of = |changes: Value| {
        let body = json!({"entry": [{"id": "107", "changes": changes}]}).to_string();
        numbers_of(body.as_bytes()).map(|all| all.iter().map(ToString::to_string).collect())
    };
    let number = |id: Value| change(&id, &json!([]));
    let forwarded = json!({"field": "user_id_update", "value": {
        "metadata": {"phone_number_id": "9"}}});
    let parts = json!([number(json!("106")), number(json!(null)), forwarded]);
    assert_eq!(of(parts), Some(vec!["106".to_owned(), "9".to_owned()]));
    assert_eq!(of(json!([number(json!(null))])), Some(Vec::new()));
    for field in ["message_template_status_update", "phone_number_quality_update", "new"] {
        let other = json!({"field": field, "value": {}});
        assert_eq!(of(json!([number(json!("106")), other])), None, "{field}");
    }
    assert_eq!((of(json!([{}])), numbers_of(b"{")), (None, None));
    for field in ["messages", "user_preferences", "user_id_update"] {
        for odd in [json!([]), json!("x"), json!(1), json!(true), json!(null), json!([[]])] {
            let part = json!({"field": field, "value": odd});
            assert_eq!(of(json!([part])), Some(Vec::new()), "{part}");
            let part = json!({"field": field, "value": {"metadata": odd}});
            assert_eq!(of(json!([part])), Some(Vec::new()), "{part}");
        }
    }
}

#[test]
fn what_cannot_be_parsed_costs_nothing_else() {
    let deep = format!("{}{}", "[".repeat(130), "]".repeat(130));
    for (bad, text) in [(r#""STOP\ud83d""#, "STOP\u{fffd}"), ("1e999", ""), (&deep, "")] {
        let (good, other) = (inbound("a").to_string(), inbound("b").to_string());
        let broken = inbound("c").to_string().replace(r#""Hi""#, bad);
        let body = format!(
            r#"{{"x": {bad}, "entry": [{bad}, {{"x": {bad}, "changes": [{{"field": {bad}}},
               {{"field": "messages", "value": {{"x": {bad}, "metadata": {bad}, "contacts": [{bad}],
               "messages": [{good}, {broken}, {bad}, {other}]}}}}]}}]}}"#
        );
        let parts = read(body.as_bytes(), &ItemCounts::default()).unwrap();
        let inbound = parts[1].callback.inbound.iter();
        let read: Vec<_> = inbound.map(|it| (&*it.provider_id, &*it.text)).collect();
        assert_eq!(read, [("a", "Hi"), ("c", text), ("b", "Hi")], "{bad}");
    }
}

#[test]
fn any_json_is_accepted_and_nothing_else() {
    let odd: [&[u8]; 7] = [
        b"{}",
        b"[]",
        b"null",
        b"7",
        b"\"\xff\"",
        br#"{"entry": {}}"#,
        br#"{"entry": [null, {"changes": 7}]}"#,
    ];
    for odd in odd {
        assert!(read(odd, &ItemCounts::default()).unwrap().is_empty(), "{odd:?}");
    }
    for broken in [&b"{"[..], b"", b"{} x", b"\xff"] {
        assert!(read(broken, &ItemCounts::default()).is_none());
    }
}
