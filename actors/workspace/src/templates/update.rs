//! Changes a template as the channel says, and emits an event for each change.

use postrider_channel::callback::{TemplateNews, TemplateUpdate};
use postrider_domain::EventData;
use postrider_domain::event::template::{
    TemplateCategoryData, TemplateQualityData, TemplateStatusData,
};
use postrider_domain::template::{TemplateName, TemplateQuality, TemplateStatus};
use postrider_domain::unavailable::Unavailable;

use crate::core::command::Context;

use super::{ChannelFacts, NewTemplate, Template, find_template, save};

/// Takes what the channel says of a template. Returns whether the templates must be listed to know
/// more: the template is not known, or is made of something else now.
///
/// # Errors
/// [`Unavailable`]: the store cannot be read.
pub(crate) fn apply(
    context: &mut Context<'_>,
    update: &TemplateUpdate,
) -> Result<bool, Unavailable> {
    let TemplateName { name, language } = &update.template;
    let Some(template) = find_template(context, name, language)? else { return Ok(true) };
    let mut changed = template.clone();
    match &update.news {
        TemplateNews::Status(word) => {
            changed.status = TemplateStatus::from_channel(word).unwrap_or(template.status);
        }
        TemplateNews::Category { new, correct } => {
            changed.category = new.unwrap_or(template.category);
            changed.facts.correct_category = correct.filter(|it| *it != changed.category);
        }
        TemplateNews::Quality(quality) => changed.facts.quality = Some(*quality),
        TemplateNews::Components => return Ok(true),
    }
    replace(context, &template, changed);
    Ok(false)
}

/// Gives a template another status, and tells of it if it is another.
pub(crate) fn set_status(
    context: &mut Context<'_>,
    template: Template,
    status: TemplateStatus,
) -> Template {
    let changed = Template { status, ..template.clone() };
    replace(context, &template, changed)
}

/// Takes a template as the provider lists it, whether or not it is there.
///
/// # Errors
/// [`Unavailable`]: the store cannot be read.
pub(super) fn put_listed(
    context: &mut Context<'_>,
    (listed, facts): (NewTemplate, ChannelFacts),
) -> Result<(), Unavailable> {
    let NewTemplate { name, language, category, status, components } = listed;
    let known = find_template(context, &name, &language)?;
    let updated_at = known.as_ref().map_or_else(|| context.now(), |known| known.updated_at);
    let mut listed = Template { name, language, category, status, components, updated_at, facts };
    // A list that does not rate it takes back nothing.
    let rated = known.as_ref().and_then(|known| known.facts.quality);
    listed.facts.quality = listed.facts.quality.or(rated);
    match known {
        Some(known) => drop(replace(context, &known, listed)),
        None => save(context, &listed),
    }
    Ok(())
}

/// Puts a template in the place of what it was, and tells what has changed. One that is the same
/// changes nothing.
fn replace(context: &mut Context<'_>, before: &Template, mut after: Template) -> Template {
    if *before == after {
        return after;
    }
    let now = context.now();
    after.updated_at = now;
    save(context, &after);
    for data in changes(before, &after) {
        context.effects.emit(now, data);
    }
    after
}

fn changes(before: &Template, after: &Template) -> Vec<EventData> {
    let (name, language) = (&after.name, &after.language);
    let rated = |it: &Template| it.facts.quality.unwrap_or(TemplateQuality::Unknown);
    let mut told = Vec::new();
    if before.category != after.category {
        told.push(EventData::TemplateCategoryChanged(TemplateCategoryData {
            name: name.clone(),
            language: language.clone(),
            previous: before.category,
            category: after.category,
        }));
    }
    if before.status != after.status {
        told.push(EventData::TemplateStatusChanged(TemplateStatusData {
            name: name.clone(),
            language: language.clone(),
            category: after.category,
            status: after.status,
            previous_status: before.status,
        }));
    }
    if rated(before) != rated(after) {
        told.push(EventData::TemplateQualityChanged(TemplateQualityData {
            name: name.clone(),
            language: language.clone(),
            previous: rated(before),
            quality: rated(after),
        }));
    }
    told
}
