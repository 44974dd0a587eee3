//! What the provider reports of a broadcast's messages.

use postrider_broadcast::audience::Segment;
use postrider_broadcast::daily_counts::DayCounts;
use postrider_broadcast::failure_policy::{Verdict, verdict};
use postrider_broadcast::outcomes::{Failed, Mark, Window};
use postrider_broadcast::record::{
    BroadcastStatus, Record, SEGMENT, WINDOW, message_id, window_key,
};
use postrider_broadcast::reports::{Report, Reports};
use postrider_channel::callback::{Progress, StatusUpdate};
use postrider_channel::{Failure, FailureClass, TemplateName};
use postrider_domain::event::message::MessageData;
use postrider_domain::template::TemplateStatus;
use postrider_domain::{BroadcastId, EventData, Phone};
use postrider_store::Table;

use crate::analytics;
use crate::broadcasts::control::{changed, failed};
use crate::broadcasts::payment::credits_after;
use crate::broadcasts::{counts, find};
use crate::core::command::Context;
use crate::core::view::unreadable;
use crate::suppressions::stopped_marketing;
use crate::templates;
use postrider_domain::unavailable::Unavailable;

/// What the first report of a failure brings about, besides what is committed with it.
#[derive(Debug, Default)]
pub(crate) struct NewFailure {
    /// Whether the report is the first one of the message's failure.
    pub(crate) is_new: bool,
    /// The broadcast's record, if the failure has paused or ended it.
    pub(crate) stopped: Option<Record>,
}

/// Takes a report on the message to one recipient, whose phone is told where the channel knows it;
/// one of a broadcast that nobody knows changes nothing. What can fail is read before anything is
/// written, as a report that comes again would find itself taken.
///
/// # Errors
/// [`Unavailable`]: the store cannot be read.
pub(crate) fn report(
    context: &mut Context<'_>,
    id: BroadcastId,
    index: u32,
    update: &StatusUpdate,
) -> Result<NewFailure, Unavailable> {
    let StatusUpdate { status: progress, to, at, .. } = update;
    let Some(record) = find(context, id)?.filter(|record| index < record.sendable) else {
        return Ok(NewFailure::default());
    };
    let (report, failure) = match progress {
        Progress::Sent => (Report::Sent, None),
        Progress::Delivered => (Report::Delivered, None),
        Progress::Read => (Report::Read, None),
        Progress::Failed(failure) => (Report::Failed, Some(failure)),
    };
    let key = window_key(&context.core.id, id, index / WINDOW);
    let stored = context.get(Table::BroadcastReports, &key)?;
    let stored = stored.map(|bytes| Reports::decode(&bytes)).transpose().map_err(unreadable)?;
    let mut reports = stored.unwrap_or_default();
    let place = (index % WINDOW) as usize;
    let before = reports.of(place);
    if !reports.take(place, report, failure.map(Failed::of)) {
        return Ok(NewFailure::default());
    }
    let mark = mark(context, &key, place)?;
    let counts = counts::after_report(context, &record, mark, (before, report))?;
    let template = failure.map(|it| template_status(context, &record, it)).transpose()?.flatten();
    if let Some(failure) = failure
        && failure.class == FailureClass::OptedOut
        && let Some(phone) = recipient(context, &record, index, *to)?
    {
        stopped_marketing(context, &phone.into(), *at)?;
    }
    if report != Report::Sent {
        analytics::note(context, &record, |counts| count(counts, mark, before, report))?;
    }
    // From here on nothing fails.
    if let Some(counts) = counts {
        counts::put(context, &record, &counts);
    }
    context.put(Table::BroadcastReports, key, reports.encode());
    let credits = credits_after(context.core.credits, &record, mark, (before, report));
    if credits != context.core.credits {
        context.core.set_credits(credits, context.effects);
    }
    emit(context, (&record, index), *to, report);
    if let Some((template, status)) = template {
        templates::update::set_status(context, template, status);
    }
    let stopped = failure.and_then(|failure| stop(context, record, failure));
    Ok(NewFailure { is_new: failure.is_some(), stopped })
}

/// The status that the failure says the broadcast's template has, with the template.
fn template_status(
    context: &Context<'_>,
    record: &Record,
    failure: &Failure,
) -> Result<Option<(templates::Template, TemplateStatus)>, Unavailable> {
    let status = match failure.class {
        FailureClass::TemplatePaused => TemplateStatus::Paused,
        FailureClass::TemplateDisabled => TemplateStatus::Disabled,
        _ => return Ok(None),
    };
    let TemplateName { name, language } = &record.template;
    let template = templates::find_template(context, name, language)?;
    Ok(template.map(|template| (template, status)))
}

/// Pauses or ends a broadcast where one failure is a reason to. Returns what it is then.
fn stop(context: &mut Context<'_>, record: Record, failure: &Failure) -> Option<Record> {
    use BroadcastStatus::{Queued, Sending};
    match (verdict(failure)?, record.status) {
        (Verdict::Pause(reason), Queued | Sending) => {
            let (status, reason) = (BroadcastStatus::Paused, Some(reason));
            let record = Record { status, reason, ..record };
            Some(changed(context, EventData::BroadcastPaused, record))
        }
        (Verdict::Fail(reason), status) if !status.is_over() => {
            Some(failed(context, record, reason))
        }
        _ => None,
    }
}

/// The phone of the recipient at this place. Only where the channel does not tell it, a whole
/// segment of the audience is read for it.
fn recipient(
    context: &Context<'_>,
    record: &Record,
    index: u32,
    to: Option<Phone>,
) -> Result<Option<Phone>, Unavailable> {
    if to.is_some() {
        return Ok(to);
    }
    let (workspace, number) = (&context.core.id, index / SEGMENT);
    let segment = Segment::read(context.store(), workspace, record.id, number, false);
    Ok(segment.map_err(unreadable)?.recipient(index).map(|(phone, _)| phone))
}

/// What the fan-out has noted of a message.
fn mark(context: &Context<'_>, window: &[u8], at: usize) -> Result<Option<Mark>, Unavailable> {
    let window = context.get(Table::BroadcastOutcomes, window)?;
    let window = window.map(|bytes| Window::decode(&bytes)).transpose().map_err(unreadable)?;
    Ok(window.and_then(|window| window.mark(at)))
}

/// Counts what is new about a message.
fn count(counts: &mut DayCounts, mark: Option<Mark>, before: Option<Report>, report: Report) {
    let arrived = matches!(report, Report::Delivered | Report::Read);
    counts.delivered += u32::from(arrived && before < Some(Report::Delivered));
    counts.read += u32::from(report == Report::Read);
    counts.failed += u32::from(report == Report::Failed && mark != Some(Mark::Failed));
}

fn emit(
    context: &mut Context<'_>,
    (record, index): (&Record, u32),
    to: Option<Phone>,
    report: Report,
) {
    let (event, status): (fn(MessageData) -> EventData, _) = match report {
        // Its own answer said so.
        Report::Sent => return,
        Report::Delivered => (EventData::MessageDelivered, "delivered"),
        Report::Read => (EventData::MessageRead, "read"),
        Report::Failed => (EventData::MessageFailed, "failed"),
    };
    let (reference, metadata) = record.notes.shown();
    let data = MessageData {
        message_id: message_id(record.id, index),
        broadcast_id: Some(record.id),
        to: to.map(|to| to.to_string()),
        recipient: None,
        r#type: None,
        status,
        template: None,
        error: None,
        number_id: None,
        reference,
        metadata,
    };
    context.effects.emit(context.core.now(), event(data));
}
