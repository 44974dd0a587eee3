//! The course of a broadcast: changed, started, paused, resumed, cancelled, failed, settled.

use std::time::Duration;

use postrider_broadcast::control::{
    Control, ControlError, TEMPLATE_GONE, TEMPLATE_PAUSED, TemplateRefusal,
};
use postrider_broadcast::record::{self, BroadcastStatus, Record};
use postrider_domain::event::broadcast::BroadcastData;
use postrider_domain::template::{TemplateName, TemplateStatus};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{BroadcastId, EventData, NumberId, Timestamp};
use postrider_store::{CommitError, Table};

use crate::broadcasts::sender::NoSender;
use crate::broadcasts::{BroadcastCounts, committed, emit, find, replies, save, sender};
use crate::core::command::{Command, Context, Footprint};
use crate::core::credits;
use crate::core::settings::UseTemplateError;
use crate::handle::Workspace;
use crate::templates::{Template, find_template, known_template, update};

/// The reason why a broadcast was not controlled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BroadcastError {
    /// There is no broadcast of that id.
    #[error("no such broadcast")]
    NotFound,
    /// The status of the broadcast does not allow it.
    #[error("the broadcast is {}", .0.as_str())]
    WrongState(BroadcastStatus),
    /// The start is in the past.
    #[error("the time is in the past")]
    Past,
    /// None of its messages has failed.
    #[error("no message of the broadcast has failed")]
    NothingFailed,
    /// Its template may not be sent now.
    #[error(transparent)]
    Template(UseTemplateError),
    /// No number is connected that could continue it.
    #[error("the workspace has no active messaging number")]
    NotConnected,
    /// It cannot be done now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl From<BroadcastError> for ControlError {
    fn from(error: BroadcastError) -> Self {
        match error {
            BroadcastError::NotFound => Self::NotFound,
            BroadcastError::WrongState(status) => Self::WrongState(status),
            BroadcastError::Unavailable(why) => Self::Unavailable(why),
            refused @ (BroadcastError::NothingFailed
            | BroadcastError::Past
            | BroadcastError::Template(_)
            | BroadcastError::NotConnected) => Self::Refused(refused.to_string().into()),
        }
    }
}

impl From<UseTemplateError> for BroadcastError {
    fn from(error: UseTemplateError) -> Self {
        match error {
            UseTemplateError::Unavailable(why) => Self::Unavailable(why),
            error => Self::Template(error),
        }
    }
}

/// A change of a scheduled broadcast; `None` leaves a field as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BroadcastChange {
    /// Its name, for people.
    pub name: Option<Box<str>>,
    /// The time of its start.
    pub schedule_at: Option<Timestamp>,
}

/// The number of checks whether storage works again, and the time between them.
const SETTLED_TRIES: u32 = 600;
const SETTLED_WAIT: Duration = Duration::from_secs(1);

impl Workspace {
    /// Pauses a broadcast: no more messages are handed over, and the channel keeps the ones it has.
    ///
    /// # Errors
    /// [`BroadcastError`]: there is none, it does not run, or not now.
    pub async fn pause_broadcast(&self, id: BroadcastId) -> Result<(), BroadcastError> {
        self.steer(id, Control::Pause { reason: None, refusal: None }).await
    }

    /// Resumes a paused broadcast.
    ///
    /// # Errors
    /// [`BroadcastError`]: there is none, it is not paused, its template may not be sent, no number
    /// is connected, or not now.
    pub async fn resume_broadcast(&self, id: BroadcastId) -> Result<(), BroadcastError> {
        self.shared.may_send()?;
        self.steer(id, Control::Resume).await
    }

    /// Cancels a broadcast for good.
    ///
    /// # Errors
    /// [`BroadcastError`]: there is none, it is over, or not now.
    pub async fn cancel_broadcast(&self, id: BroadcastId) -> Result<(), BroadcastError> {
        self.steer(id, Control::Cancel).await
    }

