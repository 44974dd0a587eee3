//! Applies the channel's reports to a template, and emits an event for each change.

use postrider_channel::Failure;
use postrider_channel::callback::{TemplateNews, TemplateUpdate};
use postrider_domain::event::template::{
    TemplateCategoryData, TemplateQualityData, TemplateStatusData,
};
use postrider_domain::template::{TemplateName, TemplateQuality, TemplateStatus};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{EventData, NumberId, Timestamp};

use crate::core::command::Context;

use super::accounts::TemplateOwner;
use super::{ChannelFacts, NewTemplate, Template, find_template, store_template};

/// Applies the channel's report about a template of a number's account.
///
/// Returns whether the templates must be listed to know more: the template is unknown, or its
/// components have changed.
///
/// # Errors
/// [`Unavailable`]: the store cannot be read.
pub(crate) fn apply(
    context: &mut Context<'_>,
    number: NumberId,
    update: &TemplateUpdate,
) -> Result<bool, Unavailable> {
    let TemplateName { name, language } = &update.template;
    let Some(row) = find_template(context, name, language)? else { return Ok(true) };
    let whose = TemplateOwner::of(context, number);
    let Some(template) = row.of_account(whose.borrowed()) else { return Ok(true) };
    let mut changed = template.clone();
    match &update.news {
        TemplateNews::Status { word, reason } => {
            changed.status = TemplateStatus::from_channel(word).unwrap_or(template.status);
            let reason = reason_of(changed.status, reason.as_deref());
            changed.facts.rejected_reason = reason.or(changed.facts.rejected_reason);
        }
        TemplateNews::Category { new, correct } => {
            changed.category = new.unwrap_or(template.category);
            changed.facts.correct_category = correct.filter(|it| *it != changed.category);
        }
        TemplateNews::Quality(quality) => changed.facts.quality = Some(*quality),
        TemplateNews::Components => return Ok(true),
    }
    replace(context, &row, &whose, &template, changed);
    Ok(false)
}

/// Returns the stored reason of a template's rejection: none unless it is rejected.
pub(super) fn reason_of(status: TemplateStatus, word: Option<&str>) -> Option<Box<str>> {
    let word = word.filter(|_| status == TemplateStatus::Rejected)?;
    Some(word.to_ascii_lowercase().into())
}

/// Gives a template of a number's account another status, and emits a change.
pub(crate) fn set_status(
    context: &mut Context<'_>,
    row: Template,
    number: NumberId,
    status: TemplateStatus,
) -> Template {
    let whose = TemplateOwner::of(context, number);
    set_status_of(context, row, &whose, status)
}

/// Does the same for all accounts that have it.
pub(super) fn set_status_of_all(
    context: &mut Context<'_>,
    row: Template,
    status: TemplateStatus,
) -> Template {
    let home = context.core.pool.home().map(Into::into);
    let others = row.others.iter().map(|it| Some(it.account.clone()));
    let all: Vec<_> = [row.account.clone()].into_iter().chain(others).collect();
    all.into_iter().fold(row, |row, account| {
        set_status_of(context, row, &TemplateOwner { account, home: Option::clone(&home) }, status)
    })
}

fn set_status_of(
    context: &mut Context<'_>,
    row: Template,
    whose: &TemplateOwner,
    status: TemplateStatus,
) -> Template {
    let Some(template) = row.of_account(whose.borrowed()) else { return row };
    let changed = Template { status, ..template.clone() };
    replace(context, &row, whose, &template, changed)
}

/// Applies the channel's refusal of a message to the message's template.
///
/// The message was sent through a number at a moment. The report may be late: newer data stays.
///
/// # Errors
/// [`Unavailable`]: the store cannot be read.
pub(crate) fn refused(
    context: &mut Context<'_>,
    (name, number): (&TemplateName, NumberId),
    (failure, at): (&Failure, Timestamp),
) -> Result<(), Unavailable> {
    let Some(status) = failure.template_status() else { return Ok(()) };
    if context.core.pool.account(number).is_none() {
        // The account of the template is unknown.
        return Ok(());
    }
    let template = find_template(context, &name.name, &name.language)?;
    if let Some(template) = template.filter(|it| !it.is_newer_than(at)) {
        set_status(context, template, number, status);
    }
    Ok(())
}

