//! Pure: tests of filling templates with parameters.

use super::*;

fn text(value: &str) -> Value {
    json!({"type": "text", "text": value})
}

fn body(values: &[&str]) -> Value {
    let parameters: Vec<_> = values.iter().map(|value| text(value)).collect();
    json!({"type": "body", "parameters": parameters})
}

fn fit(template: &Value, given: &Value) -> Result<Filled, String> {
    let list = |value: &Value| value.as_array().unwrap().clone();
    fill(&list(template), &list(given)).map_err(|misfit| misfit.to_string())
}

#[track_caller]
fn check(template: &Value, given: &Value, expected: Result<&str, &str>) {
    match (fit(template, given), expected) {
        (Ok(filled), Ok(text)) => assert_eq!(filled.text, text, "{given}"),
        (Err(error), Err(start)) => assert!(error.starts_with(start), "{given}: {error}"),
        (found, _) => panic!("{given}: {found:?}, expected {expected:?}"),
    }
}

#[test]
fn texts_fill_a_body() {
    let template = json!([{"type": "BODY", "text": "{{1}}, order {{2}} of {{1}}"}]);
    let money = json!({"type": "currency", "currency": {"fallback_value": "$5", "code": "USD"}});
    let long = "x".repeat(1025);
    for (given, expected) in [
        (json!([body(&["Ada", "7"])]), Ok("Ada, order 7 of Ada")),
        (json!([{"type": "BODY", "parameters": [text("é"), money]}]), Ok("é, order $5 of é")),
        (json!([body(&["{{2}}", "b"])]), Ok("{{2}}, order b of {{2}}")),
        (json!([body(&[&"x".repeat(1024), "b"])]).clone(), Ok("")),
        (json!([]), Err("`components` must have a body with 2 parameters")),
        (json!([body(&["a"])]), Err("`components[0].parameters` must have 2 entries")),
        (json!([body(&["a", "b", "c"])]), Err("`components[0].parameters` must have 2 entries")),
        (json!([{"type": "body"}]), Err("`components[0].parameters` must have 2 entries")),
        (json!([{"type": "body", "parameters": 7}]), Err("`components[0].parameters` must be a")),
        (json!([body(&["a", ""])]), Err("`components[0].parameters[1].text` must be a text of")),
        (json!([body(&["a", &long])]), Err("`components[0].parameters[1].text` must be a text")),
        (
            json!([{"type": "body", "parameters": ["a", "b"]}]),
            Err("`components[0].parameters[0]` must be an object"),
        ),
        (
            json!([{"type": "body", "parameters": [text("a"), {"type": "text", "text": 7}]}]),
            Err("`components[0].parameters[1].text` must be a text"),
        ),
        (
            json!([{"type": "body", "parameters": [text("a"), {"type": "payload"}]}]),
            Err("`components[0].parameters[1].type` must be text, currency or date_time"),
        ),
        (
            json!([{"type": "body", "parameters": [text("a"), {"type": "currency"}]}]),
            Err("`components[0].parameters[1].currency.fallback_value` must be"),
        ),
        (json!([body(&["a", "b"]), body(&["a", "b"])]), Err("`components[1]` must not fill")),
        (json!([7]), Err("`components[0]` must be an object")),
        (json!([{"type": "hat"}]), Err("`components` must have a body with 2 parameters")),
        (json!([{"type": ""}]), Err("`components[0].type` must be header, body, button")),
        (json!([{"type": "footer"}]), Err("`components[0].type` must be header, body, button")),
        (
            json!([body(&["a", "b"]), {"type": "header", "parameters": []}]),
            Err("`components[1]` must not be there: the template has no header"),
        ),
    ] {
        if expected == Ok("") {
            assert!(fit(&template, &given).is_ok());
        } else {
            check(&template, &given, expected);
        }
    }
}

#[test]
fn a_template_without_places_takes_nothing() {
    let template = json!([
        {"type": "HEADER", "format": "TEXT", "text": "News"},
        {"type": "BODY", "text": "Welcome"},
        {"type": "FOOTER", "text": "Reply STOP"},
        {"type": "BUTTONS", "buttons": [{"type": "PHONE_NUMBER", "text": "Call"}]},
    ]);
    check(&template, &json!([]), Ok("News\nWelcome\nReply STOP"));
    check(&template, &json!([{"type": "body", "parameters": []}]), Ok("News\nWelcome\nReply STOP"));
    assert_eq!(fit(&template, &json!([])).unwrap().components, "[]");
    let refused = Err("`components[0].parameters` must have 0 entries");
    check(&template, &json!([body(&["a"])]), refused);
    let button = json!([{"type": "button", "index": 0, "parameters": [text("a")]}]);
    check(&template, &button, refused);
}

