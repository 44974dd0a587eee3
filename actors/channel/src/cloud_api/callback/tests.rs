//! Tests of callbacks of the provider, item by item.

use serde_json::json;

use super::*;
use crate::callback::{Callback, TEXT_CHARS_MAX};
use crate::cloud_api::envelope::{self, About};
use crate::cloud_api::items::ItemCounts;
use crate::cloud_api::{CloudApi, CloudApiAccount, CloudApiOptions, CloudApiSecrets};
use crate::{FailureClass, Origin};
use postrider_domain::template::TemplateCategory;
use postrider_runtime::Secret;

const OTP: &str = "otp_01jd3v0x5n8m7k2q4r6s8t0w2y";
const MESSAGE: &str = "msg_01jd3v0x5n8m7k2q4r6s8t0w2y";

fn number() -> CloudApiNumber {
    let account = CloudApiAccount {
        phone: "+15550001111".parse().unwrap(),
        phone_number_id: "106".parse().unwrap(),
        account_id: "107".parse().unwrap(),
    };
    let secrets = CloudApiSecrets {
        token: Secret::new("t"),
        app_secret: Secret::new("key"),
        verify_token: Secret::new("v"),
    };
    let options = CloudApiOptions { base_url: "http://h".to_owned(), ..Default::default() };
    CloudApi::new(options).unwrap().number(&account, secrets).unwrap()
}

fn read(field: &str, value: Value) -> Callback {
    let body = json!({"object": "whatsapp_business_account", "entry": [
        {"id": "107", "changes": [{"field": field, "value": value}]},
    ]});
    let [part] =
        &mut envelope::read(body.to_string().as_bytes(), &ItemCounts::default()).unwrap()[..]
    else {
        panic!("one")
    };
    std::mem::take(&mut part.callback)
}

fn messages(mut value: Value) -> Callback {
    value["metadata"] = json!({"phone_number_id": "106"});
    read("messages", value)
}

#[test]
fn only_the_providers_signature_is_valid() {
    let number = number();
    let text = b"The quick brown fox jumps over the lazy dog";
    // A well-known example of HMAC-SHA256 under "key".
    let digest = "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8";
    assert!(number.signed(&format!("sha256={digest}"), text));
    assert!(number.signed(&format!("sha256={}", digest.to_uppercase()), text));
    assert!(!number.signed(&format!("sha256={digest}"), b"The quick brown fox"));
    for bad in [
        String::new(),
        digest.to_owned(),
        format!("sha1={digest}"),
        format!("sha256={}", &digest[..62]),
        format!("sha256={digest}00"),
        format!("sha256={}", digest.replace('f', "0")),
        format!("sha256={}", digest.replace('f', "g")),
        format!("sha256={}", "é".repeat(32)),
    ] {
        assert!(!number.signed(&bad, text), "{bad}");
    }
    assert!(number.knows("v") && !number.knows("") && !number.knows("vv"));
}

#[test]
fn a_status_report_is_parsed() {
    let report = |status: &str, opaque: &str| {
        json!({
            "id": "wamid.x", "status": status, "timestamp": "1750857384",
            "recipient_id": "5516", "biz_opaque_callback_data": opaque,
            "errors": [{"code": 131_049, "title": "t", "error_data": {"details": "why"}}],
        })
    };
    let callback = messages(json!({"statuses": [
        report("sent", &format!("{OTP}:1")), report("delivered", MESSAGE), report("read", MESSAGE),
        report("failed", MESSAGE),
    ]}));
    let [sent, delivered, read, failed] = &callback.statuses[..] else { panic!("four") };
    assert_eq!(sent.origin, Origin::Otp { request_id: OTP.parse().unwrap(), number: 1 });
    assert_eq!(delivered.origin, Origin::Message(MESSAGE.parse().unwrap()));
    assert_eq!((&*sent.provider_id, sent.at.as_millis()), ("wamid.x", 1_750_857_384_000));
    let progress = [&sent.status, &delivered.status, &read.status];
    assert_eq!(progress, [&Progress::Sent, &Progress::Delivered, &Progress::Read]);
    let class = FailureClass::MarketingHeldBack;
    let failure = Failure { class, code: Some(131_049), details: "why".into() };
    assert_eq!(failed.status, Progress::Failed(failure));
}

