//! The numbers from which a broadcast is sent: those whose template makes its messages.
//!
//! Their accounts have it approved, and its parameters make the same message of it with each.

use std::borrow::Cow;

use postrider_broadcast::record::Record;
use postrider_domain::NumberId;
use postrider_domain::template::{Misfit, TemplateCategory};
use serde_json::Value;

use crate::broadcasts::create::CreateBroadcastError;
use crate::broadcasts::samples::Samples;
use crate::core::command::Context;
use crate::core::settings::UseTemplateError;
use crate::core::sticky;
use crate::templates::Template;

/// Numbers that send the same messages of a template.
struct Chosen {
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
        let from = named(context, row, names)?;
        let candidates = candidates(context, &from);
        match choose(context, row, &candidates, (parameters, None)) {
            Ok(Chosen { numbers, definition, category }) => {
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
) -> Result<Chosen, Option<Misfit>> {
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
    Ok(Chosen { numbers, definition, category })
}

/// Returns the template as the account of a number has it, if the number can send it.
pub(super) fn sendable<'a>(
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
pub(super) fn chosen_again(
    context: &Context<'_>,
    record: &Record,
    row: &Template,
) -> Result<Record, NoSender> {
    chosen_of(context, record, row, candidates(context, &record.from))
}

/// Chooses the numbers again, from these only.
pub(super) fn chosen_of(
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
        Ok(Chosen { numbers, definition, .. }) => {
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
fn named(
    context: &Context<'_>,
    row: &Template,
    names: &[Box<str>],
) -> Result<Vec<NumberId>, CreateBroadcastError> {
    let mut numbers = Vec::with_capacity(names.len());
    for name in names {
        let unknown = || CreateBroadcastError::UnknownNumber(name.clone());
        let number = sticky::named(context, name).ok_or_else(unknown)?;
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
