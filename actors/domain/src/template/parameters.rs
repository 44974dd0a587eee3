//! Pure: checks that the parameters of a message fit its template, before it is sent.
//!
//! The cards of a message fit into a carousel as components fit into a template.

mod rule;

use serde_json::{Value, json};

use super::Misfit;
use super::placeholders::Placeholders;
use rule::ParameterRule;

/// The known types of a message's components; others are passed on.
const COMPONENT_TYPES: [&str; 7] =
    ["header", "limited_time_offer", "body", "carousel", "button", "buttons", "footer"];
/// The maximum number of cards of a carousel.
const CARDS_MAX: usize = 10;

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
struct TemplateSlot<'a> {
    kind: SlotKind,
    rule: ParameterRule<'a>,
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
enum SlotContent {
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
    let mut contents: Vec<Option<SlotContent>> = slots.iter().map(|_| None).collect();
    let mut passed_on = Vec::new();
    for (index, component) in given.iter().enumerate() {
        let path = format!("components[{index}]");
        let Some(place) = slot_index(&slots, component, &path)? else {
            passed_on.push(rule::bounded_value(component, &path)?);
            continue;
        };
        if contents[place].is_some() {
            return Err(Misfit::new(path, "must not fill what another one fills already"));
        }
        contents[place] = Some(slots[place].accept(component, &path)?);
    }
    let mut components = Vec::new();
    let mut text = String::new();
    for (slot, content) in slots.iter().zip(contents) {
        if content.is_none() && slot.rule.needed() > 0 {
            return Err(Misfit::new(
                "components",
                format!("must have a {}", slot.describe_required()),
            ));
        }
        match content {
            Some(SlotContent::Whole(component, shown)) => {
                append_line(&mut text, &shown);
                components.push(component);
            }
            Some(SlotContent::Parameters(filled)) => {
                slot.rule.show(&filled, &mut text);
                components.extend((!filled.is_empty()).then(|| slot.canonical(&filled)));
            }
            None => slot.rule.show(&[], &mut text),
        }
    }
    if let Some(footer) = component_of_type(template, "FOOTER").and_then(text_of) {
        append_line(&mut text, footer);
    }
    components.extend(passed_on);
    Ok((components, text))
}

fn component_of_type<'a>(template: &'a [Value], kind: &str) -> Option<&'a Value> {
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
fn slots(template: &[Value]) -> Vec<TemplateSlot<'_>> {
    let mut slots = Vec::new();
    let mut add = |kind, rule| slots.push(TemplateSlot { kind, rule });
    if let Some(header) = component_of_type(template, "HEADER") {
        add(SlotKind::Header, ParameterRule::of_header(header));
    }
    if let Some(offer) = component_of_type(template, "LIMITED_TIME_OFFER") {
        add(SlotKind::Offer, ParameterRule::of_offer(offer));
    }
    if let Some(body) = component_of_type(template, "BODY") {
        add(SlotKind::Body, ParameterRule::of_body(body));
    }
    if let Some(cards) = component_of_type(template, "CAROUSEL").and_then(|it| it.get("cards")) {
        add(
            SlotKind::Carousel,
            ParameterRule::Carousel(cards.as_array().map_or(&[], Vec::as_slice)),
        );
    }
    let buttons =
        component_of_type(template, "BUTTONS").and_then(|component| component.get("buttons"));
    for (index, button) in buttons.and_then(Value::as_array).into_iter().flatten().enumerate() {
        add(SlotKind::Button(index), ParameterRule::of_button(button));
    }
    slots
}