#[test]
fn an_inbound_message_is_parsed() {
    let contacts = json!([{"profile": {"name": "Sheena"}, "wa_id": "16505551234"}]);
    let part = |kind: &str, part: Value| {
        let mut message = json!({
            "from": "16505551234", "id": "wamid.i", "timestamp": "1749416383", "type": kind,
        });
        message[kind] = part;
        message
    };
    let mut ad = part("text", json!({"body": "Hi"}));
    ad["referral"] = json!({"source_type": "ad", "source_id": "7", "headline": "x",
        "body": "Now", "ctwa_clid": "c"});
    let callback = messages(json!({"contacts": contacts, "messages": [
        ad,
        part("image", json!({"caption": "Look", "id": "1"})),
        part("audio", json!({"id": "1"})),
        part("button", json!({"text": "Yes", "payload": "y"})),
        part("interactive", json!({"type": "button_reply", "button_reply": {"title": "No"}})),
        part("interactive", json!({"type": "list_reply", "list_reply": {"title": "One"}})),
        part("reaction", json!({"emoji": "👍", "message_id": "x"})),
        part("unsupported", json!(null)),
    ]}));
    let said: Vec<_> = callback.inbound.iter().map(|it| (&*it.kind, &*it.text)).collect();
    let expected = [
        ("text", "Hi"),
        ("image", "Look"),
        ("audio", ""),
        ("button", "Yes"),
        ("interactive", "No"),
        ("interactive", "One"),
        ("reaction", "👍"),
        ("unsupported", ""),
    ];
    assert_eq!(said, expected);
    let first = &callback.inbound[0];
    assert_eq!(first.from.unwrap().to_string(), "+16505551234");
    assert_eq!((&first.user_id, &first.username), (&None, &None));
    assert_eq!(first.name.as_deref(), Some("Sheena"));
    assert_eq!(first.at.as_millis(), 1_749_416_383_000);
    let (source_type, source_id) = ("ad".into(), "7".into());
    let headline = Some("x".into());
    let [body, source_url, ctwa_clid] = [Some("Now".into()), None, Some("c".into())];
    let referral = Referral { source_type, source_id, headline, body, source_url, ctwa_clid };
    assert_eq!(first.referral, Some(referral));
    assert_eq!(callback.inbound[1].referral, None);
}

#[test]
fn a_templates_status_is_parsed() {
    for (word, given, reason) in
        [("PAUSED", "NONE", None), ("REJECTED", "INVALID_FORMAT", Some("INVALID_FORMAT".into()))]
    {
        let callback = read(
            "message_template_status_update",
            json!({
                "event": word, "message_template_id": 1, "reason": given,
                "message_template_name": "spring_sale", "message_template_language": "en_US",
            }),
        );
        let [update] = &callback.templates[..] else { panic!("one") };
        assert_eq!((&*update.template.name, &*update.template.language), ("spring_sale", "en_US"));
        assert_eq!(update.news, TemplateNews::Status { word: word.into(), reason });
    }
}

#[test]
fn what_else_is_said_of_a_template_is_parsed() {
    let of = |field, mut value: Value| {
        value["message_template_name"] = json!("sale");
        value["message_template_language"] = json!("en");
        read(field, value).templates.pop().map(|update| update.news)
    };
    let category = |value| of("template_category_update", value);
    let (new, correct) = (Some(TemplateCategory::Marketing), Some(TemplateCategory::Utility));
    assert_eq!(
        category(json!({"previous_category": "UTILITY", "new_category": "MARKETING"})),
        Some(TemplateNews::Category { new, correct: None })
    );
    assert_eq!(
        category(json!({"new_category": "MARKETING", "correct_category": "UTILITY"})),
        Some(TemplateNews::Category { new, correct })
    );
    assert_eq!(category(json!({"new_category": "SERVICE"})), None, "a category of nobody's");
    let quality = |word| of("message_template_quality_update", json!({"new_quality_score": word}));
    assert_eq!(quality(json!("RED")), Some(TemplateNews::Quality(TemplateQuality::Red)));
    assert_eq!(quality(json!(7)), None);
    let components = of("message_template_components_update", json!({"message_template_body": 1}));
    assert_eq!(components, Some(TemplateNews::Components));
}

fn named(phone: &str, id: &str) -> PartyNames {
    PartyNames { phone: phone.parse().ok(), user_id: id.parse().ok() }
}

