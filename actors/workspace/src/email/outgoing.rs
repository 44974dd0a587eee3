//! Outgoing mails: replies by e-mail, their records and outcomes, and the mail server.
//!
//! A mail is claimed in a commit before it is handed over, and its outcome is recorded in another
//! one. A mail whose claim outlived its process may have left: it is `unknown`, and is not handed
//! over again.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use postrider_channel::email::{MailOptions, Mailed, OutgoingMail, hand_over};
use postrider_domain::event::message::MessageData;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{
    ConversationId, Email, EventData, MessageId, Phone, SenderNotes, Timestamp, WorkspaceId,
};
use postrider_runtime::flow::Backoff;
use postrider_runtime::hold::TENURE_AGAIN_AFTER;
use postrider_store::view::codec;
use postrider_store::{Direction, StoreError, Table, View};
use serde::{Deserialize, Serialize};

use crate::conversations::{Conversation, InboxCounts, MailThread, Wrote};
use crate::core::command::{Command, Context, Footprint};
use crate::email::{known_key, mail_key, queue_key};
use crate::messages::{MessageContent, MessageError, MessageSent, MessageStatus, ReplyError};
use crate::services::Services;
use crate::services::{MailKey, Mailer};
use crate::{Workspace, conversations};

/// The wait before the retry of a mail that the server did not accept.
const RETRY: Backoff = Backoff { min: Duration::from_secs(30), max: Duration::from_secs(3600) };

/// The maximum number of a workspace's mails that wait for the server; more are refused.
const QUEUED_MAX: usize = 1000;
/// The maximum number of a thread's mails that a reply names.
const REFERENCES_MAX: usize = 20;

/// The number of mails that are handed over at a time.
const AT_ONCE: usize = 8;
/// The number of tries to record a mail's outcome while storage fails.
const SETTLE_TRIES: usize = 20;

/// An outgoing mail.
#[derive(Serialize, Deserialize)]
pub(crate) struct MailRecord {
    pub(crate) to: Email,
    pub(crate) subject: String,
    pub(crate) text: String,
    pub(crate) message_id: String,
    pub(crate) in_reply_to: Option<String>,
    pub(crate) references: Vec<String>,
    pub(crate) status: MessageStatus,
    pub(crate) error: Option<MessageError>,
    pub(crate) give_up_at: Timestamp,
    /// The sender's notes on it.
    #[serde(default, skip_serializing_if = "SenderNotes::is_empty")]
    pub(crate) notes: SenderNotes,
}

/// The queue's record of a mail that has not left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QueuedMail {
    /// Set if the server may have it: only the process that handed it over knows.
    pub(crate) handed: bool,
    /// The earliest time of the next try.
    pub(crate) next_at: Timestamp,
    /// The number of times that the server did not accept it.
    pub(crate) failures: u32,
    /// Why, the last time.
    pub(crate) why: Box<str>,
}

/// Answers the contact by e-mail, from an address.
pub(crate) fn reply(
    context: &mut Context<'_>,
    (old, thread): (&Conversation, &MailThread),
    phone: Option<Phone>,
    (content, notes): (&MessageContent, SenderNotes),
    unique: u128,
    from: Option<&Email>,
) -> Result<MessageSent, ReplyError> {
    let from = from.ok_or(ReplyError::NoMailServer)?;
    let MessageContent::Text(text) = content else { return Err(ReplyError::TextOnly) };
    may_queue(context)?;
    let counted = conversations::answered_counts(context, old)?;
    let noted = conversations::note_inbox(context, &InboxCounts::one_sent())?;
    let now = context.now();
    let id = MessageId::from_parts(now, unique);
    let domain = from.as_str().rsplit_once('@').map_or("", |(_, domain)| domain);
    let first = thread.references.len().saturating_sub(REFERENCES_MAX);
    let record = MailRecord {
        to: thread.address.clone(),
        subject: answer_to(&thread.subject),
        text: text.as_str().to_string(),
        message_id: format!("<{id}@{domain}>"),
        in_reply_to: thread.references.last().cloned(),
        references: thread.references[first..].to_vec(),
        status: MessageStatus::Queued,
        error: None,
        give_up_at: now.plus(context.core.rules.messages.give_up),
        notes,
    };
    queue(context, id, &record);
    // An answer to this mail belongs to this conversation.
    let known = known_key(&context.core.id, &record.message_id);
    context.put(Table::Mails, known, old.id.as_bytes().to_vec());
    let wrote = Wrote { id, kind: "email", text: text.as_str(), media: None };
    let appended = conversations::sent(context, old.clone(), wrote, noted);
    let mut new = conversations::once_answered(&appended);
    if let Some(thread) = &mut new.mail {
        thread.references.push(record.message_id);
    }
    if new.status != appended.status {
        conversations::emit(context, EventData::ConversationUpdated, &new, phone);
    }
    conversations::put(context, Some(&appended), &new, counted);
    Ok(MessageSent { message_id: id, status: MessageStatus::Queued, number: None })
}