/// Returns the slot of a message's component, or `None` if its type is not known.
fn slot_index(
    slots: &[TemplateSlot<'_>],
    component: &Value,
    path: &str,
) -> Result<Option<usize>, Misfit> {
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
        unknown if !unknown.is_empty() && !COMPONENT_TYPES.contains(&unknown) => return Ok(None),
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

impl TemplateSlot<'_> {
    /// Returns a description of the required content, in words.
    fn describe_required(&self) -> String {
        let what = self.kind.describe();
        match (self.kind, self.rule.needed()) {
            (SlotKind::Carousel, _) => format!("{what} with its cards"),
            (_, 1) => format!("{what} with 1 parameter"),
            (_, needed) => format!("{what} with {needed} parameters"),
        }
    }

    /// Returns the content that a component gives the slot, if it fits.
    fn accept(&self, component: &Value, path: &str) -> Result<SlotContent, Misfit> {
        match self.rule {
            ParameterRule::Carousel(cards) => fit_carousel(cards, component, path),
            ParameterRule::Anything => {
                Ok(SlotContent::Whole(rule::bounded_value(component, path)?, String::new()))
            }
            _ => self.accept_parameters(component, path).map(SlotContent::Parameters),
        }
    }

    /// Returns the component's parameters in the order of their placeholders, if they fit.
    fn accept_parameters(&self, component: &Value, path: &str) -> Result<Vec<Value>, Misfit> {
        rule::check_fields(component, &["type", "sub_type", "index", "parameters"], path)?;
        let path = &format!("{path}.parameters");
        let given = match component.get("parameters") {
            None | Some(Value::Null) => &[][..],
            Some(Value::Array(given)) => given,
            Some(_) => return Err(Misfit::new(path, "must be a list")),
        };
        if let ParameterRule::Button { sub_type, .. } = self.rule
            && !word(component, "sub_type").eq_ignore_ascii_case(sub_type)
        {
            let path = path.replace(".parameters", ".sub_type");
            return Err(Misfit::new(path, format!("must be {sub_type}")));
        }
        let needed = self.rule.needed();
        let optional = self.rule.is_optional();
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
        match &self.rule {
            ParameterRule::Texts { places: Placeholders::Named(names), .. } => {
                rule::in_order(names, accepted, path)
            }
            _ => Ok(accepted),
        }
    }

    fn accept_one(&self, given: &Value, path: &str) -> Result<Value, Misfit> {
        if !given.is_object() {
            return Err(Misfit::new(path, "must be an object"));
        }
        let kind = word(given, "type").to_ascii_lowercase();
        self.rule.check(self.kind == SlotKind::Body, (given, &kind), path)?;
        rule::canonical_parameter(given, &kind, path)
    }

    /// Returns the slot's component in the channel's form.
    fn canonical(&self, parameters: &[Value]) -> Value {
        match (self.kind, &self.rule) {
            (SlotKind::Button(index), ParameterRule::Button { sub_type, .. }) => json!({
                "type": "button",
                "sub_type": sub_type,
                "index": index.to_string(),
                "parameters": parameters,
            }),
            (kind, _) => json!({ "type": kind.describe(), "parameters": parameters }),
        }
    }
}

/// Returns whether a carousel of these cards cannot be sent without parameters.
fn needs_cards(cards: &[Value]) -> bool {
    cards.iter().any(needs_parameters)
}

fn needs_parameters(card: &Value) -> bool {
    slots(components_of(card)).iter().any(|slot| slot.rule.needed() > 0)
}

fn components_of(card: &Value) -> &[Value] {
    card.get("components").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the card of the template that a message's card of this index fills. A carousel of
/// products may have more cards than its template.
fn card_at(cards: &[Value], index: usize) -> Option<&Value> {
    let shows_product = |card: &&Value| {
        let header = component_of_type(components_of(card), "HEADER");
        matches!(header.map(ParameterRule::of_header), Some(ParameterRule::Object("product")))
    };
    let more = || cards.last().filter(shows_product).filter(|_| index < CARDS_MAX);
    cards.get(index).or_else(more)
}

/// Returns the carousel in the channel's form, its cards in their order, and the texts on them.
fn fit_carousel(cards: &[Value], given: &Value, path: &str) -> Result<SlotContent, Misfit> {
    rule::check_fields(given, &["type", "cards"], path)?;
    let path = format!("{path}.cards");
    let list = given.get("cards").and_then(Value::as_array);
    let list = list.filter(|list| (1..=CARDS_MAX).contains(&list.len())).ok_or_else(|| {
        Misfit::new(path.clone(), format!("must be a list of 1 to {CARDS_MAX} cards"))
    })?;
    let mut filled: Vec<(usize, Vec<Value>, String)> = Vec::new();
    for (at, card) in list.iter().enumerate() {
        let path = format!("{path}[{at}]");
        rule::check_fields(card, &["card_index", "components"], &path)?;
        let misplaced = |rule: &str| Misfit::new(format!("{path}.card_index"), rule);
        let index =
            card_index(card).ok_or_else(|| misplaced("must be the card's number, from 0"))?;
        let of_template = card_at(cards, index)
            .ok_or_else(|| misplaced(&format!("must be below {}", cards.len())))?;
        if filled.iter().any(|(known, ..)| *known == index) {
            return Err(misplaced("must not be that of another card"));
        }
        let components = match card.get("components") {
            None | Some(Value::Null) => &[][..],
            Some(Value::Array(components)) => components,
            Some(_) => return Err(Misfit::new(format!("{path}.components"), "must be a list")),
        };
        let fitted = fit(components_of(of_template), components);
        let (components, text) = fitted
            .map_err(|misfit| Misfit { path: format!("{path}.{}", misfit.path), ..misfit })?;
        filled.push((index, components, text));
    }
    let is_given = |index: &usize| filled.iter().any(|(known, ..)| known == index);
    let mut needed = (0..cards.len()).filter(|index| needs_parameters(&cards[*index]));
    if let Some(missing) = needed.find(|index| !is_given(index)) {
        return Err(Misfit::new(path, format!("must have a card of card_index {missing}")));
    }
    filled.sort_by_key(|(index, ..)| *index);
    let mut text = String::new();
    filled.iter().for_each(|(.., line)| append_line(&mut text, line));
    let form = |(index, components, _)| json!({"card_index": index, "components": components});
    let cards: Vec<_> = filled.into_iter().map(form).collect();
    Ok(SlotContent::Whole(json!({"type": "carousel", "cards": cards}), text))
}

/// Returns the index of a card, as a number or as a string.
fn card_index(card: &Value) -> Option<usize> {
    match card.get("card_index")? {
        Value::String(_) => word(card, "card_index").parse().ok(),
        number => usize::try_from(number.as_u64()?).ok(),
    }
}

#[cfg(test)]
mod tests;
