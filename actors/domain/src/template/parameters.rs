//! Pure: checks that the parameters of a message fit its template, before it is sent.

mod kept;

use serde_json::{Value, json};

use super::Misfit;
use super::places::{self, Places};
use crate::printable;

/// Most characters of a parameter in a body.
const BODY_CHARS_MAX: usize = 1024;
/// Most characters of a parameter in a header.
const HEADER_CHARS_MAX: usize = 60;
/// Most characters of the suffix of a button's URL.
const URL_CHARS_MAX: usize = 2000;
/// Most characters of the payload that a button returns.
const PAYLOAD_CHARS_MAX: usize = 256;
/// Most characters of a coupon code.
const COUPON_CHARS_MAX: usize = 20;

/// A template with its parameters filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filled {
    /// The parameters in the channel's form and order, a JSON array.
    pub components: String,
    /// The text that the recipient reads.
    pub text: String,
}

/// A component of a template that parameters fill.
#[derive(Debug)]
struct Slot<'a> {
    kind: SlotKind,
    takes: Takes<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotKind {
    Header,
    Body,
    Button(usize),
}

#[derive(Debug)]
enum Takes<'a> {
    /// Texts for the placeholders of a text. In a body also amounts of money and dates.
    Texts { text: &'a str, places: Places<'a>, chars_max: usize },
    /// An image, a video, a document or a location.
    Media(&'static str),
    /// A button's parameter: its `sub_type`, its `type`, and whether it may be left out.
    Button { sub_type: &'static str, kind: &'static str, chars_max: usize, optional: bool },
    /// A button without parameters.
    Nothing,
}

/// Fits a message's parameters (`given`, the channel's `components` of a message) into a template
/// (`template`, the channel's `components` of a template).
///
/// # Errors
/// The first [`Misfit`]: a missing or superfluous parameter, one of the wrong type or one that is
/// too long. Its path begins with `components`.
pub fn fill(template: &[Value], given: &[Value]) -> Result<Filled, Misfit> {
    let slots = slots(template);
    let mut parameters: Vec<Option<Vec<Value>>> = slots.iter().map(|_| None).collect();
    for (index, component) in given.iter().enumerate() {
        let path = format!("components[{index}]");
        let place = place_of(&slots, component, &path)?;
        if parameters[place].is_some() {
            return Err(Misfit::new(path, "must not fill what another one fills already"));
        }
        parameters[place] = Some(slots[place].accept(component, &path)?);
    }
    let mut components = Vec::new();
    let mut text = String::new();
    for (slot, filled) in slots.iter().zip(&parameters) {
        let needed = slot.takes.needed();
        if filled.is_none() && needed > 0 {
            let parameters = if needed == 1 { "parameter" } else { "parameters" };
            let rule = format!("must have a {} with {needed} {parameters}", slot.kind.describe());
            return Err(Misfit::new("components", rule));
        }
        let filled = filled.as_deref().unwrap_or_default();
        slot.takes.show(filled, &mut text);
        if !filled.is_empty() {
            components.push(slot.canonical(filled));
        }
    }
    if let Some(footer) = of_type(template, "FOOTER").and_then(text_of) {
        append_line(&mut text, footer);
    }
    Ok(Filled { components: Value::Array(components).to_string(), text })
}

fn of_type<'a>(template: &'a [Value], kind: &str) -> Option<&'a Value> {
    template.iter().find(|component| word(component, "type").eq_ignore_ascii_case(kind))
}

fn word<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn text_of(component: &Value) -> Option<&str> {
    component.get("text").and_then(Value::as_str)
}

fn append_line(text: &mut String, line: &str) {
    if !text.is_empty() && !line.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

/// The slots of a template, in the order of the canonical form.
fn slots(template: &[Value]) -> Vec<Slot<'_>> {
    let mut slots = Vec::new();
    if let Some(header) = of_type(template, "HEADER") {
        let takes = match word(header, "format") {
            "IMAGE" => Takes::Media("image"),
            "VIDEO" => Takes::Media("video"),
            "DOCUMENT" => Takes::Media("document"),
            "LOCATION" => Takes::Media("location"),
            _ => Takes::texts(text_of(header), HEADER_CHARS_MAX),
        };
        slots.push(Slot { kind: SlotKind::Header, takes });
    }
    if let Some(body) = of_type(template, "BODY") {
        // A body whose text the channel supplies has one parameter, the code.
        let worded_by_channel = text_of(body).is_none();
        let text = if worded_by_channel { Some("{{1}}") } else { text_of(body) };
        slots.push(Slot { kind: SlotKind::Body, takes: Takes::texts(text, BODY_CHARS_MAX) });
    }
    let buttons = of_type(template, "BUTTONS").and_then(|component| component.get("buttons"));
    for (index, button) in buttons.and_then(Value::as_array).into_iter().flatten().enumerate() {
        slots.push(Slot { kind: SlotKind::Button(index), takes: Takes::of_button(button) });
    }
    slots
}