#[test]
fn changes_of_ids_are_parsed() {
    let system = |from: &str, system: Value| {
        json!({
            "from": from, "id": "wamid.s", "timestamp": "1", "type": "system", "system": system,
        })
    };
    let (previous, current) = ("US.A1", "US.B2");
    let callback = messages(json!({"messages": [
        system("16505551234", json!({"type": "user_changed_number", "wa_id": "16505559876",
            "user_id": current, "previous_user_id": previous})),
        system("", json!({"type": "user_changed_user_id", "user_id": current,
            "previous_user_id": previous})),
        system("US.A1", json!({"type": "user_changed_user_id", "user_id": current})),
        system("", json!({"type": "user_changed_user_id", "user_id": current})),
        system("US.A1", json!({"type": "user_changed_user_id"})),
    ]}));
    let changes: Vec<_> =
        callback.identity_changes.iter().map(|it| (it.old.clone(), it.new.clone())).collect();
    let expected = [
        (named("+16505551234", previous), named("+16505559876", current)),
        (named("", previous), named("", current)),
        (named("", previous), named("", current)),
    ];
    assert_eq!(changes, expected);
    let forwarded =
        json!({"wa_id": "16505551234", "user_id": {"previous": previous, "current": current}});
    for value in [
        forwarded.clone(),
        json!({"user_id_update": forwarded}),
        json!({"user_id_update": [forwarded, {"user_id": {"current": current}}]}),
    ] {
        let callback = read("user_id_update", value);
        let [change] = &callback.identity_changes[..] else { panic!("one") };
        let names = (&change.old, &change.new);
        assert_eq!(names, (&named("", previous), &named("+16505551234", current)));
        assert_eq!(change.at, None);
    }
}

#[test]
fn notices_and_choices_are_parsed_and_nobody_wrote_them() {
    let notice = |kind: &str, to: Value| {
        json!({
            "from": "16505551234", "id": "wamid.s", "timestamp": "1749416383",
            "type": "system", "system": {"type": kind, "wa_id": to, "body": "changed"},
        })
    };
    let callback = messages(json!({"messages": [
        notice("user_changed_number", json!("16505559876")),
        notice("user_changed_number", json!(null)),
        notice("customer_identity_changed", json!("16505559876")),
    ]}));
    assert_eq!(callback.inbound.len(), 0);
    let [changed] = &callback.identity_changes[..] else { panic!("one") };
    assert_eq!(
        (&changed.old, &changed.new),
        (&named("+16505551234", ""), &named("+16505559876", ""))
    );
    let at = changed.at.map(Timestamp::as_millis);
    assert_eq!((&*changed.provider_id, at), ("wamid.s", Some(1_749_416_383_000)));
    let choice = |category: &str, value: &str| json!({"wa_id": "16505551234", "category": category, "value": value, "timestamp": 7});
    let callback = read(
        "user_preferences",
        json!({"user_preferences": [
            choice("marketing_messages", "stop"), choice("marketing_messages", "resume"),
            choice("marketing_messages", "signup"), choice("marketing_messages", "perhaps"),
            choice("something_else", "stop"), 7,
        ]}),
    );
    let wanted: Vec<_> = callback.choices.iter().map(|it| it.wanted).collect();
    assert_eq!(wanted, [false, true, true]);
    assert_eq!(callback.choices[0].at.as_millis(), 7000);
}

#[test]
fn numbers_are_read_as_texts_and_texts_as_numbers() {
    let written = |from: Value, id: Value, at: Value| json!({"from": from, "id": id, "timestamp": at, "type": "text", "text": {"body": "STOP"}});
    let (from, id) = (|| json!("16505551234"), || json!("wamid.a"));
    let callback = messages(json!({"messages": [
        written(json!(16_505_551_234_u64), id(), json!("1749416383")),
        written(from(), json!(77), json!(1_749_416_383)),
        written(from(), id(), json!(1_749_416_383.25)),
        written(from(), id(), json!("1749416383.9")),
        written(from(), id(), json!("2025-06-08T20:59:43Z")),
    ]}));
    assert_eq!(callback.inbound.len(), 5);
    for message in callback.inbound {
        assert_eq!(message.from.map(Phone::as_u64), Some(16_505_551_234));
        assert_eq!(message.at.as_secs(), 1_749_416_383);
    }
}