    async fn steer(&self, id: BroadcastId, control: Control) -> Result<(), BroadcastError> {
        let workspace = self.clone();
        postrider_runtime::task::detached(async move {
            let done = workspace.control_broadcast(id, control).await;
            match &done {
                Ok(record) => workspace.follow(record),
                // It may be done all the same.
                Err(BroadcastError::Unavailable(_)) => {
                    let workspace = workspace.clone();
                    drop(tokio::spawn(async move {
                        let record = workspace.settled_record(id).await.flatten();
                        record.iter().for_each(|record| workspace.follow(record));
                    }));
                }
                Err(_) => {}
            }
            done.map(drop)
        })
        .await
    }

    /// Changes the status of a broadcast, and returns its record once that is durable.
    ///
    /// # Errors
    /// [`BroadcastError`]: there is none, its status does not allow it, or not now.
    pub async fn control_broadcast(
        &self,
        id: BroadcastId,
        control: Control,
    ) -> Result<Record, BroadcastError> {
        if matches!(control, Control::Finish) {
            return self.finish_broadcast(id).await;
        }
        let max_lateness = self.shared.broadcasts.options.max_lateness;
        self.perform(ControlBroadcast { id, control, max_lateness }).await
    }

    /// Notifies the broadcast's actor of a change.
    pub(crate) fn follow(&self, record: &Record) {
        match record.settled {
            true => self.shared.broadcasts.remove(record.id),
            false => self.shared.broadcasts.wake(record.id),
        }
    }

    /// Returns the broadcast's record once all pending commits are done or have failed.
    ///
    /// The inner `None` means that there is no such broadcast, the outer one that storage does not
    /// come back.
    pub(crate) async fn settled_record(&self, id: BroadcastId) -> Option<Option<Record>> {
        for _ in 0..SETTLED_TRIES {
            match self.shared.writer.barrier().await {
                Ok(()) => return self.broadcast_record(id).ok(),
                Err(CommitError::Closed) => return None,
                Err(_) => tokio::time::sleep(SETTLED_WAIT).await,
            }
        }
        None
    }

    /// Returns the broadcast's committed record.
    pub fn broadcast_record(&self, id: BroadcastId) -> Result<Option<Record>, Unavailable> {
        record::read(self.shared.store.as_ref(), self.id(), id)
            .map_err(crate::core::view::unreadable)
    }

    /// Changes the name or the time of a broadcast that is scheduled.
    ///
    /// # Errors
    /// [`BroadcastError`]: there is none, it is not scheduled any more, the time is in the past, or
    /// not now.
    pub async fn update_broadcast(
        &self,
        id: BroadcastId,
        change: BroadcastChange,
    ) -> Result<(), BroadcastError> {
        let workspace = self.clone();
        postrider_runtime::task::detached(async move {
            let record = workspace.perform(UpdateBroadcast { id, change }).await?;
            if let Some(at) = record.schedule_at {
                // An actor that starts it at the old time finds that it is not due.
                workspace.shared.broadcasts.reschedule(id, at);
            }
            Ok(())
        })
        .await
    }
}

pub(crate) struct ControlBroadcast {
    pub id: BroadcastId,
    pub control: Control,
    pub max_lateness: Duration,
}

impl Command for ControlBroadcast {
    type Answer = Record;
    type Error = BroadcastError;