/// The slot that a message's component is for.
fn place_of(slots: &[Slot<'_>], component: &Value, path: &str) -> Result<usize, Misfit> {
    if !component.is_object() {
        return Err(Misfit::new(path, "must be an object"));
    }
    let kind = match word(component, "type").to_ascii_lowercase().as_str() {
        "header" => SlotKind::Header,
        "body" => SlotKind::Body,
        "button" => SlotKind::Button(button_index(component).ok_or_else(|| {
            Misfit::new(format!("{path}.index"), "must be the button's number, from 0")
        })?),
        _ => return Err(Misfit::new(format!("{path}.type"), "must be header, body or button")),
    };
    slots.iter().position(|slot| slot.kind == kind).ok_or_else(|| {
        Misfit::new(path, format!("must not be there: the template has no {}", kind.describe()))
    })
}

/// The index of a button. The channel accepts it as a string and as a number.
fn button_index(component: &Value) -> Option<usize> {
    match component.get("index")? {
        Value::String(text) => text.parse().ok(),
        number => usize::try_from(number.as_u64()?).ok(),
    }
}

impl SlotKind {
    fn describe(self) -> String {
        match self {
            Self::Header => "header".to_owned(),
            Self::Body => "body".to_owned(),
            Self::Button(index) => format!("button of index {index}"),
        }
    }
}

impl<'a> Takes<'a> {
    fn texts(text: Option<&'a str>, chars_max: usize) -> Self {
        let text = text.unwrap_or_default();
        Self::Texts { text, places: Places::of(text), chars_max }
    }

    fn of_button(button: &Value) -> Self {
        let has_place = Places::of(word(button, "url")).count() > 0;
        let (sub_type, kind, chars_max, optional) =
            match word(button, "type").to_ascii_uppercase().as_str() {
                "URL" if has_place => ("url", "text", URL_CHARS_MAX, false),
                "OTP" => ("url", "text", URL_CHARS_MAX, false),
                "QUICK_REPLY" => ("quick_reply", "payload", PAYLOAD_CHARS_MAX, true),
                "COPY_CODE" => ("copy_code", "coupon_code", COUPON_CHARS_MAX, false),
                _ => return Self::Nothing,
            };
        Self::Button { sub_type, kind, chars_max, optional }
    }

    /// The least number of parameters.
    fn needed(&self) -> usize {
        match self {
            Self::Texts { places, .. } => places.count(),
            Self::Media(_) => 1,
            Self::Button { optional, .. } => usize::from(!optional),
            Self::Nothing => 0,
        }
    }

    /// Appends the text that the recipient reads.
    fn show(&self, filled: &[Value], out: &mut String) {
        if let Self::Texts { text, places, .. } = self {
            let values: Vec<_> = filled.iter().map(shown).collect();
            let mut line = String::with_capacity(text.len());
            places::fill(text, places, &values, &mut line);
            append_line(out, &line);
        }
    }
}

/// The text that a parameter shows.
fn shown(parameter: &Value) -> &str {
    let at = match word(parameter, "type") {
        "currency" => "/currency/fallback_value",
        "date_time" => "/date_time/fallback_value",
        _ => "/text",
    };
    parameter.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

impl Slot<'_> {
    /// The component's parameters in the order of their placeholders, if they fit.
    fn accept(&self, component: &Value, path: &str) -> Result<Vec<Value>, Misfit> {
        let path = &format!("{path}.parameters");
        let given = match component.get("parameters") {
            None | Some(Value::Null) => &[][..],
            Some(Value::Array(given)) => given,
            Some(_) => return Err(Misfit::new(path, "must be a list")),
        };
        if let Takes::Button { sub_type, .. } = self.takes
            && !word(component, "sub_type").eq_ignore_ascii_case(sub_type)
        {
            let path = path.replace(".parameters", ".sub_type");
            return Err(Misfit::new(path, format!("must be {sub_type}")));
        }
        let needed = self.takes.needed();
        let optional = matches!(self.takes, Takes::Button { optional: true, .. });
        if given.len() != needed && !(optional && given.len() == 1) {
            let what = self.kind.describe();
            let entries = if needed == 1 { "entry" } else { "entries" };
            let rule = format!(
                "must have {needed} {entries}, as the template's {what} asks for, not {}",
                given.len()
            );
            return Err(Misfit::new(path, rule));
        }
        let accepted = given.iter().enumerate();
        let accepted =
            accepted.map(|(index, one)| self.accept_one(one, &format!("{path}[{index}]")));
        let accepted: Vec<_> = accepted.collect::<Result<_, _>>()?;
        match &self.takes {
            Takes::Texts { places: Places::Named(names), .. } => in_order(names, accepted, path),
            _ => Ok(accepted),
        }
    }

    fn accept_one(&self, given: &Value, path: &str) -> Result<Value, Misfit> {
        let object = given.as_object().ok_or_else(|| Misfit::new(path, "must be an object"))?;
        let kind = word(given, "type").to_ascii_lowercase();
        let (field, chars_max) = match (&self.takes, kind.as_str()) {
            (Takes::Texts { chars_max, .. }, "text") => ("text", *chars_max),
            (Takes::Texts { chars_max, .. }, "currency" | "date_time")
                if self.kind == SlotKind::Body =>
            {
                let at = format!("/{kind}/fallback_value");
                let text_path = format!("{path}.{kind}.fallback_value");
                check_text(given.pointer(&at), *chars_max, text_path)?;
                return kept::parameter(object, &kind, path);
            }
            (Takes::Media(media), kind) if *media == kind => {
                check_media(given, kind, path)?;
                return kept::parameter(object, kind, path);
            }
            (Takes::Button { kind: wanted, chars_max, .. }, kind) if *wanted == kind => {
                (*wanted, *chars_max)
            }
            _ => {
                let rule = format!("must be {}", self.takes.allowed(self.kind));
                return Err(Misfit::new(format!("{path}.type"), rule));
            }
        };
        check_text(given.get(field), chars_max, format!("{path}.{field}"))?;
        kept::parameter(object, &kind, path)
    }

    /// The slot's component in the channel's form.
    fn canonical(&self, parameters: &[Value]) -> Value {
        match (self.kind, &self.takes) {
            (SlotKind::Button(index), Takes::Button { sub_type, .. }) => json!({
                "type": "button",
                "sub_type": sub_type,
                "index": index.to_string(),
                "parameters": parameters,
            }),
            (kind, _) => json!({ "type": kind.describe(), "parameters": parameters }),
        }
    }
}

impl Takes<'_> {
    fn allowed(&self, kind: SlotKind) -> &'static str {
        match (self, kind) {
            (Self::Texts { .. }, SlotKind::Body) => "text, currency or date_time",
            (Self::Texts { .. }, _) | (Self::Nothing, _) => "text",
            (Self::Media(media), _) => media,
            (Self::Button { kind, .. }, _) => kind,
        }
    }
}

