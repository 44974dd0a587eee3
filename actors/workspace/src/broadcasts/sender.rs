//! Which numbers a broadcast is sent from.

use postrider_domain::NumberId;

use crate::broadcasts::create::CreateBroadcastError;
use crate::core::command::Context;
use crate::core::settings::UseTemplateError;
use crate::core::sticky;

/// The numbers that are called so, each once.
pub(super) fn named(
    context: &Context<'_>,
    names: &[Box<str>],
) -> Result<Vec<NumberId>, CreateBroadcastError> {
    let mut numbers = Vec::with_capacity(names.len());
    for name in names {
        let unknown = || CreateBroadcastError::UnknownNumber(name.clone());
        let number = sticky::named(context, name).ok_or_else(unknown)?;
        if !context.core.pool.has_templates(number) {
            return Err(UseTemplateError::NoSuchTemplate.into());
        }
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    Ok(numbers)
}

/// The numbers of a broadcast whose maker named these: those of them that are still connected, or
/// where none was named those of the pool.
pub(super) fn numbers(context: &Context<'_>, from: &[NumberId]) -> Vec<NumberId> {
    if from.is_empty() {
        return context.core.pool.with_templates().collect();
    }
    from.iter().copied().filter(|number| context.number(*number).is_some()).collect()
}