    const FOOTPRINT: Footprint = Footprint::Ends;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Record, BroadcastError> {
        use BroadcastStatus::{Paused, Queued, Scheduled, Sending};
        let record = find(context, self.id)?.ok_or(BroadcastError::NotFound)?;
        match (self.control, record.status) {
            (Control::Begin { .. }, Scheduled)
                if record.schedule_at.is_some_and(|at| context.now() < at) =>
            {
                Ok(record)
            }
            (Control::Begin { late }, Scheduled | Queued) => {
                let late = record.schedule_at.is_some() && late > self.max_lateness;
                begin(context, record, late)
            }
            // An actor before this one has started it.
            (Control::Begin { .. }, _) => Ok(record),
            (Control::Pause { reason, refusal }, Queued | Sending) => {
                if let Some(refusal) = refusal
                    && let Some(record) = take_refusal(context, &record, Some(refusal))?
                {
                    return Ok(record);
                }
                let record = Record { status: Paused, reason, ..record };
                Ok(save_change(context, EventData::BroadcastPaused, record))
            }
            (Control::Resume, Paused) => {
                let TemplateName { name, language } = &record.template;
                let row = known_template(context, name, language)?;
                let status = if record.started_at.is_some() { Sending } else { Queued };
                let record = match sender::choose_again(context, &record, &row) {
                    Ok(record) => Record { status, reason: None, ..record },
                    Err(NoSender::Parameters(misfit)) => {
                        return Err(UseTemplateError::Parameters(misfit).into());
                    }
                    Err(NoSender::Template | NoSender::Price) => {
                        row.check_approved()?;
                        return Err(BroadcastError::NotConnected);
                    }
                };
                Ok(save_change(context, EventData::BroadcastResumed, record))
            }
            (Control::Cancel, Scheduled) => {
                let record = cancel(context, record);
                // No message of it was claimed, so no outcome needs to be read.
                let (cancelled, total) = (record.sendable, record.total);
                let suppressed = total - cancelled;
                let none = BroadcastCounts::default();
                let counts = BroadcastCounts { cancelled, suppressed, ..none };
                Ok(settle(context, record, &counts))
            }
            (Control::Cancel, Queued | Sending | Paused) => Ok(cancel(context, record)),
            (Control::Fail { reason, refusal }, Scheduled | Queued | Sending | Paused) => {
                if let Some(record) = take_refusal(context, &record, refusal)? {
                    return Ok(record);
                }
                Ok(fail(context, record, reason))
            }
            (_, status) => Err(BroadcastError::WrongState(status)),
        }
    }
}

/// Returns why a broadcast cannot start whose template no number can send.
///
/// It says whether the broadcast pauses, and for what reason.
fn hindrance(
    context: &Context<'_>,
    record: &Record,
    row: Option<&Template>,
    why: NoSender,
) -> (bool, Box<str>) {
    const NO_NUMBER: &str = "the workspace has no active messaging number";
    const UNFIT: &str = "the parameters do not fit the template any more";
    const DEARER: &str = "no account has the template at the broadcast's price";
    let Some(row) = row else { return (false, TEMPLATE_GONE.into()) };
    let pool = &context.core.pool;
    let candidates = sender::candidates(context, &record.from);
    let status = |number: &NumberId| row.status_of((pool.account(*number)?, pool.home()));
    let statuses: Vec<_> = match candidates.is_empty() {
        true => vec![row.status],
        false => candidates.iter().filter_map(status).collect(),
    };
    if let NoSender::Price = why {
        return (true, DEARER.into());
    }
    if statuses.contains(&TemplateStatus::Paused) {
        return (true, TEMPLATE_PAUSED.into());
    }
    if let NoSender::Parameters(misfit) = why {
        return (false, format!("{UNFIT}: {misfit}").into());
    }
    let is_approved = statuses.contains(&TemplateStatus::Approved);
    if is_approved { (true, NO_NUMBER.into()) } else { (false, TEMPLATE_GONE.into()) }
}

/// Starts a broadcast, unless it is too late or the template may not be sent any more.
fn begin(context: &mut Context<'_>, record: Record, late: bool) -> Result<Record, BroadcastError> {
    if late {
        let reason = "its time was missed by too much".into();
        return Ok(fail(context, record, reason));
    }
    let row = find_template(context, &record.template.name, &record.template.language)?;
    let chosen = row.as_ref().ok_or(NoSender::Template);
    let record = match chosen.and_then(|row| sender::choose_again(context, &record, row)) {
        Ok(record) => record,
        Err(why) => {
            let (pauses, reason) = hindrance(context, &record, row.as_ref(), why);
            if !pauses {
                return Ok(fail(context, record, reason));
            }
            let record = Record { status: BroadcastStatus::Paused, reason: Some(reason), ..record };
            return Ok(save_change(context, EventData::BroadcastPaused, record));
        }
    };
    let started_at = Some(context.now());
    let record = Record { status: BroadcastStatus::Sending, started_at, ..record };
    replies::note_start(context, &record);
    Ok(save_change(context, EventData::BroadcastStarted, record))
}