/// Stores a template as the provider of an account lists it, whether or not it exists.
///
/// # Errors
/// [`Unavailable`]: the store cannot be read.
pub(super) fn put_listed(
    context: &mut Context<'_>,
    account: Option<Box<str>>,
    (listed, facts): (NewTemplate, ChannelFacts),
) -> Result<(), Unavailable> {
    let NewTemplate { name, language, category, status, components } = listed;
    let known = find_template(context, &name, &language)?;
    let (updated_at, others) = (context.now(), Vec::new());
    let mut listed = Template {
        name,
        language,
        category,
        status,
        components,
        updated_at,
        facts,
        account: account.clone(),
        others,
    };
    let Some(known) = known else {
        store_template(context, &listed);
        return Ok(());
    };
    let whose = TemplateOwner { account, home: context.core.pool.home().map(Into::into) };
    let row = match whose.account.is_some() && account_left(context, &known) {
        false => known.clone().named(whose.borrowed()),
        true => match known.without_own(whose.account.as_deref()) {
            Some(row) => row,
            // The account has not had it before.
            None => {
                store_template(context, &Template { others: known.others, ..listed });
                return Ok(());
            }
        },
    };
    let Some(before) = row.of_account(whose.borrowed()) else {
        store_template(context, &row.with(whose.borrowed(), listed));
        return Ok(());
    };
    listed.updated_at = before.updated_at;
    // A list without a rating does not remove one.
    listed.facts.quality = listed.facts.quality.or(before.facts.quality);
    // The row names its account from now on, even if nothing else is new.
    let row = row.with(whose.borrowed(), before.clone());
    if row.account != known.account {
        store_template(context, &row);
    }
    replace(context, &row, &whose, &before, listed);
    Ok(())
}

/// Returns whether the account of a row has no number any more.
///
/// In that case the next account that lists the template gets the row.
/// the row.
fn account_left(context: &Context<'_>, row: &Template) -> bool {
    row.account.as_deref().is_some_and(|it| !context.core.pool.has_account(it))
}

/// Replaces the template of an account, and emits the changes. Returns the row.
///
/// An equal one changes nothing.
fn replace(
    context: &mut Context<'_>,
    row: &Template,
    whose: &TemplateOwner,
    before: &Template,
    mut after: Template,
) -> Template {
    if after.status != TemplateStatus::Rejected {
        after.facts.rejected_reason = None;
    }
    if *before == after {
        return row.clone();
    }
    let now = context.now();
    after.updated_at = now;
    for data in changes(before, &after) {
        context.effects.emit(now, data);
    }
    let row = row.with(whose.borrowed(), after);
    store_template(context, &row);
    row
}

fn changes(before: &Template, after: &Template) -> Vec<EventData> {
    let (name, language) = (&after.name, &after.language);
    let account_id = after.account.clone();
    let rated = |it: &Template| it.facts.quality.unwrap_or(TemplateQuality::Unknown);
    let mut events = Vec::new();
    if before.category != after.category {
        events.push(EventData::TemplateCategoryChanged(TemplateCategoryData {
            name: name.clone(),
            language: language.clone(),
            previous: before.category,
            category: after.category,
            account_id: account_id.clone(),
        }));
    }
    if before.status != after.status {
        events.push(EventData::TemplateStatusChanged(TemplateStatusData {
            name: name.clone(),
            language: language.clone(),
            category: after.category,
            status: after.status,
            previous_status: before.status,
            account_id: account_id.clone(),
        }));
    }
    if rated(before) != rated(after) {
        events.push(EventData::TemplateQualityChanged(TemplateQualityData {
            name: name.clone(),
            language: language.clone(),
            previous: rated(before),
            quality: rated(after),
            account_id,
        }));
    }
    events
}