#[test]
fn one_broken_item_does_not_fail_the_others() {
    let good = json!({
        "id": "w", "status": "sent", "timestamp": 1, "biz_opaque_callback_data": MESSAGE
    });
    let mut broken = Vec::new();
    for (name, value) in [
        ("id", json!([7])),
        ("status", json!("warning")),
        ("status", json!(null)),
        ("timestamp", json!("soon")),
        ("timestamp", json!(-1)),
        ("timestamp", json!("-1.5")),
        ("timestamp", json!("NaN")),
        ("timestamp", json!(1e300)),
        ("biz_opaque_callback_data", json!("somebody else's")),
        ("biz_opaque_callback_data", json!(null)),
    ] {
        let mut report = good.clone();
        report[name] = value;
        broken.push(report);
    }
    broken.extend([json!(null), json!("text"), json!([]), good.clone()]);
    let callback = messages(json!({"statuses": broken, "messages": [{"from": "x"}, 7, null]}));
    assert_eq!((callback.statuses.len(), callback.inbound.len()), (1, 0));
}

#[test]
fn long_texts_are_cut() {
    let long = "\u{1f600}".repeat(70_000);
    let callback = messages(json!({
        "contacts": [{"profile": {"name": long}, "wa_id": "16505551234"}],
        "messages": [
            {"from": "16505551234", "id": "a", "timestamp": "1", "type": "text", "text": {"body": long}},
            {"from": "16505551234", "id": "b", "timestamp": "1", "type": long},
            {"from": "16505551234", "id": long, "timestamp": "1", "type": "text"},
        ],
    }));
    let [text, kind] = &callback.inbound[..] else { panic!("two") };
    assert_eq!(text.text.chars().count(), TEXT_CHARS_MAX);
    assert_eq!(text.name.as_ref().unwrap().chars().count(), NAME_CHARS_MAX);
    assert_eq!(kind.kind.chars().count(), WORD_CHARS_MAX);
}

#[test]
fn a_number_recognizes_the_parts_about_it() {
    let is_meant = |about| number().is_meant(&about);
    for (id, meant) in [(None, true), (Some("106"), true), (Some("107"), false)] {
        assert_eq!(is_meant(About::Number(id.map(Into::into))), meant, "{id:?}");
    }
    for (id, meant) in [(None, true), (Some("107"), true), (Some("106"), false)] {
        assert_eq!(is_meant(About::Account(id.map(Into::into))), meant, "{id:?}");
    }
}

