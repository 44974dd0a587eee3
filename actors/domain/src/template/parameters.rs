//! Pure: checks that the parameters of a message fit its template, before it is sent.

mod carousel;
mod kept;
mod takes;

use serde_json::{Value, json};

use super::Misfit;
use super::places::Places;
use takes::Takes;

/// The known types of a message's components; others are passed on.
const KNOWN: [&str; 7] =
    ["header", "limited_time_offer", "body", "carousel", "button", "buttons", "footer"];

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
    Offer,
    Body,
    Carousel,
    Button(usize),
}

/// The content of a slot.
enum Filling {
    /// These parameters, in the order of their placeholders.
    Parameters(Vec<Value>),
    /// A whole component, and the text that it adds.
    Whole(Value, String),
}

/// Fits a message's parameters into a template. `given` has the channel's `components` of a
/// message, and `template` the channel's `components` of a template.
///
/// # Errors
/// The first [`Misfit`]: a missing or superfluous parameter, one of the wrong type or one that is
/// too long. Its path starts with `components`.
pub fn fill(template: &[Value], given: &[Value]) -> Result<Filled, Misfit> {
    let (components, text) = fit(template, given)?;
    Ok(Filled { components: Value::Array(components).to_string(), text })
}

/// Returns the components in the channel's form and order, and the text that the recipient reads.
/// Components of an unknown type come last, unchanged.
fn fit(template: &[Value], given: &[Value]) -> Result<(Vec<Value>, String), Misfit> {
    let slots = slots(template);
    let mut fillings: Vec<Option<Filling>> = slots.iter().map(|_| None).collect();
    let mut passed_on = Vec::new();
    for (index, component) in given.iter().enumerate() {
        let path = format!("components[{index}]");
        let Some(place) = place_of(&slots, component, &path)? else {
            passed_on.push(kept::whole(component, &path)?);
            continue;
        };
        if fillings[place].is_some() {
            return Err(Misfit::new(path, "must not fill what another one fills already"));
        }
        fillings[place] = Some(slots[place].accept(component, &path)?);
    }
    let mut components = Vec::new();
    let mut text = String::new();
    for (slot, filling) in slots.iter().zip(fillings) {
        if filling.is_none() && slot.takes.needed() > 0 {
            return Err(Misfit::new("components", format!("must have a {}", slot.wanted())));
        }
        match filling {
            Some(Filling::Whole(component, shown)) => {
                append_line(&mut text, &shown);
                components.push(component);
            }
            Some(Filling::Parameters(filled)) => {
                slot.takes.show(&filled, &mut text);
                components.extend((!filled.is_empty()).then(|| slot.canonical(&filled)));
            }
            None => slot.takes.show(&[], &mut text),
        }
    }
    if let Some(footer) = of_type(template, "FOOTER").and_then(text_of) {
        append_line(&mut text, footer);
    }
    components.extend(passed_on);
    Ok((components, text))
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

/// Returns the slots of a template, in the order of the canonical form.
fn slots(template: &[Value]) -> Vec<Slot<'_>> {
    let mut slots = Vec::new();
    let mut add = |kind, takes| slots.push(Slot { kind, takes });
    if let Some(header) = of_type(template, "HEADER") {
        add(SlotKind::Header, Takes::of_header(header));
    }
    if let Some(offer) = of_type(template, "LIMITED_TIME_OFFER") {
        add(SlotKind::Offer, Takes::of_offer(offer));
    }
    if let Some(body) = of_type(template, "BODY") {
        add(SlotKind::Body, Takes::of_body(body));
    }
    if let Some(cards) = of_type(template, "CAROUSEL").and_then(|it| it.get("cards")) {
        add(SlotKind::Carousel, Takes::Carousel(cards.as_array().map_or(&[], Vec::as_slice)));
    }
    let buttons = of_type(template, "BUTTONS").and_then(|component| component.get("buttons"));
    for (index, button) in buttons.and_then(Value::as_array).into_iter().flatten().enumerate() {
        add(SlotKind::Button(index), Takes::of_button(button));
    }
    slots
}

/// Returns the slot of a message's component, or `None` if its type is not known.
fn place_of(slots: &[Slot<'_>], component: &Value, path: &str) -> Result<Option<usize>, Misfit> {
    if !component.is_object() {
        return Err(Misfit::new(path, "must be an object"));
    }
    let kind = match word(component, "type").to_ascii_lowercase().as_str() {
        "header" => SlotKind::Header,
        "limited_time_offer" => SlotKind::Offer,
        "body" => SlotKind::Body,
        "carousel" => SlotKind::Carousel,
        "button" => SlotKind::Button(button_index(component).ok_or_else(|| {
            Misfit::new(format!("{path}.index"), "must be the button's number, from 0")
        })?),
        unknown if !unknown.is_empty() && !KNOWN.contains(&unknown) => return Ok(None),
        _ => {
            let rule = "must be header, body, button, carousel or limited_time_offer";
            return Err(Misfit::new(format!("{path}.type"), rule));
        }
    };
    let place = slots.iter().position(|slot| slot.kind == kind).ok_or_else(|| {
        Misfit::new(path, format!("must not be there: the template has no {}", kind.describe()))
    })?;
    Ok(Some(place))
}

/// Returns the index of a button. The channel accepts it as a string and as a number.
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
            Self::Offer => "limited_time_offer".to_owned(),
            Self::Body => "body".to_owned(),
            Self::Carousel => "carousel".to_owned(),
            Self::Button(index) => format!("button of index {index}"),
        }
    }
}

impl Slot<'_> {
    /// Returns a description of the required content, in words.
    fn wanted(&self) -> String {
        let what = self.kind.describe();
        match (self.kind, self.takes.needed()) {
            (SlotKind::Carousel, _) => format!("{what} with its cards"),
            (_, 1) => format!("{what} with 1 parameter"),
            (_, needed) => format!("{what} with {needed} parameters"),
        }
    }

    /// Returns the content that a component gives the slot, if it fits.
    fn accept(&self, component: &Value, path: &str) -> Result<Filling, Misfit> {
        match self.takes {
            Takes::Carousel(cards) => carousel::fit(cards, component, path),
            Takes::Anything => Ok(Filling::Whole(kept::whole(component, path)?, String::new())),
            _ => self.accept_parameters(component, path).map(Filling::Parameters),
        }
    }

    /// Returns the component's parameters in the order of their placeholders, if they fit.
    fn accept_parameters(&self, component: &Value, path: &str) -> Result<Vec<Value>, Misfit> {
        kept::only(component, &["type", "sub_type", "index", "parameters"], path)?;
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
        let optional = self.takes.is_optional();
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
            Takes::Texts { places: Places::Named(names), .. } => {
                takes::in_order(names, accepted, path)
            }
            _ => Ok(accepted),
        }
    }

    fn accept_one(&self, given: &Value, path: &str) -> Result<Value, Misfit> {
        if !given.is_object() {
            return Err(Misfit::new(path, "must be an object"));
        }
        let kind = word(given, "type").to_ascii_lowercase();
        self.takes.check(self.kind == SlotKind::Body, (given, &kind), path)?;
        kept::parameter(given, &kind, path)
    }

    /// Returns the slot's component in the channel's form.
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

#[cfg(test)]
mod tests;
