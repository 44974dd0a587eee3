//! Changes a template as the channel says, and emits an event for each change.

use postrider_channel::Failure;
use postrider_channel::callback::{TemplateNews, TemplateUpdate};
use postrider_domain::event::template::{
    TemplateCategoryData, TemplateQualityData, TemplateStatusData,
};
use postrider_domain::template::{TemplateName, TemplateQuality, TemplateStatus};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{EventData, NumberId, Timestamp};

use crate::core::command::Context;

use super::accounts::Whose;
use super::{ChannelFacts, NewTemplate, Template, find_template, save};

/// Takes what the channel says of a template of a number's account. Returns whether the templates
/// must be listed to know more: the template is not known, or is made of something else now.
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
    let whose = Whose::of(context, number);
    let Some(template) = row.of_account(whose.account()) else { return Ok(true) };
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

/// What is kept of why a channel has rejected a template: nothing unless it has.
pub(super) fn reason_of(status: TemplateStatus, word: Option<&str>) -> Option<Box<str>> {
    let word = word.filter(|_| status == TemplateStatus::Rejected)?;
    Some(word.to_ascii_lowercase().into())
}

/// Gives a template of a number's account another status, and emits that if it is another.
pub(crate) fn set_status(
    context: &mut Context<'_>,
    row: Template,
    number: NumberId,
    status: TemplateStatus,
) -> Template {
    let whose = Whose::of(context, number);
    set_status_of(context, row, &whose, status)
}

/// The same with all accounts that have it.
pub(super) fn set_status_of_all(
    context: &mut Context<'_>,
    row: Template,
    status: TemplateStatus,
) -> Template {
    let home = context.core.pool.home().map(Into::into);
    let others = row.others.iter().map(|it| Some(it.account.clone()));
    let all: Vec<_> = [row.account.clone()].into_iter().chain(others).collect();
    all.into_iter().fold(row, |row, account| {
        set_status_of(context, row, &Whose { account, home: Option::clone(&home) }, status)
    })
}

fn set_status_of(
    context: &mut Context<'_>,
    row: Template,
    whose: &Whose,
    status: TemplateStatus,
) -> Template {
    let Some(template) = row.of_account(whose.account()) else { return row };
    let changed = Template { status, ..template.clone() };
    replace(context, &row, whose, &template, changed)
}

/// Takes what the channel's refusal of a message through a number, at a moment, says of the
/// message's template. Its report may be late: what is newer stays.
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
        // Nobody knows whose template it was.
        return Ok(());
    }
    let template = find_template(context, &name.name, &name.language)?;
    if let Some(template) = template.filter(|it| !it.is_newer_than(at)) {
        set_status(context, template, number, status);
    }
    Ok(())
}

/// Takes a template as the provider of an account lists it, whether or not it is there.
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
        save(context, &listed);
        return Ok(());
    };
    let whose = Whose { account, home: context.core.pool.home().map(Into::into) };
    let row = match whose.account.is_some() && account_left(context, &known) {
        false => known.clone().named(whose.account()),
        true => match known.without_own(whose.account.as_deref()) {
            Some(row) => row,
            // The account has not had it before.
            None => {
                save(context, &Template { others: known.others, ..listed });
                return Ok(());
            }
        },
    };
    let Some(before) = row.of_account(whose.account()) else {
        save(context, &row.with(whose.account(), listed));
        return Ok(());
    };
    listed.updated_at = before.updated_at;
    // A list that does not rate it takes back nothing.
    listed.facts.quality = listed.facts.quality.or(before.facts.quality);
    // It says from now on whose it is, even if nothing else is new.
    let row = row.with(whose.account(), before.clone());
    if row.account != known.account {
        save(context, &row);
    }
    replace(context, &row, &whose, &before, listed);
    Ok(())
}

/// Whether the account whose a row is has no number any more: the next that lists the template has
/// the row.
fn account_left(context: &Context<'_>, row: &Template) -> bool {
    row.account.as_deref().is_some_and(|it| !context.core.pool.has_account(it))
}

/// Puts a template of an account in the place of what it was, and emits what has changed. One that
/// is the same changes nothing. Gives the row.
fn replace(
    context: &mut Context<'_>,
    row: &Template,
    whose: &Whose,
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
    let row = row.with(whose.account(), after);
    save(context, &row);
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
