//! Pure: the button of a template with codes that takes the code besides its body.

use serde_json::Value;

use super::places::Places;

/// The button of a template that takes the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeButton {
    /// The button of this index, from 0.
    At(u8),
    /// No button takes it.
    Absent,
}

impl Default for CodeButton {
    /// Returns the assumption about a template whose components are not known.
    fn default() -> Self {
        Self::At(0)
    }
}

impl CodeButton {
    /// Returns the button of a template with these components, in the channel's JSON. It is the
    /// first one that copies a code, or that opens an address with a place for it.
    #[must_use]
    pub fn of(components: &[Value]) -> Self {
        if components.is_empty() {
            return Self::default();
        }
        let is_buttons = |component: &&Value| word(component, "type") == "BUTTONS";
        let buttons = components.iter().find(is_buttons).and_then(|it| it.get("buttons"));
        let takes_code = |button: &Value| match word(button, "type").as_str() {
            "OTP" => true,
            "URL" => {
                let url = button.get("url").and_then(Value::as_str);
                url.is_none_or(|url| Places::of(url).count() > 0)
            }
            _ => false,
        };
        let index = buttons.and_then(Value::as_array).and_then(|it| it.iter().position(takes_code));
        index.and_then(|index| u8::try_from(index).ok()).map_or(Self::Absent, Self::At)
    }
}

fn word(object: &Value, name: &str) -> String {
    object.get(name).and_then(Value::as_str).unwrap_or_default().to_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_code_goes_to_the_button_that_takes_it() {
        let body = json!({"type": "BODY", "add_security_recommendation": true});
        let with =
            |buttons: Value| vec![body.clone(), json!({"type": "BUTTONS", "buttons": buttons})];
        let copy =
            json!({"type": "URL", "url": "https://www.whatsapp.com/otp/code/?code=otp{{1}}"});
        let fixed = json!({"type": "URL", "url": "https://acme.example/help"});
        let table = [
            (vec![], CodeButton::At(0)),
            (vec![body.clone()], CodeButton::Absent),
            (with(json!([{"type": "OTP", "otp_type": "ZERO_TAP"}])), CodeButton::At(0)),
            (with(json!([copy])), CodeButton::At(0)),
            (with(json!([{"type": "url", "text": "Copy"}])), CodeButton::At(0)),
            (with(json!([{"type": "QUICK_REPLY"}, copy])), CodeButton::At(1)),
            (with(json!([fixed, {"type": "OTP"}])), CodeButton::At(1)),
            (with(json!([fixed])), CodeButton::Absent),
            (with(json!([])), CodeButton::Absent),
            (with(json!("broken")), CodeButton::Absent),
        ];
        for (components, expected) in table {
            assert_eq!(CodeButton::of(&components), expected, "{components:?}");
        }
    }
}