#[test]
fn names_stand_for_numbers() {
    let template = json!([{"type": "BODY", "text": "Hi {{name}}, {{what}}"}]);
    let named =
        |name: &str, value: &str| json!({"type": "text", "parameter_name": name, "text": value});
    let given = |parameters: Value| json!([{"type": "body", "parameters": parameters}]);
    let both = given(json!([named("what", "b"), named("name", "a")]));
    check(&template, &both, Ok("Hi a, b"));
    let doubled = given(json!([named("name", "a"), named("name", "b")]));
    let refused = "`components[0].parameters[1].parameter_name` must be each of name, what once";
    check(&template, &doubled, Err(refused));
    let nameless = given(json!([text("a"), text("b")]));
    check(&template, &nameless, Ok("Hi a, b"));
    let names = fit(&template, &nameless).unwrap().components;
    assert!(names.contains(r#""parameter_name":"what""#), "{names}");
    let mixed = given(json!([named("name", "a"), text("b")]));
    check(&template, &mixed, Err("`components[0].parameters[1].parameter_name` must be"));
}

#[test]
fn a_header_takes_what_it_is_for() {
    let with = |header: Value| json!([header, {"type": "BODY", "text": "x"}]);
    let given = |parameter: Value| json!([{"type": "header", "parameters": [parameter]}]);
    let texts = with(json!({"type": "HEADER", "text": "Hi {{1}}"}));
    check(&texts, &given(text("Ada")), Ok("Hi Ada\nx"));
    check(&texts, &given(text(&"x".repeat(61))), Err("`components[0].parameters[0].text` must be"));
    let money = json!({"type": "currency", "currency": {"fallback_value": "$5"}});
    check(&texts, &given(money), Err("`components[0].parameters[0].type` must be text"));
    for kind in ["image", "video", "gif", "document"] {
        let media = with(json!({"type": "HEADER", "format": kind.to_uppercase()}));
        check(&media, &json!([]), Err("`components` must have a header with 1 parameter"));
        let link = json!({"type": kind, kind: {"link": "https://x.example/a"}});
        check(&media, &given(link), Ok("x"));
        check(&media, &given(json!({"type": kind, kind: {"id": "7"}})), Ok("x"));
        let empty = format!("`components[0].parameters[0].{kind}` must have a link or an id");
        check(&media, &given(json!({"type": kind, kind: {}})), Err(&empty));
        check(&media, &given(json!({"type": kind})), Err(&empty));
        let wrong = format!("`components[0].parameters[0].type` must be {kind}");
        check(&media, &given(text("a")), Err(&wrong));
    }
}

#[test]
fn buttons_take_their_own_kind() {
    let template = json!([
        {"type": "BODY", "text": "x"},
        {"type": "BUTTONS", "buttons": [
            {"type": "URL", "url": "https://x.example/{{1}}"},
            {"type": "QUICK_REPLY", "text": "Yes"},
            {"type": "COPY_CODE"},
            {"type": "URL", "url": "https://x.example/"},
        ]},
    ]);
    let button = |sub_type: &str, index: Value, parameter: Value| json!({"type": "button", "sub_type": sub_type, "index": index, "parameters": [parameter]});
    let url = button("url", json!("0"), text("a"));
    let reply = button("quick_reply", json!(1), json!({"type": "payload", "payload": "yes"}));
    let coupon =
        button("copy_code", json!("2"), json!({"type": "coupon_code", "coupon_code": "C"}));
    check(&template, &json!([url, coupon]), Ok("x"));
    let filled = fit(&template, &json!([coupon, reply, url])).unwrap();
    let components: Value = serde_json::from_str(&filled.components).unwrap();
    let order: Vec<_> = components.as_array().unwrap().iter().map(|one| &one["index"]).collect();
    assert_eq!(order, ["0", "1", "2"]);
    for (given, expected) in [
        (json!([url]), "`components` must have a button of index 2 with 1 parameter"),
        (json!([coupon]), "`components` must have a button of index 0 with 1 parameter"),
        (json!([button("url", json!("9"), text("a"))]), "`components[0]` must not be there"),
        (json!([button("url", json!("x"), text("a"))]), "`components[0].index` must be the"),
        (json!([{"type": "button", "sub_type": "url"}]), "`components[0].index` must be the"),
        (json!([button("copy_code", json!(0), text("a"))]), "`components[0].sub_type` must be url"),
        (
            json!([button("url", json!(0), text(&"x".repeat(2001)))]),
            "`components[0].parameters[0].text` must be a text of 1 to 2000",
        ),
        (
            json!([button("quick_reply", json!(1), text("yes"))]),
            "`components[0].parameters[0].type` must be payload",
        ),
        (
            json!([button(
                "copy_code",
                json!(2),
                json!({"type": "coupon_code", "coupon_code": ""})
            )]),
            "`components[0].parameters[0].coupon_code` must be a text of 1 to 20",
        ),
    ] {
        check(&template, &given, Err(expected));
    }
}

#[test]
fn the_canonical_form_is_the_channels() {
    let template = json!([{"type": "BODY", "text": "Hello {{1}}"}]);
    let given = json!([{"type": "BODY", "parameters": [text("Ada")]}]);
    let filled = fit(&template, &given).unwrap();
    let components: Value = serde_json::from_str(&filled.components).unwrap();
    assert_eq!(components, json!([body(&["Ada"])]));
    let more = json!([{"type": "BODY", "parameters": [text("Ada")], "more": 7}]);
    let refused = fit(&template, &more).unwrap_err();
    assert!(refused.starts_with("`components[0].more` is not known"), "{refused}");
}

#[test]
fn every_part_that_is_known_is_checked() {
    let header = |format: &str| json!([{"type": "HEADER", "format": format}]);
    let button = |kind: &str| json!([{"type": "BUTTONS", "buttons": [{"type": kind}]}]);
    let press = |sub_type: &str, parameters: Value| json!([{"type": "button", "sub_type": sub_type, "index": "0", "parameters": parameters}]);
    let action =
        json!([{"type": "action", "action": {"flow_token": "t", "flow_action_data": {"a": [1]}}}]);
    let offer = |ends: bool| json!([{"type": "LIMITED_TIME_OFFER", "limited_time_offer": {"text": "Today", "has_expiration": ends}}]);
    let ends_at = |at: Value| json!([{"type": "limited_time_offer", "parameters": [{"type": "limited_time_offer", "limited_time_offer": {"expiration_time_ms": at}}]}]);
    let product = json!([{"type": "header", "parameters": [{"type": "product", "product": {"product_retailer_id": "p", "catalog_id": "c"}}]}]);
    let gif = json!([{"type": "header", "parameters": [{"type": "gif", "gif": {"id": "7"}}]}]);
    let payload = json!([{"type": "payload", "payload": "x"}]);
    let kept = |template: &Value, given: &Value| {
        let filled = fit(template, given).unwrap();
        let components: Value = serde_json::from_str(&filled.components).unwrap();
        assert_eq!(components, *given);
    };
    kept(&header("GIF"), &gif);
    kept(&header("PRODUCT"), &product);
    kept(&offer(true), &ends_at(json!(1_700_000_000_000_u64)));
    for kind in ["flow", "catalog", "mpm", "spm"] {
        kept(&button(&kind.to_uppercase()), &press(kind, action.clone()));
    }
    kept(&button("VOICE_CALL"), &press("voice_call", payload.clone()));
    for (template, given, expected) in [
        (header("GIF"), json!([]), Err("`components` must have a header with 1 parameter")),
        (header("PRODUCT"), gif, Err("`components[0].parameters[0].type` must be product")),
        (
            header("PRODUCT"),
            json!([{"type": "header", "parameters": [{"type": "product", "product": {}}]}]),
            Err("`components[0].parameters[0].product` must have a product_retailer_id"),
        ),
        (button("MPM"), json!([]), Err("`components` must have a button of index 0")),
        (button("CATALOG"), json!([]), Ok("")),
        (button("FLOW"), press("flow", payload.clone()), Err("`components[0].parameters[0].type`")),
        (
            button("FLOW"),
            press("flow", json!([{"type": "action", "action": 7}])),
            Err("`components[0].parameters[0].action` must be an object"),
        ),
        (button("FLOW"), press("url", action), Err("`components[0].sub_type` must be flow")),
        (button("APP"), press("app", payload), Err("`components[0].parameters` must have 0")),
        (offer(true), json!([]), Err("`components` must have a limited_time_offer with 1")),
        (offer(false), json!([]), Ok("Today")),
        (
            offer(true),
            ends_at(json!("soon")),
            Err("`components[0].parameters[0].limited_time_offer` must have an expiration_time_ms"),
        ),
    ] {
        check(&template, &given, expected);
    }
}

#[test]
fn what_is_of_no_known_type_is_passed_on_as_it_was_given() {
    let template = json!([
        {"type": "BODY", "text": "Hi {{1}}"},
        {"type": "HOLOGRAM"},
        {"type": "BUTTONS", "buttons": [{"type": "TELEPORT"}]},
    ]);
    let hologram = json!({"type": "hologram", "deep": {"a": [1, {"b": null}]}});
    let button = json!({"type": "button", "sub_type": "teleport", "index": 0, "where": "home"});
    let filled = fit(&template, &json!([hologram, button, body(&["Ada"])])).unwrap();
    let components: Value = serde_json::from_str(&filled.components).unwrap();
    assert_eq!(components, json!([body(&["Ada"]), button, hologram]));
    let header = json!([{"type": "HEADER", "format": "SCENT"}, {"type": "BODY", "text": "x"}]);
    let given = json!([{"type": "header", "parameters": [{"type": "scent", "scent": "rose"}]}]);
    let filled = fit(&header, &given).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&filled.components).unwrap(), given);
    let large = json!([body(&["Ada"]), {"type": "hologram", "x": "x".repeat(20_000)}]);
    check(&template, &large, Err("`components[1]` must have at most 16384 bytes"));
}

