//! Replies by e-mail.

use std::ops::ControlFlow;

use crate::conversations;
use crate::conversations::{Conversation, InboxCounts, MailThread, Wrote};
use crate::core::command::Context;
use crate::messages::ReplyError;
use crate::messages::{MessageContent, MessageSent, MessageStatus};
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{Email, EventData, MessageId, Phone, SenderNotes};
use postrider_store::Table;

use crate::email::outgoing;
use crate::email::outgoing::Record;
use crate::email::{known_key, queue_key};

/// The maximum number of a workspace's mails that wait for the server; more are refused.
const QUEUED_MAX: usize = 1000;
/// The maximum number of a thread's mails that a reply names.
const REFERENCES_MAX: usize = 20;

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
    let counted = conversations::answered(context, old)?;
    let noted = conversations::note_inbox(context, &InboxCounts::one_sent())?;
    let now = context.now();
    let id = MessageId::from_parts(now, unique);
    let domain = from.as_str().rsplit_once('@').map_or("", |(_, domain)| domain);
    let first = thread.references.len().saturating_sub(REFERENCES_MAX);
    let record = Record {
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
    outgoing::queue(context, id, &record);
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
