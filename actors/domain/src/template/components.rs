//! Pure: checks the components of a template that this server creates.

use serde_json::Value;

use super::placeholders::Placeholders;
use super::{Misfit, TemplateCategory};

/// The maximum number of characters of a header's or footer's text.
const SHORT_CHARS_MAX: usize = 60;
/// The maximum number of characters of a body's text.
const BODY_CHARS_MAX: usize = 1024;
/// The maximum number of buttons of a template.
const BUTTONS_MAX: usize = 10;

const TYPES: [&str; 7] = [
    "HEADER",
    "BODY",
    "FOOTER",
    "BUTTONS",
    "CAROUSEL",
    "LIMITED_TIME_OFFER",
    "CALL_PERMISSION_REQUEST",
];
const FORMATS: [&str; 7] = ["TEXT", "IMAGE", "VIDEO", "GIF", "DOCUMENT", "LOCATION", "PRODUCT"];
/// The maximum number of cards of a carousel.
const CARDS_MAX: usize = 10;

/// Checks the components of a new template, in the channel's JSON. Each type may occur once, a body
/// is required, and parameters must be able to fill every placeholder.
///
/// # Errors
/// The first [`Misfit`]; its path starts with `components`.
pub fn check(components: &[Value], category: TemplateCategory) -> Result<(), Misfit> {
    if check_each(components, category)?.contains(&"BODY") {
        return Ok(());
    }
    Err(Misfit::new("components", "must have a BODY"))
}

/// Checks each component, and returns their types.
fn check_each(
    components: &[Value],
    category: TemplateCategory,
) -> Result<Vec<&'static str>, Misfit> {
    let mut seen: Vec<&'static str> = Vec::new();
    for (index, component) in components.iter().enumerate() {
        let path = format!("components[{index}]");
        let kind = word(component, "type", &TYPES, &path)?;
        if seen.contains(&kind) {
            return Err(Misfit::new("components", format!("must have one {kind} at the most")));
        }
        seen.push(kind);
        match kind {
            "HEADER" => {
                let format = match component.get("format") {
                    None => "TEXT",
                    Some(_) => word(component, "format", &FORMATS, &path)?,
                };
                if format == "TEXT" {
                    check_text(component, SHORT_CHARS_MAX, &path)?;
                }
            }
            // The channel supplies the text of these.
            "BODY" | "FOOTER"
                if category == TemplateCategory::Authentication
                    && component.get("text").is_none() => {}
            "BODY" => check_text(component, BODY_CHARS_MAX, &path)?,
            "FOOTER" => check_text(component, SHORT_CHARS_MAX, &path)?,
            "BUTTONS" => check_buttons(component, &path)?,
            "CAROUSEL" => check_cards(component, category, &path)?,
            // The channel defines its other fields.
            _ => {}
        }
    }
    Ok(seen)
}

/// Returns the value of field `name`, which must be one of `words`.
fn word<'a>(object: &Value, name: &str, words: &[&'a str], path: &str) -> Result<&'a str, Misfit> {
    let given = object.get(name).and_then(Value::as_str);
    let known = given.and_then(|given| words.iter().find(|word| **word == given));
    known.copied().ok_or_else(|| {
        Misfit::new(format!("{path}.{name}"), format!("must be one of {}", words.join(", ")))
    })
}

fn check_text(component: &Value, chars_max: usize, path: &str) -> Result<(), Misfit> {
    let path = format!("{path}.text");
    let text = component.get("text").and_then(Value::as_str).unwrap_or_default();
    if !(1..=chars_max).contains(&text.chars().count()) {
        return Err(Misfit::new(path, format!("must be a text of 1 to {chars_max} characters")));
    }
    if !Placeholders::of(text).are_complete(text) {
        let rule = "must number its places from {{1}} on, or name each of them";
        return Err(Misfit::new(path, rule));
    }
    Ok(())
}

