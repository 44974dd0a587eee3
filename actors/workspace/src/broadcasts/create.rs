//! Creates broadcasts: the audience is written first, in parts, and the record last.
//!
//! So a broadcast exists wholly or not at all.

use postrider_broadcast::audience::ByPhone;
use postrider_broadcast::record::{BroadcastStatus, Record, draft_key};
use postrider_broadcast::recover::draft_changes;
use postrider_broadcast::{Audience, BroadcastPolicy};
use postrider_domain::template::{Misfit, TemplateCategory, TemplateName};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{BroadcastId, EventData, Phone, SenderNotes, Timestamp};
use postrider_runtime::random;
use postrider_runtime::task::detached;
use postrider_store::{Change, Table};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::broadcasts::sender::{Samples, Sender, check_variables};
use crate::broadcasts::{emit, find, save};
use crate::core::command::{Command, Context, Footprint};
use crate::core::settings::UseTemplateError;
use crate::core::{credits, quota};
use crate::handle::Workspace;
use crate::idempotency::{IdempotencyKey, Idempotent, IdempotentError, Replayable};
use crate::suppressions::excluded_from_broadcasts;
use crate::templates::known_template;

/// The number of segments that are written in one commit.
const SEGMENTS_AT_ONCE: usize = 16;
/// The number of chunks of recipients by phone that are written in one commit.
const CHUNKS_AT_ONCE: usize = 64;

/// A broadcast to be created.
#[derive(Debug, Clone)]
pub struct NewBroadcast {
    /// Its name, for people.
    pub name: Box<str>,
    /// The template's name.
    pub template: Box<str>,
    /// The template's language.
    pub language: Box<str>,
    /// The parameters of all messages: the channel's `components` of a message.
    pub components: Vec<Value>,
    /// The recipients.
    pub audience: Audience,
    /// The time of its start; `None` is at once.
    pub schedule_at: Option<Timestamp>,
    /// The policy for messages whose outcome was lost in a crash.
    pub policy: BroadcastPolicy,
    /// The sender's notes.
    pub notes: SenderNotes,
    /// The numbers from which it is sent, by their ids or phones; without any, those of the pool.
    pub from: Vec<Box<str>>,
}

/// A broadcast was created: it is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BroadcastMade {
    /// The id of the broadcast in every later call.
    pub broadcast_id: BroadcastId,
    /// Scheduled or queued.
    pub status: BroadcastStatus,
    /// The number of recipients, each once, including those that have opted out.
    pub total_recipients: u32,
}

/// The reason why a broadcast was not created. No part of it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateBroadcastError {
    /// The broadcast has no recipients.
    #[error("a broadcast needs a recipient")]
    NoRecipients,
    /// The broadcast has too many recipients.
    #[error("a broadcast may have at most {0} recipients")]
    TooManyRecipients(usize),
    /// The start is in the past.
    #[error("the time is in the past")]
    Past,
    /// The variables of recipients do not fit the template.
    #[error("the variables of {} recipients do not fit the template", misfits.len() + more)]
    Variables {
        /// The first misfits: the position of the recipient from 0, its phone, and the reason.
        misfits: Vec<(usize, Phone, Misfit)>,
        /// The number of further misfits.
        more: usize,
    },
    /// The broadcast was retried before, by this one.
    #[error("the broadcast was retried before, by {0}")]
    Retried(BroadcastId),
    /// The template cannot be sent.
    #[error(transparent)]
    Template(UseTemplateError),
    /// It is to be sent from a number that the workspace does not have.
    #[error("the workspace has no such number: {0}")]
    UnknownNumber(Box<str>),
    /// No number is connected.
    #[error("the workspace has no active messaging number")]
    NotConnected,
    /// The balance is too small.
    #[error("not enough credits: {needed} needed, {available} available")]
    InsufficientCredits {
        /// The cost.
        needed: u64,
        /// The balance.
        available: u64,
    },
    /// The broadcast cannot be created now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl From<UseTemplateError> for CreateBroadcastError {
    fn from(error: UseTemplateError) -> Self {
        match error {
            UseTemplateError::Unavailable(why) => Self::Unavailable(why),
            error => Self::Template(error),
        }
    }
}

impl Workspace {
    /// Creates a broadcast.
    ///
    /// Under an idempotency key, a second call with the key and the same body returns the answer of
    /// the first, for a day.
    ///
    /// # Errors
    /// [`IdempotentError`]: the key was used otherwise, or [`CreateBroadcastError`].
    pub async fn create_broadcast(
        &self,
        new: NewBroadcast,
        key: Option<IdempotencyKey>,
    ) -> Result<Replayable<BroadcastMade>, IdempotentError<CreateBroadcastError>> {
        let workspace = self.clone();
        // It runs in its own task, because half of an audience is of no use.
        detached(async move { workspace.create_broadcast_attached(new, key, None).await }).await
    }

