//! Messages that contacts write to a number.
//!
//! The provider reports a message more than once. [`Table::Received`] remembers each under
//! `workspace ‖ 0 ‖ message id` for a while; the id is worked out from what the provider calls it.
//! The value names the windows of its author.

use crate::broadcasts::{reply_attribution, reply_lookup};
use std::ops::ControlFlow;
use std::time::Duration;

use postrider_channel::callback::Inbound;
use postrider_domain::event::message::{
    MessageContextData, MessageReceivedData, ReceivedMediaData,
};
use postrider_domain::opt_out::OptOut;
use postrider_domain::{EventData, MediaId, MessageId, NumberId, PartyId, WorkspaceId};
use postrider_store::{StoreError, Table};

use crate::analytics;
use crate::contacts::Contact;
use crate::conversations;
use crate::conversations::append::Received;
use crate::conversations::{Conversation, WrittenContent, WrittenContext, WrittenMedia};
use crate::core::command::Context;
use crate::core::otp::inbound;
use crate::core::sticky;
use crate::inbox::author::{self, Author};
use crate::inbox::callback_reads::Replies;
use crate::inbox::received::received_key;
use crate::inbox::{identity, inbound_content};
use crate::media;
use crate::messages::service_window;
use crate::suppressions::apply_opt_out;
use crate::sweep::{Look, RecordKeys, SLICE_MAX, SweepCursor};
use postrider_domain::unavailable::Unavailable;

/// The time for which a message is remembered: a provider repeats its callbacks for seven days.
const KEPT: Duration = Duration::from_secs(8 * 24 * 3600);
/// The longest time between two rounds that delete remembered messages.
const ROUND: Duration = Duration::from_secs(24 * 3600);

/// Processes a contact's message, once. Returns its file, whose content is to be fetched.
pub(super) fn take(
    context: &mut Context<'_>,
    number: NumberId,
    inbound: &Inbound,
    replies: Option<&Replies>,
) -> Result<Option<MediaId>, Unavailable> {
    let line = context.line(number);
    let id = inbound.message_id(line);
    let key = received_key(&context.core.id, Some(id));
    if context.get(Table::Received, &key)?.is_some() {
        return Ok(None);
    }
    let received = Received {
        id,
        number,
        at: inbound.at.min(context.now()),
        inbound,
        media: None,
        content: None,
    };
    let (parties, file) = received_first(context, received, replies)?;
    // This comes last, so that a message that failed is not known when it is repeated.
    context.put(Table::Received, key, window_names(line, &parties));
    Ok(file)
}

/// The names of the windows that an author has or may have, those of phones first.
fn window_names(line: NumberId, parties: &[PartyId]) -> Vec<u8> {
    parties.iter().flat_map(|party| service_window::own_key(line, party)).collect()
}