fn check_cards(component: &Value, category: TemplateCategory, path: &str) -> Result<(), Misfit> {
    let path = format!("{path}.cards");
    let cards = component.get("cards").and_then(Value::as_array);
    let cards = cards.filter(|cards| (1..=CARDS_MAX).contains(&cards.len()));
    let cards = cards.ok_or_else(|| {
        Misfit::new(path.clone(), format!("must be a list of 1 to {CARDS_MAX} cards"))
    })?;
    for (index, card) in cards.iter().enumerate() {
        let components = card.get("components").and_then(Value::as_array);
        let components = components.ok_or_else(|| {
            Misfit::new(format!("{path}[{index}].components"), "must be a list of components")
        })?;
        let re_rooted =
            |misfit: Misfit| Misfit { path: format!("{path}[{index}].{}", misfit.path), ..misfit };
        check_each(components, category).map(drop).map_err(re_rooted)?;
    }
    Ok(())
}

fn check_buttons(component: &Value, path: &str) -> Result<(), Misfit> {
    let path = format!("{path}.buttons");
    let buttons = component.get("buttons").and_then(Value::as_array);
    let buttons = buttons.filter(|buttons| (1..=BUTTONS_MAX).contains(&buttons.len()));
    let buttons = buttons.ok_or_else(|| {
        Misfit::new(path.clone(), format!("must be a list of 1 to {BUTTONS_MAX} buttons"))
    })?;
    for (index, button) in buttons.iter().enumerate() {
        if button.get("type").and_then(Value::as_str).is_none_or(str::is_empty) {
            let path = format!("{path}[{index}].type");
            return Err(Misfit::new(path, "must name the kind of button, such as URL"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_template_is_made_of_is_checked() {
        let body = json!({"type": "BODY", "text": "Hello {{1}}"});
        let check = |components: Value, category| {
            let components = components.as_array().unwrap().clone();
            super::check(&components, category).map_err(|misfit| misfit.path)
        };
        let utility = |components| check(components, TemplateCategory::Utility);
        for good in [
            json!([body]),
            json!([{"type": "HEADER", "format": "IMAGE"}, body, {"type": "FOOTER", "text": "x"}]),
            json!([{"type": "HEADER", "text": "Hi {{1}}"}, body]),
            json!([body, {"type": "BUTTONS", "buttons": [{"type": "URL", "url": "u"}]}]),
            json!([{"type": "HEADER", "format": "GIF"}, body, {"type": "LIMITED_TIME_OFFER"}]),
            json!([body, {"type": "CAROUSEL", "cards": [{"components": [
                {"type": "HEADER", "format": "IMAGE"}, {"type": "BODY", "text": "{{1}}"},
            ]}]}]),
        ] {
            assert_eq!(utility(good.clone()), Ok(()), "{good}");
        }
        for (bad, path) in [
            (json!([]), "components"),
            (json!([{"type": "FOOTER", "text": "x"}]), "components"),
            (json!([body, body]), "components"),
            (json!([7]), "components[0].type"),
            (json!([{"type": "body", "text": "x"}]), "components[0].type"),
            (json!([{"type": "BODY"}]), "components[0].text"),
            (json!([{"type": "BODY", "text": ""}]), "components[0].text"),
            (json!([{"type": "BODY", "text": 7}]), "components[0].text"),
            (json!([{"type": "BODY", "text": "{{2}}"}]), "components[0].text"),
            (json!([{"type": "BODY", "text": "x".repeat(1025)}]), "components[0].text"),
            (json!([body, {"type": "HEADER", "format": "SCENT"}]), "components[1].format"),
            (json!([body, {"type": "CAROUSEL", "cards": []}]), "components[1].cards"),
            (
                json!([body, {"type": "CAROUSEL", "cards": [{}]}]),
                "components[1].cards[0].components",
            ),
            (
                json!([body, {"type": "CAROUSEL", "cards": [{"components": [{"type": "HEADER"}]}]}]),
                "components[1].cards[0].components[0].text",
            ),
            (json!([body, {"type": "HEADER"}]), "components[1].text"),
            (json!([body, {"type": "BUTTONS", "buttons": []}]), "components[1].buttons"),
            (json!([body, {"type": "BUTTONS", "buttons": [{}]}]), "components[1].buttons[0].type"),
        ] {
            assert_eq!(utility(bad.clone()), Err(path.to_owned()), "{bad}");
        }
        let worded = json!([{"type": "BODY", "add_security_recommendation": true}]);
        assert_eq!(check(worded, TemplateCategory::Authentication), Ok(()));
    }
}