/// Checks that there are not too many waiting mails.
fn may_queue(context: &Context<'_>) -> Result<(), Unavailable> {
    let mut waiting = 0;
    let prefix = queue_key(&context.core.id, MessageId::from_bytes([0; 16]));
    let prefix = &prefix[..prefix.len() - 16];
    context.scan(Table::MailQueue, prefix, &mut |_, _| {
        waiting += 1;
        if waiting < QUEUED_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    if waiting < QUEUED_MAX {
        Ok(())
    } else {
        Err(Unavailable::because(UnavailableReason::Overloaded))
    }
}

/// Returns the subject of an answer.
fn answer_to(subject: &str) -> String {
    let is_answer = subject.get(..3).is_some_and(|begin| begin.eq_ignore_ascii_case("re:"));
    if is_answer { subject.to_owned() } else { format!("Re: {subject}") }
}

/// Writes a new mail, which is sent as soon as it is durable.
pub(crate) fn queue(context: &mut Context<'_>, id: MessageId, record: &MailRecord) {
    let workspace = context.core.id.clone();
    context.put_json(Table::Mails, mail_key(&workspace, id), record);
    context.put_json(Table::MailQueue, queue_key(&workspace, id), &QueuedMail::default());
    emit(context, id, record);
}

/// Returns a mail's status, the reason for its failure, if it failed, and its sender's notes.
pub(crate) fn outcome_of(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: MessageId,
) -> Result<Option<(MessageStatus, Option<MessageError>, SenderNotes)>, StoreError> {
    let found = store.get(Table::Mails, &mail_key(workspace, id))?;
    let found = found.map(|json| codec::decode::<MailRecord>(&json)).transpose()?;
    Ok(found.map(|record| (record.status, record.error, record.notes)))
}

/// Claims a mail to hand it over; `None` if it must not be handed over.
///
/// Once this is durable it may have been handed over, so a claimed mail is not handed over again.
pub(crate) struct ClaimMail(pub(crate) MessageId);

impl Command for ClaimMail {
    type Answer = Option<OutgoingMail>;
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Self::Answer, Unavailable> {
        let id = self.0;
        let Some((record, queued)) = find(context, id)? else { return Ok(None) };
        if !has_conversation(context, &record)? {
            // Its contact was deleted; the mail's records are deleted with the conversation.
            let key = queue_key(&context.core.id, id);
            context.delete(Table::MailQueue, key);
            return Ok(None);
        }
        let now = context.now();
        if queued.handed {
            settle(context, id, record, MessageStatus::Unknown, None);
            return Ok(None);
        }
        if record.give_up_at <= now {
            let error = error("not_sent_in_time", &queued.why);
            settle(context, id, record, MessageStatus::Failed, Some(error));
            return Ok(None);
        }
        let key = queue_key(&context.core.id, id);
        context.put_json(Table::MailQueue, key, &QueuedMail { handed: true, ..queued });
        let MailRecord { to, subject, text, message_id, in_reply_to, references, .. } = record;
        let is_automatic = false;
        Ok(Some(OutgoingMail {
            to,
            subject,
            text,
            message_id,
            in_reply_to,
            references,
            is_automatic,
        }))
    }
}

/// Claims a mail as the mailer does. Returns whether it is to be handed over.
#[cfg(any(test, feature = "testing"))]
pub async fn claim(workspace: &Workspace, id: MessageId) -> Result<bool, Unavailable> {
    workspace.perform(ClaimMail(id)).await.map(|mail| mail.is_some())
}

/// Records the outcome of a mail that was handed over.
pub(crate) struct SettleMail(pub(crate) MessageId, pub(crate) Mailed);

impl Command for SettleMail {
    type Answer = ();
    type Error = Unavailable;

    const FOOTPRINT: Footprint = Footprint::Ends;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        let Self(id, mailed) = self;
        let Some((record, queued)) = find(context, id)? else { return Ok(()) };
        match mailed {
            Mailed::Sent => settle(context, id, record, MessageStatus::Sent, None),
            Mailed::Unknown(_) => settle(context, id, record, MessageStatus::Unknown, None),
            Mailed::Failed(why) => {
                let error = error("channel_refused", &why);
                settle(context, id, record, MessageStatus::Failed, Some(error));
            }
            Mailed::Retry(why) => {
                let pause = RETRY.delay(queued.failures);
                let queued = QueuedMail {
                    handed: false,
                    next_at: context.now().plus(pause),
                    failures: queued.failures + 1,
                    why: clipped(&why),
                };
                context.put_json(Table::MailQueue, queue_key(&context.core.id, id), &queued);
            }
        }
        Ok(())
    }
}

/// Returns whether the conversation of a mail still exists.
fn has_conversation(context: &Context<'_>, mail: &MailRecord) -> Result<bool, Unavailable> {
    let of = context.get(Table::Mails, &known_key(&context.core.id, &mail.message_id))?;
    let of = of.and_then(|of| of.try_into().ok()).map(ConversationId::from_bytes);
    of.map_or(Ok(false), |of| Ok(conversations::find(context, of)?.is_some()))
}

fn find(
    context: &Context<'_>,
    id: MessageId,
) -> Result<Option<(MailRecord, QueuedMail)>, Unavailable> {
    let workspace = &context.core.id;
    let record = context.get_json(Table::Mails, &mail_key(workspace, id))?;
    Ok(record.zip(context.get_json(Table::MailQueue, &queue_key(workspace, id))?))
}

fn settle(
    context: &mut Context<'_>,
    id: MessageId,
    record: MailRecord,
    status: MessageStatus,
    error: Option<MessageError>,
) {
    let record = MailRecord { status, error, ..record };
    let workspace = context.core.id.clone();
    context.delete(Table::MailQueue, queue_key(&workspace, id));
    context.put_json(Table::Mails, mail_key(&workspace, id), &record);
    emit(context, id, &record);
}

fn error(reason: &str, details: &str) -> MessageError {
    MessageError { reason: reason.into(), code: None, details: clipped(details) }
}

/// Returns the server's response, cut to the length that is kept.
fn clipped(said: &str) -> Box<str> {
    said.chars().take(500).collect::<String>().into()
}

/// Emits a mail's status; nothing if it is unknown, as for other messages.
fn emit(context: &mut Context<'_>, id: MessageId, record: &MailRecord) {
    let event = match record.status {
        MessageStatus::Queued => EventData::MessageQueued,
        MessageStatus::Sent => EventData::MessageSent,
        MessageStatus::Failed => EventData::MessageFailed,
        _ => return,
    };
    let (reference, metadata) = record.notes.shown();
    let data = MessageData {
        message_id: id,
        broadcast_id: None,
        to: Some(record.to.as_str().to_owned()),
        recipient: None,
        r#type: Some(MessageData::EMAIL),
        status: record.status.as_str(),
        template: None,
        error: record.error.as_ref().map(MessageError::event_data),
        number_id: None,
        reference,
        metadata,
    };
    context.effects.emit(context.now(), event(data));
}

impl Mailer {
    /// Starts to hand over the due mails.
    pub fn beat(shared: &Arc<Services>) {
        let mailer = &shared.mailer;
        let Some(options) = &mailer.options else { return };
        if !shared.hold.lets_out() {
            return;
        }
        if mailer.stopping.load(Ordering::Acquire) || mailer.looking.swap(true, Ordering::AcqRel) {
            return;
        }
        let (shared, options) = (Arc::clone(shared), options.clone());
        drop(tokio::spawn(async move {
            let (store, now) = (Arc::clone(&shared.store), shared.clock.now());
            let busy = shared.mailer.busy.lock().clone();
            let free = AT_ONCE.saturating_sub(busy.len());
            let look = move || due(store.as_ref(), now, &busy, free);
            match tokio::task::spawn_blocking(look).await {
                Ok(Ok(due)) => due.into_iter().for_each(|place| begin(&shared, &options, place)),
                Ok(Err(error)) => tracing::error!(%error, "the queue of mails cannot be read"),
                Err(_) => {}
            }
            shared.mailer.looking.store(false, Ordering::Release);
        }));
    }

    /// Starts nothing more, and waits for the running hand-overs.
    pub async fn stop(&self) {
        const LOOK: Duration = Duration::from_millis(20);
        self.stopping.store(true, Ordering::Release);
        while !self.busy.lock().is_empty() {
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Returns some mails that are due and not being handed over.
fn due(
    store: &dyn View,
    now: Timestamp,
    busy: &HashSet<MailKey>,
    most: usize,
) -> Result<Vec<MailKey>, StoreError> {
    let mut due = Vec::new();
    store.scan(Table::MailQueue, &[], None, Direction::Forward, &mut |key, value| {
        if due.len() >= most {
            return ControlFlow::Break(());
        }
        let is_due = codec::decode(value).is_ok_and(|queued: QueuedMail| queued.next_at <= now);
        if let (true, Some(place)) = (is_due, place_of(key))
            && !busy.contains(&place)
        {
            due.push(place);
        }
        ControlFlow::Continue(())
    })?;
    Ok(due)
}

fn place_of(key: &[u8]) -> Option<MailKey> {
    let (rest, id) = key.split_last_chunk()?;
    let workspace = std::str::from_utf8(rest.strip_suffix(&[0])?).ok()?;
    Some((workspace.parse().ok()?, MessageId::from_bytes(*id)))
}

fn begin(shared: &Arc<Services>, options: &MailOptions, place: MailKey) {
    if !shared.mailer.busy.lock().insert(place.clone()) {
        return;
    }
    // A server's delay must not keep a dropped engine alive.
    let (shared, options) = (Arc::downgrade(shared), options.clone());
    drop(tokio::spawn(async move {
        if let Err(error) = deliver(&shared, &options, &place).await {
            tracing::warn!(workspace = %place.0, message = %place.1, %error, "a mail waits");
        }
        if let Some(shared) = shared.upgrade() {
            shared.mailer.busy.lock().remove(&place);
        }
    }));
}

/// Waits until mails may leave. Returns `false` when the engine stops.
///
/// In that case a claimed mail stays claimed: the next owner reports it as unknown.
async fn may_leave(shared: &Weak<Services>) -> bool {
    loop {
        let Some(services) = shared.upgrade() else { return false };
        if services.hold.lets_out() {
            return true;
        }
        if services.mailer.stopping.load(Ordering::Acquire) {
            return false;
        }
        let clock = services.clock.clone();
        drop(services);
        clock.sleep_until(clock.now().plus(TENURE_AGAIN_AFTER)).await;
    }
}

async fn deliver(
    shared: &Weak<Services>,
    options: &MailOptions,
    (workspace, id): &MailKey,
) -> Result<(), Unavailable> {
    let find = || {
        let shared = shared.upgrade()?;
        let slot = shared.workspaces.slot(workspace)?;
        Some(Workspace::new(shared, slot))
    };
    let Some(handle) = find() else { return Ok(()) };
    let claimed = handle.perform(ClaimMail(*id)).await?;
    drop(handle);
    let Some(mail) = claimed else { return Ok(()) };
    if !may_leave(shared).await {
        return Ok(());
    }
    let mailed = hand_over(options, &mail).await;
    let mut tries = 0;
    loop {
        let Some(handle) = find() else { return Ok(()) };
        let settled = handle.perform(SettleMail(*id, mailed.clone())).await;
        drop(handle);
        tries += 1;
        match settled {
            Err(why) if why.reason != UnavailableReason::Draining && tries < SETTLE_TRIES => {
                tokio::time::sleep(why.retry_after).await;
            }
            settled => return settled,
        }
    }
}