    /// Returns the answer of the creation of a broadcast under this key, if there was one.
    ///
    /// So nothing has to be looked up that may have been removed since.
    ///
    /// # Errors
    /// [`IdempotentError`]: the key was used with another body, or not now.
    pub fn broadcast_made_before(
        &self,
        key: &IdempotencyKey,
    ) -> Result<Option<BroadcastMade>, IdempotentError<CreateBroadcastError>> {
        self.answered_before(key)
    }

    pub(crate) async fn create_broadcast_attached(
        &self,
        mut new: NewBroadcast,
        key: Option<IdempotencyKey>,
        retry_of: Option<BroadcastId>,
    ) -> Result<Replayable<BroadcastMade>, IdempotentError<CreateBroadcastError>> {
        let _under_way = self.slot.begin_task();
        let recipients_max = self.shared.broadcasts.options.recipients_max;
        if new.audience.is_empty() {
            return Err(refused(CreateBroadcastError::NoRecipients));
        }
        // The command asks again, but only once all of the audience is written.
        self.perform(RoomForBroadcast { key }).await.map_err(|why| refused(why.into()))?;
        let id = random::broadcast_id(self.shared.clock.now());
        let definitions = self.definitions(&new).await.map_err(|why| refused(why.into()))?;
        let prepared = self.scan(move |store, workspace| {
            // The variables are checked while each recipient is at its given position.
            let mut fits = check_variables(definitions, &new);
            new.audience.leave_each_once();
            if new.audience.len() > recipients_max {
                fits = Err(CreateBroadcastError::TooManyRecipients(recipients_max));
            }
            let excluded = excluded_from_broadcasts(store, workspace, None)?;
            let sendable = new.audience.set_aside(&excluded);
            let by_phone = ByPhone::of(&new.audience.phones[..sendable]);
            Ok((new, sendable, by_phone, fits))
        });
        let (new, sendable, by_phone, fits) = prepared.await.map_err(|why| refused(why.into()))?;
        let fits = fits.map_err(refused)?;
        let total = u32::try_from(new.audience.len()).unwrap_or(u32::MAX);
        let sendable = u32::try_from(sendable).unwrap_or(u32::MAX);
        let schedule_at = new.schedule_at;
        if let Err(why) = self.write_audience(id, &new.audience, &by_phone).await {
            // The written part must not stay, nor count for the workspace.
            let workspace = self.clone();
            drop(tokio::spawn(async move { workspace.after_unknown(id, schedule_at).await }));
            return Err(refused(why.into()));
        }
        // The audience is written, and only the presence of variables still matters.
        let new = NewBroadcast { audience: emptied(new.audience), ..new };
        let command = CreateBroadcast { id, new, sendable, total, retry_of, fits };
        let made = self.perform(Idempotent { key, command }).await;
        match &made {
            Ok(Replayable { replayed: false, .. }) => self.begin_broadcast(id, schedule_at),
            Err(IdempotentError::Refused(CreateBroadcastError::Unavailable(_))) => {
                let workspace = self.clone();
                drop(tokio::spawn(async move { workspace.after_unknown(id, schedule_at).await }));
            }
            // If this fails as well, the next start sweeps it.
            _ => drop(self.forget_draft(id).await),
        }
        made
    }

    /// Handles an unknown outcome: continues the broadcast if it was created, or else forgets it.
    async fn after_unknown(&self, id: BroadcastId, schedule_at: Option<Timestamp>) {
        match self.settled_record(id).await {
            Some(Some(_)) => self.begin_broadcast(id, schedule_at),
            Some(None) => drop(self.forget_draft(id).await),
            // The next start handles it.
            None => {}
        }
    }

    /// Has a durable broadcast start, at its time.
    fn begin_broadcast(&self, id: BroadcastId, schedule_at: Option<Timestamp>) {
        let broadcasts = &self.shared.broadcasts;
        broadcasts.add(self.id(), id, schedule_at.unwrap_or_default());
        if schedule_at.is_none() {
            broadcasts.wake(id);
        }
    }

    /// Writes the audience, a bounded part of it in each commit.
    async fn write_audience(
        &self,
        id: BroadcastId,
        audience: &Audience,
        by_phone: &ByPhone,
    ) -> Result<(), Unavailable> {
        let (writer, workspace) = (&self.shared.writer, self.id());
        let mut changes = vec![Change::put(Table::Broadcasts, draft_key(workspace, id), [])];
        for segment in 0..audience.segments() {
            changes.extend(audience.segment(workspace, id, segment));
            if changes.len() >= SEGMENTS_AT_ONCE {
                writer.commit(std::mem::take(&mut changes)).await?;
            }
        }
        for chunk in by_phone.changes(workspace, id, &audience.phones) {
            changes.push(chunk);
            if changes.len() >= CHUNKS_AT_ONCE {
                writer.commit(std::mem::take(&mut changes)).await?;
            }
        }
        writer.commit(changes).await?;
        Ok(())
    }