fn check_text(value: Option<&Value>, chars_max: usize, path: String) -> Result<(), Misfit> {
    let text = value.and_then(Value::as_str).unwrap_or_default();
    if (1..=chars_max).contains(&text.chars().count()) && !printable::has_control(text) {
        Ok(())
    } else {
        let rule = format!("must be a text of 1 to {chars_max} characters, none of them control");
        Err(Misfit::new(path, rule))
    }
}

fn check_media(given: &Value, kind: &str, path: &str) -> Result<(), Misfit> {
    let media = given.get(kind).and_then(Value::as_object);
    let has =
        |name: &str| media.and_then(|media| media.get(name)).is_some_and(|value| !value.is_null());
    let (fits, rule) = match kind {
        "location" => (has("latitude") && has("longitude"), "latitude and longitude"),
        _ => (has("link") || has("id"), "a link or an id"),
    };
    if fits {
        Ok(())
    } else {
        Err(Misfit::new(format!("{path}.{kind}"), format!("must have {rule}")))
    }
}

/// Named parameters in the order of their placeholders. Each must be given once.
fn in_order(names: &[&str], given: Vec<Value>, path: &str) -> Result<Vec<Value>, Misfit> {
    let name_of = |parameter: &Value| word(parameter, "parameter_name").to_owned();
    for (index, parameter) in given.iter().enumerate() {
        let name = name_of(parameter);
        let again = given[..index].iter().any(|before| name_of(before) == name);
        if again || !names.contains(&name.as_str()) {
            let rule = format!("must be each of {} once", names.join(", "));
            return Err(Misfit::new(format!("{path}[{index}].parameter_name"), rule));
        }
    }
    let mut given = given;
    given.sort_by_key(|parameter| names.iter().position(|name| *name == name_of(parameter)));
    Ok(given)
}

#[cfg(test)]
mod tests;