/// Handles that a broadcast is to stop because of its template.
///
/// The reason is the channel's answer to a number, or that none of its numbers has the template
/// approved any more. Returns the broadcast as it is instead; `None` if it stops.
pub(super) fn take_refusal(
    context: &mut Context<'_>,
    record: &Record,
    refusal: Option<TemplateRefusal>,
) -> Result<Option<Record>, Unavailable> {
    let TemplateName { name, language } = &record.template;
    let Some(row) = find_template(context, name, language)? else { return Ok(None) };
    let row = match refusal {
        Some(refusal) => with_refused_status(context, row, refusal),
        None => row,
    };
    Ok(continued(context, record, &row, refusal))
}

/// Returns the template with the status that a refusal gives for the account of the number.
pub(super) fn with_refused_status(
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

pub(super) fn save_change(
    context: &mut Context<'_>,
    event: fn(BroadcastData) -> EventData,
    record: Record,
) -> Record {
    save(context, &record);
    emit(context, event, &record);
    record
}

fn cancel(context: &mut Context<'_>, record: Record) -> Record {
    let finished_at = Some(context.now());
    let status = BroadcastStatus::Cancelled;
    let record = Record { status, finished_at, reason: None, ..record };
    save_change(context, EventData::BroadcastCancelled, record)
}

pub(super) fn fail(context: &mut Context<'_>, record: Record, reason: Box<str>) -> Record {
    let finished_at = Some(context.now());
    let status = BroadcastStatus::Failed;
    let record = Record { status, finished_at, reason: Some(reason), ..record };
    save_change(context, EventData::BroadcastFailed, record)
}

/// Gives back the credits of messages that surely were not sent, once.
pub(super) fn settle(
    context: &mut Context<'_>,
    record: Record,
    counts: &BroadcastCounts,
) -> Record {
    let unspent = u64::from(record.sendable.saturating_sub(counts.paid()));
    let refund = record.price.saturating_mul(unspent);
    credits::refund(context.core, refund, context.effects);
    // For a started one that was sent to nobody, the outcomes show this, and are deleted as well.
    let recipients_dropped = record.status == BroadcastStatus::Cancelled
        && counts.cancelled.saturating_add(counts.suppressed) == record.total;
    if recipients_dropped {
        let mark = record::dropped_key(&context.core.id, context.log_next, record.id);
        context.put(Table::Broadcasts, mark, Vec::new());
    }
    let record = Record { settled: true, recipients_dropped, ..record };
    replies::note_end(context, &record);
    save(context, &record);
    committed::put_counts(context, &record, counts);
    record
}

struct UpdateBroadcast {
    id: BroadcastId,
    change: BroadcastChange,
}

impl Command for UpdateBroadcast {
    type Answer = Record;
    type Error = BroadcastError;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Record, BroadcastError> {
        let Self { id, change: BroadcastChange { name, schedule_at } } = self;
        let record = find(context, id)?.ok_or(BroadcastError::NotFound)?;
        if record.status != BroadcastStatus::Scheduled {
            return Err(BroadcastError::WrongState(record.status));
        }
        if schedule_at.is_some_and(|at| at < context.now()) {
            return Err(BroadcastError::Past);
        }
        let record = Record {
            name: name.unwrap_or(record.name),
            schedule_at: schedule_at.or(record.schedule_at),
            ..record
        };
        save(context, &record);
        Ok(record)
    }
}
