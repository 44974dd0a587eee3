//! The handling of a broadcast whose template is refused to some of its numbers.

use postrider_broadcast::control::TemplateRefusal;
use postrider_broadcast::record::Record;
use postrider_domain::NumberId;
use postrider_domain::template::{TemplateName, TemplateStatus};
use postrider_domain::unavailable::Unavailable;

use crate::broadcasts::save;
use crate::core::command::Context;
use crate::templates::{Template, find_template, update};

/// Handles that a broadcast is to stop because of its template.
///
/// The reason is the channel's answer to a number, or that none of its numbers has the template
/// approved any more. Returns the broadcast as it is instead; `None` if it stops.
pub(super) fn take(
    context: &mut Context<'_>,
    record: &Record,
    refusal: Option<TemplateRefusal>,
) -> Result<Option<Record>, Unavailable> {
    let TemplateName { name, language } = &record.template;
    let Some(row) = find_template(context, name, language)? else { return Ok(None) };
    let row = match refusal {
        Some(refusal) => take_status(context, row, refusal),
        None => row,
    };
    Ok(continued(context, record, &row, refusal))
}

/// Returns the template with the status that a refusal gives for the account of the number.
pub(super) fn take_status(
    context: &mut Context<'_>,
    row: Template,
    TemplateRefusal { number, status }: TemplateRefusal,
) -> Template {
    // Nobody knows whose template a disconnected number used.
    let is_known = context.core.pool.account(number).is_some();
    match status.filter(|_| is_known) {
        Some(status) => update::set_status(context, row, number, status),
        None => row,
    }
}

/// Returns a broadcast that continues instead of stopping; `None` if it stops.
///
/// It goes on with those of its numbers that can send, or can when their account's template is no
/// longer paused. If the refusal gives the template's status with the account, the account's
/// numbers wait until it is approved again. Any other refusal would come again, so those numbers
/// leave the broadcast until it is resumed.
pub(super) fn continued(
    context: &mut Context<'_>,
    record: &Record,
    row: &Template,
    refusal: Option<TemplateRefusal>,
) -> Option<Record> {
    let pool = &context.core.pool;
    let account = refusal.and_then(|it| pool.account(it.number));
    let is_other = |other: &NumberId| {
        refusal.is_none_or(|it| *other != it.number)
            && account.is_none_or(|it| pool.account(*other) != Some(it))
    };
    let others: Vec<_> = record.numbers().filter(is_other).collect();
    let is_paused = |number: &NumberId| {
        let status = |account| row.status_of((account, pool.home()));
        pool.account(*number).and_then(status) == Some(TemplateStatus::Paused)
    };
    let may_send = |number: &NumberId| row.can_leave(pool, *number) || is_paused(number);
    if !others.iter().any(may_send) {
        return None;
    }
    let stays = refusal.is_none_or(|it| it.status.is_some()) || record.status.is_over();
    if stays || others.len() == record.numbers().count() {
        return Some(record.clone());
    }
    let record = record.clone().sent_from(others)?;
    tracing::warn!(broadcast = %record.id, "an account refuses a broadcast's template");
    save(context, &record);
    Some(record)
}