/// Everything that a contact's message sets off. Each message comes here exactly once. Returns the
/// names of its author, and its file.
fn received_first(
    context: &mut Context<'_>,
    received: Received<'_>,
    replies: Option<&Replies>,
) -> Result<(Vec<PartyId>, Option<MediaId>), Unavailable> {
    let Received { id, number, at, inbound, .. } = received;
    let unique = u128::from_be_bytes(*id.as_bytes());
    let Some(author) = author::of(context, inbound, unique)? else {
        return Ok((Vec::new(), None));
    };
    let phones = author.phones();
    let Author { contact, phone, proven, parties, others, windows } = author;
    let media = inbound.media.as_ref().map(|file| WrittenMedia {
        media_id: media::expect(context, number, id, file),
        mime_type: file.mime_type.to_string(),
        filename: file.filename.as_deref().map(str::to_owned),
    });
    let about = replies.and_then(|replies| replies.about(inbound));
    let content = inbound_content::of_message(inbound, media.as_ref(), about);
    let (media, content) = (media.as_ref(), content.as_deref());
    let received = &Received { media, content, ..received };
    let conversation = conversations::received(context, &contact, received)?;
    for party in &windows {
        service_window::open(context, number, party, at)?;
    }
    for party in &parties {
        sticky::note(context, party, number, at)?;
    }
    let resumes = context.core.opt_out.read(&inbound.text) == Some(OptOut::Back);
    for party in parties.iter().chain(&others) {
        // Anybody may write a phone into a contact: that opts nobody in again.
        if !resumes || identity::is_theirs(context, &proven, party)? {
            apply_opt_out(context, party, &inbound.text, at)?;
        }
    }
    inbound::take(context.core, (&phones, contact.id), &inbound.text, context.effects);
    if let Some(phone) = phone
        && let Some(found) = replies.and_then(|replies| replies.of(phone, inbound.at))
    {
        reply_attribution::note_reply(context, phone, found)?;
    }
    if let Some(writer) = phone.map(PartyId::from).as_ref().or(parties.last()) {
        analytics::note_referral(context, inbound, writer)?;
    }
    let phone = phone.map(|phone| phone.to_string());
    context.effects.emit(context.now(), event(received, &conversation, &contact, phone));
    Ok((parties, media.map(|media| media.media_id)))
}

fn event(
    received: &Received<'_>,
    conversation: &Conversation,
    contact: &Contact,
    from: Option<String>,
) -> EventData {
    let Inbound { name, kind, .. } = received.inbound;
    let WrittenContent { object, truncated, context, referral } =
        received.content.cloned().unwrap_or_default();
    EventData::MessageReceived(MessageReceivedData {
        message_id: received.id,
        conversation_id: conversation.id,
        contact_id: conversation.contact_id,
        number_id: Some(received.number),
        channel: None,
        from,
        user_id: contact.user_id.clone(),
        username: contact.username.clone(),
        subject: None,
        name: name.clone(),
        r#type: kind.clone(),
        text: received.inbound.shown().into(),
        at: received.at,
        referral,
        media: received.media.map(|media| ReceivedMediaData {
            media_id: media.media_id,
            mime_type: media.mime_type.clone(),
            filename: media.filename.clone(),
            state: "pending",
        }),
        content: object,
        content_truncated: truncated,
        context: context.map(|WrittenContext { message_id, forwarded }| MessageContextData {
            message_id,
            forwarded,
        }),
    })
}

/// Finds the messages that no callback reports any more, and the windows that passed since.
pub(crate) fn long_ago(
    look: &Look<'_>,
    cursor: &mut SweepCursor,
) -> Result<RecordKeys, StoreError> {
    let prefix = received(look.workspace);
    // A message written earlier than the known ones may still arrive: it stays a day longer.
    let (mut ended, mut next) = (Vec::new(), look.now.plus(ROUND));
    look.scan(Table::Received, &prefix, &cursor.from, &mut |key, window| {
        let id = key[prefix.len()..].try_into().map(MessageId::from_bytes);
        let Ok(ends) = id.map(|id| id.timestamp().plus(KEPT)) else {
            return ControlFlow::Break(());
        };
        if ends > look.now || ended.len() == SLICE_MAX {
            next = next.min(ends);
            return ControlFlow::Break(());
        }
        ended.push((key.to_vec(), window.to_vec()));
        ControlFlow::Continue(())
    })?;
    let mut keys = Vec::new();
    for (key, window) in ended {
        keys.extend(service_window::passed(look, &window)?);
        for phone in service_window::phones(&window) {
            keys.extend(reply_lookup::remembered(look, &phone)?);
        }
        cursor.pass(&key);
        keys.push((Table::Received, key));
    }
    cursor.rest_until(next);
    Ok(keys)
}

/// Returns the prefix of the keys of received messages.
pub(crate) fn received(workspace: &WorkspaceId) -> Vec<u8> {
    received_key(workspace, None)
}

#[cfg(test)]
mod golden;