#[test]
fn who_writes_is_known_by_phone_or_id_wherever_they_stand() {
    let contacts = json!([
        {"profile": {"name": "Ana", "username": "ana"}, "wa_id": "16505551234", "user_id": "US.A1"},
        {"profile": {"name": "Bo", "username": "bo"}, "user_id": "US.B2"},
    ]);
    let wrote = |from: Value, user: Value| {
        json!({
            "from": from, "from_user_id": user, "id": "wamid.i", "timestamp": "1749416383",
            "type": "text", "text": {"body": "Hi"},
        })
    };
    let callback = messages(json!({"contacts": contacts, "messages": [
        wrote(json!("16505551234"), json!("US.A1")), wrote(json!("16505551234"), json!(null)),
        wrote(json!(null), json!("US.B2")), wrote(json!(""), json!("US.B2")),
        wrote(json!("US.B2"), json!(null)), wrote(json!(null), json!("US.A1")),
        wrote(json!(null), json!("US.C3")), wrote(json!(null), json!(null)),
        wrote(json!("x"), json!("x")),
    ]}));
    let phone = Some("+16505551234".parse::<Phone>().unwrap());
    let user = |id: &str| Some(id.parse::<UserId>().unwrap());
    let found: Vec<_> = callback
        .inbound
        .iter()
        .map(|it| (it.from, it.user_id.clone(), it.name.as_deref(), it.username.as_deref()))
        .collect();
    let (ana, bo) = (Some("Ana"), Some("Bo"));
    let expected = [
        (phone, user("US.A1"), ana, Some("ana")),
        (phone, user("US.A1"), ana, Some("ana")),
        (None, user("US.B2"), bo, Some("bo")),
        (None, user("US.B2"), bo, Some("bo")),
        (None, user("US.B2"), bo, Some("bo")),
        (phone, user("US.A1"), ana, Some("ana")),
        (None, user("US.C3"), None, None),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_file_is_taken_where_it_can_be_got() {
    let sent = |kind: &str, file: Value| json!({"from": "16505551234", "id": "wamid.i", "timestamp": "1", "type": kind, kind: file});
    let hash = "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";
    let whole = json!({
        "id": "801", "mime_type": "audio/ogg; codecs=opus", "sha256": hash, "filename": "a\u{7}b",
    });
    let odd = json!({"id": "802", "mime_type": "text/html\r\nX: y", "sha256": "x"});
    let callback = messages(json!({"messages": [
        sent("audio", whole), sent("image", odd), sent("image", json!({"id": "../1"})),
        sent("location", json!({"id": "803"})), sent("image", json!(null)),
    ]}));
    let files: Vec<_> = callback.inbound.into_iter().map(|it| it.media).collect();
    let [Some(whole), Some(odd), None, None, None] = &files[..] else { panic!("{files:?}") };
    assert_eq!((&*whole.id, &*whole.mime_type), ("801", "audio/ogg"));
    assert_eq!(whole.sha256.map(|hash| hash[..2].to_vec()), Some(vec![0xba, 0x78]));
    assert!(whole.filename.as_ref().is_some_and(|name| !name.contains('\u{7}')), "{whole:?}");
    assert_eq!((&*odd.mime_type, odd.sha256), ("application/octet-stream", None));
}

#[test]
fn the_object_of_a_message_is_parsed_without_the_providers_ids() {
    let read = |kind: &str, part: Value| {
        let message = json!({
            "from": "16505551234", "id": "wamid.i", "timestamp": "1", "type": kind, kind: part,
            "context": {"id": "wamid.q", "forwarded": true},
        });
        let inbound = messages(json!({"messages": [message]})).inbound.pop().unwrap();
        let content = inbound.content.map(|content| Value::Object(content.fields().clone()));
        (content, inbound.about, inbound.forwarded)
    };
    let context = |content: Value| (Some(content), Some("wamid.q".into()), true);
    let place = json!({"latitude": 48.85, "longitude": 2.35, "name": "Office"});
    assert_eq!(read("location", place.clone()), context(place));
    let cards = json!([{"name": {"formatted_name": "Ann"}}]);
    assert_eq!(read("contacts", cards.clone()), context(json!({"contacts": cards})));
    let button = json!({"text": "Yes", "payload": "y"});
    assert_eq!(read("button", button.clone()), context(button));
    let list = json!({"id": "1", "title": "One", "description": "d"});
    let reply = json!({"type": "list_reply", "list_reply": list});
    let mut chosen = list;
    chosen["type"] = json!("list_reply");
    assert_eq!(read("interactive", reply), context(chosen));
    for (json, response) in [(r#"{"a": 1}"#, Some(json!({"a": 1}))), ("{", None)] {
        let form = json!({"name": "flow", "body": "Sent", "response_json": json});
        let reply = json!({"type": "nfm_reply", "nfm_reply": form});
        let (content, ..) = read("interactive", reply);
        assert_eq!(content.unwrap().get("response"), response.as_ref());
    }
    let file = json!({"id": "1", "sha256": "x", "url": "https://x", "caption": "Look"});
    let kept = json!({"caption": "Look", "mime_type": "application/octet-stream"});
    assert_eq!(read("image", file), context(kept));
    let file = json!({"id": "1", "filename": "a\u{202e}\0b", "mime_type": "text/html; x=\u{1}"});
    let content = read("document", file).0.unwrap();
    for field in ["filename", "mime_type"] {
        let shown = content[field].as_str().unwrap();
        assert!(!shown.contains(['\u{202e}', '\0', '\u{1}']), "{shown:?}");
    }
    let edit = json!({"id": "wamid.1", "url": "https://x", "text": "b"});
    assert_eq!(read("edit", edit), context(json!({"text": "b"})));
    for (emoji, shown) in [(json!("👍"), "👍"), (Value::Null, "")] {
        let reaction = json!({"message_id": "wamid.r", "emoji": emoji});
        let expected = (Some(json!({"emoji": shown})), Some("wamid.r".into()), true);
        assert_eq!(read("reaction", reaction), expected);
    }
    assert_eq!(read("text", json!({"body": "Hi"})), (None, Some("wamid.q".into()), true));
    assert_eq!(read("new_type", json!("odd")).0, Some(json!({"new_type": "odd"})));
    assert_eq!(read("text", json!("Hi")).0, Some(json!({"text": "Hi"})));
    assert_eq!(read("id", json!("wamid.i")).0, None);
}
