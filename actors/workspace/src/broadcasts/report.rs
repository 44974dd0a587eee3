//! What the provider reports of a broadcast's messages.

use postrider_broadcast::audience::Segment;
use postrider_broadcast::daily_counts::DayCounts;
use postrider_broadcast::outcomes::{Failed, Mark, Window};
use postrider_broadcast::record::{Record, SEGMENT, WINDOW, message_id, window_key};
use postrider_broadcast::reports::{Report, Reports};
use postrider_channel::FailureClass;
use postrider_channel::callback::{Progress, StatusUpdate};
use postrider_domain::event::message::MessageData;
use postrider_domain::{BroadcastId, EventData, Phone};
use postrider_store::Table;

use crate::analytics;
use crate::broadcasts::{counts, find, save};
use crate::core::command::Context;
use crate::core::view::unreadable;
use crate::suppressions::stopped_marketing;
use postrider_domain::unavailable::Unavailable;

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
) -> Result<(), Unavailable> {
    let StatusUpdate { status: progress, to, at, .. } = update;
    let Some(record) = find(context, id)?.filter(|record| index < record.sendable) else {
        return Ok(());
    };
    let (report, failed) = match progress {
        Progress::Sent => (Report::Sent, None),
        Progress::Delivered => (Report::Delivered, None),
        Progress::Read => (Report::Read, None),
        Progress::Failed(failure) => (Report::Failed, Some(Failed::of(failure))),
    };
    let key = window_key(&context.core.id, id, index / WINDOW);
    let stored = context.get(Table::BroadcastReports, &key)?;
    let stored = stored.map(|bytes| Reports::decode(&bytes)).transpose().map_err(unreadable)?;
    let mut reports = stored.unwrap_or_default();
    let place = (index % WINDOW) as usize;
    let before = reports.of(place);
    if !reports.take(place, report, failed) {
        return Ok(());
    }
    let mark = mark(context, &key, place)?;
    let counts = counts::after_report(context, &record, mark, (before, report))?;
    if let Progress::Failed(failure) = progress
        && failure.class == FailureClass::OptedOut
        && let Some(phone) = recipient(context, &record, index, *to)?
    {
        stopped_marketing(context, phone, *at)?;
    }
    if report != Report::Sent {
        analytics::note(context, &record, |counts| count(counts, mark, before, report))?;
    }
    // From here on nothing fails.
    if let Some(counts) = counts {
        counts::put(context, &record, &counts);
    }
    context.put(Table::BroadcastReports, key, reports.encode());
    if report == Report::Failed {
        give_back(context, record, mark);
    }
    tell(context, (id, index), *to, report);
    Ok(())
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

/// Gives back what a message cost that was taken and failed after all.
fn give_back(context: &mut Context<'_>, record: Record, mark: Option<Mark>) {
    if !record.settled {
        let reported_failed = record.reported_failed + 1;
        save(context, &Record { reported_failed, ..record });
        return;
    }
    if matches!(mark, Some(Mark::Sent | Mark::Unknown)) {
        let credits = context.core.credits.saturating_add(record.price);
        context.core.set_credits(credits, context.effects);
    }
}

fn tell(
    context: &mut Context<'_>,
    (id, index): (BroadcastId, u32),
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
    let data = MessageData {
        message_id: message_id(id, index),
        broadcast_id: Some(id),
        to: to.map(|to| to.to_string()),
        r#type: None,
        status,
        template: None,
        error: None,
    };
    context.effects.emit(context.core.now(), event(data));
}
