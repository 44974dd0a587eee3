//! The numbers from which a broadcast is sent: those whose template makes its messages.
//!
//! Their accounts have it approved, and its parameters make the same message of it with each. The
//! messages are made of one account's template, and are sent through numbers of other accounts too.
//! So those must have a template that takes the very same parameters.

use std::borrow::Cow;

use postrider_broadcast::record::Record;
use postrider_broadcast::with_variables;
use postrider_domain::template::parameters::fill;
use postrider_domain::template::{Misfit, TemplateCategory};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{NumberId, Phone};
use serde_json::Value;

use crate::Workspace;
use crate::broadcasts::create::{CreateBroadcastError, NewBroadcast};
use crate::core::command::{Command, Context};
use crate::core::senders::sticky_sender;
use crate::core::settings::UseTemplateError;
use crate::templates::{Template, find_template};

/// A number of places that no body has room for.
const PLACES_MAX: usize = 210;

/// The maximum of recipients that a refusal names.
const MISFITS_MAX: usize = 20;

/// The parameters of a broadcast's messages: the shared ones, or samples for recipients' variables.
#[derive(Debug)]
pub(super) struct Samples(Vec<Vec<Value>>);

impl Samples {
    /// Returns the samples of a broadcast with these parameters.
    ///
    /// For recipients with variables, which fit `personal`, there is one with as many variables as
    /// its body takes. There is one without any if that fits as well. The text of a variable
    /// matters to no template.
    pub(super) fn of(components: &[Value], personal: Option<&[Value]>) -> Self {
        let shared = components.to_vec();
        let Some(template) = personal else { return Self(vec![shared]) };
        let of = |places| with_variables(components, &vec![Box::from("x"); places]);
        let fits = |given: &Vec<Value>| fill(template, given).is_ok();
        let with_variables = (1..=PLACES_MAX).map(of).find(fits);
        let shared = Some(shared).filter(|it| with_variables.is_none() || fits(it));
        Self(with_variables.into_iter().chain(shared).collect())
    }

    /// Returns the filled components of each sample, for the channel.
    ///
    /// # Errors
    /// [`Misfit`]: one of them does not fit the template.
    pub(super) fn filled(&self, template: &[Value]) -> Result<Vec<String>, Misfit> {
        self.0.iter().map(|given| Ok(fill(template, given)?.components)).collect()
    }
}

/// Numbers that send the same messages of a template.
struct ChosenNumbers {
    /// The numbers; at least one.
    numbers: Vec<NumberId>,
    /// The template of which the messages are made.
    definition: Vec<Value>,
    /// Its category: marketing if it is for any of their accounts.
    category: TemplateCategory,
}

/// The numbers and the template of a new broadcast.
pub(super) struct Sender {
    /// The numbers that its creator has named.
    pub(super) from: Vec<NumberId>,
    /// The numbers from which it is sent; at least one.
    pub(super) numbers: Vec<NumberId>,
    /// The template's components, as the account of the first number has them.
    pub(super) definition: Vec<Value>,
    /// Its category: marketing if it is for any of their accounts.
    pub(super) category: TemplateCategory,
}

impl Sender {
    /// Chooses the sender of a broadcast whose creator named these numbers.
    ///
    /// Its parameters must fit the template of one account. If they do not fit that of another, its
    /// numbers take no part.
    ///
    /// # Errors
    /// [`CreateBroadcastError`]: a number is not known, or none has the template.
    pub(super) fn of(
        context: &Context<'_>,
        row: &Template,
        names: &[Box<str>],
        parameters: &Samples,
    ) -> Result<Self, CreateBroadcastError> {
        let pool = &context.core.pool;
        let from = named_numbers(context, row, names)?;
        let candidates = candidates(context, &from);
        match choose(context, row, &candidates, (parameters, None)) {
            Ok(ChosenNumbers { numbers, definition, category }) => {
                Ok(Self { from, numbers, definition, category })
            }
            Err(Some(misfit)) => Err(UseTemplateError::Parameters(misfit).into()),
            Err(None) => {
                row.check_approved()?;
                parameters.filled(&row.components).map_err(UseTemplateError::Parameters)?;
                Err(match from.is_empty() && pool.first().is_none() {
                    true => CreateBroadcastError::NotConnected,
                    false => row.refusal(pool).into(),
                })
            }
        }
    }
}

