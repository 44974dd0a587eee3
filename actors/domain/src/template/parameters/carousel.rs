//! Pure: fits the cards of a message into the carousel of its template.

use serde_json::{Value, json};

use super::takes::Takes;
use super::{Filling, Misfit, append_line, kept, of_type, slots, word};

/// The maximum number of cards of a carousel.
const CARDS_MAX: usize = 10;

/// Returns whether a carousel of these cards cannot be sent without parameters.
pub(super) fn needs_cards(cards: &[Value]) -> bool {
    cards.iter().any(needs_parameters)
}

fn needs_parameters(card: &Value) -> bool {
    slots(components_of(card)).iter().any(|slot| slot.takes.needed() > 0)
}

fn components_of(card: &Value) -> &[Value] {
    card.get("components").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the card of the template that a message's card of this index fills. A carousel of
/// products may have more cards than its template.
fn card_at(cards: &[Value], index: usize) -> Option<&Value> {
    let shows_product = |card: &&Value| {
        let header = of_type(components_of(card), "HEADER");
        matches!(header.map(Takes::of_header), Some(Takes::Object("product")))
    };
    let more = || cards.last().filter(shows_product).filter(|_| index < CARDS_MAX);
    cards.get(index).or_else(more)
}

/// Returns the carousel in the channel's form, its cards in their order, and the texts on them.
pub(super) fn fit(cards: &[Value], given: &Value, path: &str) -> Result<Filling, Misfit> {
    kept::only(given, &["type", "cards"], path)?;
    let path = format!("{path}.cards");
    let list = given.get("cards").and_then(Value::as_array);
    let list = list.filter(|list| (1..=CARDS_MAX).contains(&list.len())).ok_or_else(|| {
        Misfit::new(path.clone(), format!("must be a list of 1 to {CARDS_MAX} cards"))
    })?;
    let mut filled: Vec<(usize, Vec<Value>, String)> = Vec::new();
    for (at, card) in list.iter().enumerate() {
        let path = format!("{path}[{at}]");
        kept::only(card, &["card_index", "components"], &path)?;
        let misplaced = |rule: &str| Misfit::new(format!("{path}.card_index"), rule);
        let index = index_of(card).ok_or_else(|| misplaced("must be the card's number, from 0"))?;
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
        let fit = super::fit(components_of(of_template), components);
        let (components, text) =
            fit.map_err(|misfit| Misfit { path: format!("{path}.{}", misfit.path), ..misfit })?;
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
    Ok(Filling::Whole(json!({"type": "carousel", "cards": cards}), text))
}

/// Returns the index of a card, as a number or as a string.
fn index_of(card: &Value) -> Option<usize> {
    match card.get("card_index")? {
        Value::String(_) => word(card, "card_index").parse().ok(),
        number => usize::try_from(number.as_u64()?).ok(),
    }
}