#[test]
fn cards_fill_a_carousel() {
    let card = |text: &str| json!({"components": [{"type": "HEADER", "format": "IMAGE"}, {"type": "BODY", "text": text}]});
    let template = json!([
        {"type": "BODY", "text": "News"},
        {"type": "CAROUSEL", "cards": [card("{{1}} off"), card("Bye")]},
    ]);
    let image = json!({"type": "header", "parameters": [{"type": "image", "image": {"id": "7"}}]});
    let first = json!({"card_index": 0, "components": [image, body(&["10 %"])]});
    let second = json!({"card_index": "1", "components": [image]});
    let with = |cards: Value| json!([{"type": "carousel", "cards": cards}]);
    let filled = fit(&template, &with(json!([second, first]))).unwrap();
    assert_eq!(filled.text, "News\n10 % off\nBye");
    let components: Value = serde_json::from_str(&filled.components).unwrap();
    let in_order = json!([first, {"card_index": 1, "components": [image]}]);
    assert_eq!(components, with(in_order));
    let far = json!({"card_index": 2, "components": [image]});
    for (given, expected) in [
        (json!([]), "`components` must have a carousel with its cards"),
        (with(json!([])), "`components[0].cards` must be a list of 1 to 10 cards"),
        (with(json!([first])), "`components[0].cards` must have a card of card_index 1"),
        (with(json!([first, far])), "`components[0].cards[1].card_index` must be below 2"),
        (with(json!([first, first])), "`components[0].cards[1].card_index` must not be"),
        (with(json!([{}])), "`components[0].cards[0].card_index` must be the card's"),
        (
            with(json!([second, {"card_index": 0, "components": [image]}])),
            "`components[0].cards[1].components` must have a body with 1 parameter",
        ),
        (
            with(json!([{"card_index": 0, "components": [image, body(&[""])]}])),
            "`components[0].cards[0].components[1].parameters[0].text` must be",
        ),
    ] {
        check(&template, &given, Err(expected));
    }
    let product = json!({"components": [{"type": "HEADER", "format": "PRODUCT"}]});
    let template = json!([{"type": "CAROUSEL", "cards": [product]}]);
    let shown = |at: u32| json!({"card_index": at, "components": [{"type": "header", "parameters": [{"type": "product", "product": {"product_retailer_id": "p"}}]}]});
    assert!(fit(&template, &with(json!([shown(0), shown(9)]))).is_ok());
    check(
        &template,
        &with(json!([shown(0), shown(10)])),
        Err("`components[0].cards[1].card_index`"),
    );
}