/// Chooses the numbers that can send the template and make the same messages of the parameters.
///
/// The messages are those of `known`, the template of which they were made before, or else those of
/// the first number whose template fits.
///
/// # Errors
/// No number can send it; the [`Misfit`] if the reason is that the parameters fit no template.
fn choose(
    context: &Context<'_>,
    row: &Template,
    candidates: &[NumberId],
    (parameters, known): (&Samples, Option<&[Value]>),
) -> Result<ChosenNumbers, Option<Misfit>> {
    let (mut fitting, mut misfit) = (Vec::new(), None);
    for number in candidates {
        let Some(template) = sendable(context, row, *number) else { continue };
        match parameters.filled(&template.components) {
            Ok(filled) => fitting.push((*number, template, filled)),
            Err(error) => misfit = misfit.or(Some(error)),
        }
    }
    let before = known.and_then(|known| Some((known, parameters.filled(known).ok()?)));
    let before = before.filter(|(_, before)| fitting.iter().any(|(.., it)| it == before));
    let Some((_, first, filled)) = fitting.first() else { return Err(misfit) };
    let (definition, wanted) = match &before {
        Some((known, filled)) => (known.to_vec(), filled.clone()),
        None => (first.components.clone(), filled.clone()),
    };
    let mut category = first.category;
    fitting.retain(|(.., filled)| *filled == wanted);
    for (_, template, _) in &fitting {
        if category != TemplateCategory::Marketing {
            category = template.category;
        }
    }
    let numbers = fitting.iter().map(|(number, ..)| *number).collect();
    Ok(ChosenNumbers { numbers, definition, category })
}

/// Returns the template as the account of a number has it, if the number can send it.
fn sendable<'a>(
    context: &Context<'_>,
    row: &'a Template,
    number: NumberId,
) -> Option<Cow<'a, Template>> {
    let pool = &context.core.pool;
    row.can_leave(pool, number).then(|| row.for_number(pool, number).ok()).flatten()
}

/// The reason why an existing broadcast cannot be sent from any number.
pub(super) enum NoSender {
    /// No number can send its template.
    Template,
    /// Its parameters do not fit the template any more, and no number has it at another price.
    Parameters(Misfit),
    /// The numbers that can send it have another price, as far as is known.
    Price,
}

/// Chooses the numbers again that can send a broadcast now, as for a new one.
///
/// It keeps its price: a number whose account has the template in a category of another price takes
/// no part. The exceptions are numbers that took part before, and the lack of any other account.
pub(super) fn choose_again(
    context: &Context<'_>,
    record: &Record,
    row: &Template,
) -> Result<Record, NoSender> {
    choose_among(context, record, row, candidates(context, &record.from))
}

/// Chooses the numbers again, from these only.
fn choose_among(
    context: &Context<'_>,
    record: &Record,
    row: &Template,
    mut candidates: Vec<NumberId>,
) -> Result<Record, NoSender> {
    let all = candidates.len();
    candidates.retain(|number| has_its_price(context, record, row, *number));
    let known = Some(&*record.definition);
    let parameters = Samples::of(&record.components, known.filter(|_| record.personal));
    match choose(context, row, &candidates, (&parameters, known)) {
        Ok(ChosenNumbers { numbers, definition, .. }) => {
            let record = Record { definition, ..record.clone() };
            record.sent_from(numbers).ok_or(NoSender::Template)
        }
        Err(_) if candidates.len() < all => Err(NoSender::Price),
        Err(Some(misfit)) => Err(NoSender::Parameters(misfit)),
        Err(None) => Err(NoSender::Template),
    }
}

fn has_its_price(context: &Context<'_>, record: &Record, row: &Template, number: NumberId) -> bool {
    let pool = &context.core.pool;
    if pool.is_of_one_account() || record.numbers().any(|own| own == number) {
        return true;
    }
    let template = sendable(context, row, number);
    template.is_none_or(|template| {
        template.category == record.category || record.category == TemplateCategory::Marketing
    })
}