    /// Deletes the written parts of a broadcast that was not created.
    async fn forget_draft(&self, id: BroadcastId) -> Result<(), Unavailable> {
        let changes =
            self.scan(move |store, workspace| draft_changes(store, workspace, id)).await?;
        Ok(self.shared.writer.commit_own(changes).await?)
    }
}

/// The command that checks whether another broadcast may be created, before its audience is
/// written.
struct RoomForBroadcast {
    /// The key of its creation. An answer under the key is returned again, and needs no room.
    key: Option<IdempotencyKey>,
}

impl Command for RoomForBroadcast {
    type Answer = ();
    type Error = Unavailable;

    const FOOTPRINT: Footprint = Footprint::Grows;
    const SENDS: bool = true;
    // It has to look at the key before.
    const IS_HELD_TO_QUOTA: bool = false;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        if let Some(key) = self.key {
            let key = key.record_key(&context.core.id);
            if context.get(Table::Idempotency, &key)?.is_some() {
                return Ok(());
            }
        }
        quota::check_broadcasts(context)?;
        quota::check_bytes(context)
    }
}

/// The command to create the record of a broadcast whose audience is written.
struct CreateBroadcast {
    id: BroadcastId,
    new: NewBroadcast,
    /// Recipients that have not opted out.
    sendable: u32,
    total: u32,
    retry_of: Option<BroadcastId>,
    /// The template that fits the variables of all recipients, if they have some.
    fits: Option<Vec<Value>>,
}

impl Command for CreateBroadcast {
    type Answer = BroadcastMade;
    type Error = CreateBroadcastError;

    const FOOTPRINT: Footprint = Footprint::Grows;
    const SENDS: bool = true;

    fn carry_out(self, context: &mut Context<'_>) -> Result<BroadcastMade, CreateBroadcastError> {
        let Self { id, new, sendable, total, retry_of, fits } = self;
        let now = context.now();
        if new.schedule_at.is_some_and(|at| at < now) {
            return Err(CreateBroadcastError::Past);
        }
        quota::check_broadcasts(context)?;
        let old = retry_of.map(|of| find(context, of)).transpose()?.flatten();
        if let Some(by) = old.as_ref().and_then(|old| old.retried_by) {
            return Err(CreateBroadcastError::Retried(by));
        }
        let row = known_template(context, &new.template, &new.language)?;
        let personal = new.audience.variables.is_some();
        let fits = personal.then(|| fits.as_deref().unwrap_or(&row.components));
        let parameters = Samples::of(&new.components, fits);
        let sender = Sender::of(context, &row, &new.from, &parameters)?;
        let Sender { from, numbers, definition, category } = sender;
        let mut numbers = numbers.into_iter();
        let number = numbers.next().ok_or(CreateBroadcastError::NotConnected)?;
        let price = reserve(context, category, sendable)?;
        let status = match new.schedule_at {
            Some(_) => BroadcastStatus::Scheduled,
            None => BroadcastStatus::Queued,
        };
        let record = Record {
            id,
            name: new.name,
            template: TemplateName { name: row.name.clone(), language: row.language.clone() },
            category,
            policy: new.policy,
            status,
            reason: None,
            total,
            sendable,
            price,
            number,
            definition,
            components: new.components,
            personal,
            created_at: now,
            schedule_at: new.schedule_at,
            started_at: None,
            finished_at: None,
            retry_of,
            retried_by: None,
            settled: false,
            recipients_dropped: false,
            notes: new.notes,
            beside: numbers.collect(),
            from,
        };
        if let Some(old) = old {
            save(context, &Record { retried_by: Some(id), ..old });
        }
        context.delete(Table::Broadcasts, draft_key(&context.core.id, id));
        save(context, &record);
        emit(context, EventData::BroadcastCreated, &record);
        Ok(BroadcastMade { broadcast_id: id, status, total_recipients: total })
    }
}

/// Pays for so many messages of this category. Returns the price of one.
fn reserve(
    context: &mut Context<'_>,
    category: TemplateCategory,
    sendable: u32,
) -> Result<u64, CreateBroadcastError> {
    let price = context.core.rules.prices.template(category);
    let (needed, available) = (price.saturating_mul(sendable.into()), context.core.credits);
    if available < needed {
        return Err(CreateBroadcastError::InsufficientCredits { needed, available });
    }
    credits::charge(context.core, needed, context.effects);
    Ok(price)
}

const fn refused(error: CreateBroadcastError) -> IdempotentError<CreateBroadcastError> {
    IdempotentError::Refused(error)
}

fn emptied(audience: Audience) -> Audience {
    let mut empty = Audience::new();
    empty.variables = audience.variables.map(|_| Vec::new());
    empty
}
