//! The provider's reports on a broadcast's messages.

use postrider_broadcast::audience::Segment;
use postrider_broadcast::control::{TemplateRefusal, Verdict, verdict};
use postrider_broadcast::daily_counts::DayCounts;
use postrider_broadcast::outcomes::{Failed, Mark, Report, Reports, Window};
use postrider_broadcast::provider_ids;
use postrider_broadcast::record::{
    BroadcastStatus, Record, SEGMENT, WINDOW, message_id, window_key,
};
use postrider_channel::callback::{Progress, StatusUpdate};
use postrider_channel::{Failure, FailureClass, TemplateName};
use postrider_domain::event::message::MessageData;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{BroadcastId, EventData, NumberId, Phone, Timestamp};
use postrider_store::Table;

use crate::analytics;
use crate::broadcasts::control::{fail, save_change};
use crate::broadcasts::view::credits_after;
use crate::broadcasts::{committed, control, find};
use crate::core::command::Context;
use crate::core::credits;
use crate::core::view::unreadable;
use crate::suppressions::stopped_marketing;
use crate::templates::{Template, find_template};

/// The effect of the first report of a failure, besides the committed changes.
#[derive(Debug, Default)]
pub(crate) struct NewFailure {
    /// Set if the report is the first one of the message's failure.
    pub(crate) is_new: bool,
    /// The broadcast's record, if the failure has paused or ended it, or a number has left it.
    pub(crate) changed: Option<Record>,
}

/// Applies a report on the message to one recipient, which left through `number`.
///
/// The recipient's phone is given if the channel knows it. A report of an unknown broadcast changes
/// nothing. All fallible reads come before any write: after a partial write, the repeated report
/// would count as already applied.
///
/// # Errors
/// [`Unavailable`]: the store cannot be read.
pub(crate) fn report(
    context: &mut Context<'_>,
    id: BroadcastId,
    (index, number): (u32, NumberId),
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
    let counts = committed::counts_after_report(context, &record, mark, (before, report))?;
    let refusal = failure.and_then(|it| TemplateRefusal::of(it, number, record.personal));
    let refused = refused_template(context, &record, refusal, *at)?;
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
        committed::put_counts(context, &record, &counts);
    }
    context.put(Table::BroadcastReports, key, reports.encode());
    if is_name_new(mark, (before, report)) {
        let name = provider_ids::reported(&context.core.id, id, index, &update.provider_id);
        context.put(Table::BroadcastNames, name.0, name.1);
    }
    let credits = credits_after(context.core.credits, &record, mark, (before, report));
    credits::set(context.core, credits, context.effects);
    emit(context, (&record, index, number), *to, report);
    let changed = failure.and_then(|failure| after_failure(context, record, failure, refused));
    Ok(NewFailure { is_new: failure.is_some(), changed })
}

/// A refusal of the broadcast's template to a number, at a moment.
struct RefusedTemplate {
    refusal: TemplateRefusal,
    /// The template as it is known.
    row: Template,
    /// Set if the known state of the template is newer.
    is_late: bool,
}

/// Returns the effect of a refusal at a moment on the broadcast's template, if that is known.
fn refused_template(
    context: &Context<'_>,
    record: &Record,
    refusal: Option<TemplateRefusal>,
    at: Timestamp,
) -> Result<Option<RefusedTemplate>, Unavailable> {
    let Some(refusal) = refusal else { return Ok(None) };
    let TemplateName { name, language } = &record.template;
    let template = find_template(context, name, language)?;
    // The provider's clock may be behind ours, and its report may be late: a newer state stays.
    let at = at.max(record.id.timestamp());
    let refused = |row: Template| RefusedTemplate { refusal, is_late: row.is_newer_than(at), row };
    Ok(template.map(refused))
}

/// Returns the broadcast if one failure has changed it: it is paused or over, or lost a number.
fn after_failure(
    context: &mut Context<'_>,
    record: Record,
    failure: &Failure,
    refused: Option<RefusedTemplate>,
) -> Option<Record> {
    let instead = refused.and_then(|refused| {
        let RefusedTemplate { refusal, row, is_late } = refused;
        let row = if is_late { row } else { control::with_refused_status(context, row, refusal) };
        control::continued(context, &record, &row, Some(refusal))
    });
    match instead {
        Some(now) => Some(now)
            .filter(|now| now.status != record.status || !now.numbers().eq(record.numbers())),
        None => stop(context, record, failure),
    }
}

/// Pauses or ends a broadcast if one failure is a reason to. Returns the changed record.
fn stop(context: &mut Context<'_>, record: Record, failure: &Failure) -> Option<Record> {
    use BroadcastStatus::{Queued, Sending};
    match (verdict(failure, record.personal)?, record.status) {
        (Verdict::Pause(reason), Queued | Sending) => {
            let (status, reason) = (BroadcastStatus::Paused, Some(reason));
            let record = Record { status, reason, ..record };
            Some(save_change(context, EventData::BroadcastPaused, record))
        }
        (Verdict::Fail(reason), status) if !status.is_over() => Some(fail(context, record, reason)),
        _ => None,
    }
}

/// Returns the phone of the recipient at this place.
///
/// If the channel does not report it, a whole segment of the audience is read for it.
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

/// Returns the fan-out's mark of a message.
fn mark(context: &Context<'_>, window: &[u8], at: usize) -> Result<Option<Mark>, Unavailable> {
    let window = context.get(Table::BroadcastOutcomes, window)?;
    let window = window.map(|bytes| Window::decode(&bytes)).transpose().map_err(unreadable)?;
    Ok(window.and_then(|window| window.mark(at)))
}

/// Returns whether a report is to store the channel's id of the message.
///
/// It is if the message has arrived, so that it can be answered, and the answer with the id is
/// unknown or never came.
fn is_name_new(mark: Option<Mark>, (before, report): (Option<Report>, Report)) -> bool {
    let arrived = |report| matches!(report, Report::Delivered | Report::Read);
    let is_known = matches!(mark, Some(Mark::Sent | Mark::Held | Mark::Failed | Mark::OptedOut));
    arrived(report) && !before.is_some_and(arrived) && !is_known
}

/// Counts the news about a message.
fn count(counts: &mut DayCounts, mark: Option<Mark>, before: Option<Report>, report: Report) {
    let arrived = matches!(report, Report::Delivered | Report::Read);
    counts.delivered += u32::from(arrived && before < Some(Report::Delivered));
    counts.read += u32::from(report == Report::Read);
    counts.failed += u32::from(report == Report::Failed && mark != Some(Mark::Failed));
}

fn emit(
    context: &mut Context<'_>,
    (record, index, number): (&Record, u32, NumberId),
    to: Option<Phone>,
    report: Report,
) {
    let (event, status): (fn(MessageData) -> EventData, _) = match report {
        // Its own answer gave this status.
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
        number_id: Some(number),
        reference,
        metadata,
    };
    context.effects.emit(context.core.now(), event(data));
}