/// Returns the numbers with these ids or phones, each once.
fn named_numbers(
    context: &Context<'_>,
    row: &Template,
    names: &[Box<str>],
) -> Result<Vec<NumberId>, CreateBroadcastError> {
    let mut numbers = Vec::with_capacity(names.len());
    for name in names {
        let unknown = || CreateBroadcastError::UnknownNumber(name.clone());
        let number = sticky_sender::named(context, name).ok_or_else(unknown)?;
        row.for_number(&context.core.pool, number)?;
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    Ok(numbers)
}

/// Returns the candidates for a broadcast whose creator named these numbers.
///
/// They are those that are still connected, or those of the pool if none was named.
pub(super) fn candidates(context: &Context<'_>, from: &[NumberId]) -> Vec<NumberId> {
    if from.is_empty() {
        return context.core.pool.numbers().collect();
    }
    from.iter().copied().filter(|number| context.number(*number).is_some()).collect()
}

/// Reads the candidate templates for recipients' variables.
///
/// They are those of the numbers from which the broadcast may be sent, each once.
struct Definitions {
    name: Box<str>,
    language: Box<str>,
    from: Vec<Box<str>>,
}

impl Command for Definitions {
    type Answer = Vec<Vec<Value>>;
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Vec<Vec<Value>>, Unavailable> {
        let Self { name, language, from } = self;
        let Some(row) = find_template(context, &name, &language)? else { return Ok(Vec::new()) };
        let from: Vec<_> =
            from.iter().filter_map(|name| sticky_sender::named(context, name)).collect();
        let mut found: Vec<Vec<Value>> = Vec::new();
        for number in candidates(context, &from) {
            let Some(template) = sendable(context, &row, number) else { continue };
            if !found.contains(&template.components) {
                found.push(template.into_owned().components);
            }
        }
        // The reason for a refusal is reported after the variables were checked.
        if found.is_empty() {
            found.push(row.components);
        }
        Ok(found)
    }
}

impl Workspace {
    /// Returns the candidate templates for the variables of recipients; none if they have no
    /// variables.
    pub(super) async fn definitions(
        &self,
        new: &NewBroadcast,
    ) -> Result<Vec<Vec<Value>>, Unavailable> {
        if new.audience.variables.is_none() {
            return Ok(Vec::new());
        }
        let (name, language) = (new.template.clone(), new.language.clone());
        self.perform(Definitions { name, language, from: new.from.clone() }).await
    }
}

/// Returns the first template that fits every recipient's variables.
///
/// `None` if they have none, or there is no template, which the command reports later.
pub(super) fn check_variables(
    definitions: Vec<Vec<Value>>,
    new: &NewBroadcast,
) -> Result<Option<Vec<Value>>, CreateBroadcastError> {
    let Some(all) = &new.audience.variables else { return Ok(None) };
    let mut refusal = None;
    for definition in definitions {
        let (mut misfits, mut more) = (Vec::new(), 0);
        for (place, variables) in all.iter().enumerate() {
            let given = with_variables(&new.components, variables);
            match fill(&definition, &given) {
                Ok(_) => {}
                // Misfits are reported of the first template only.
                Err(_) if refusal.is_some() => {
                    more += 1;
                    break;
                }
                Err(misfit) if misfits.len() < MISFITS_MAX => {
                    // An audience consists of phones only.
                    let phone = Phone::from_digits(new.audience.phones[place]).ok();
                    misfits.extend(phone.map(|phone| (place, phone, misfit)));
                }
                Err(_) => more += 1,
            }
        }
        if misfits.is_empty() && more == 0 {
            return Ok(Some(definition));
        }
        refusal = refusal.or(Some(CreateBroadcastError::Variables { misfits, more }));
    }
    refusal.map_or(Ok(None), Err)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body(text: &str) -> Vec<Value> {
        vec![json!({"type": "BODY", "text": text})]
    }

    fn given(texts: &[&str]) -> Vec<Value> {
        let texts = texts.iter().map(|text| json!({"type": "text", "text": text}));
        vec![json!({"type": "body", "parameters": texts.collect::<Vec<_>>()})]
    }

    #[test]
    fn templates_are_sent_alike_whatever_their_words_are() {
        let one = body("Hi {{1}}");
        for samples in [Samples::of(&given(&["Ada"]), None), Samples::of(&[], Some(&one))] {
            let filled = samples.filled(&one).unwrap();
            assert_eq!(samples.filled(&body("Hello {{1}}, you")).as_ref(), Ok(&filled));
            assert!(samples.filled(&body("Hello")).is_err());
            assert!(samples.filled(&body("Hello {{1}} {{2}}")).is_err());
            let named = samples.filled(&body("Hello {{name}}")).unwrap();
            assert_ne!(named, filled, "the channel wants the name");
        }
    }

    #[test]
    fn recipients_without_variables_have_what_all_have() {
        let one = body("Hi {{1}}");
        let samples = Samples::of(&given(&["you"]), Some(&one));
        assert_eq!(samples.filled(&one).unwrap().len(), 2);
        assert_eq!(Samples::of(&[], Some(&one)).filled(&one).unwrap().len(), 1);
        let none = body("Hi");
        assert_eq!(Samples::of(&[], Some(&none)).filled(&none).unwrap(), ["[]"]);
    }
}
