//! Messages that contacts write to a number: their writers, their content and their effects.
//!
//! The provider reports a message more than once. [`Table::Received`] remembers each under
//! `workspace ‖ 0 ‖ message id` for a while; the id is worked out from what the provider calls it.
//! The value names the windows of its author.

use std::ops::ControlFlow;
use std::time::Duration;

use postrider_channel::callback::{Inbound, Referral};
use postrider_domain::contact::NAME_CHARS_MAX;
use postrider_domain::event::message::{
    MessageContextData, MessageReceivedData, ReceivedMediaData, ReferralData,
};
use postrider_domain::opt_out::OptOut;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{
    ContactName, CustomFields, EventData, MediaId, MessageId, NumberId, PartyId, PartyNames, Phone,
    Tags, Timestamp, UserId, WorkspaceId,
};
use postrider_store::{StoreError, Table};
use serde_json::Value;

use crate::broadcasts::replies;
use crate::contacts::{
    ChannelNames, Contact, NewContact, create_known, holder, holders_place, identity, known_names,
    phone_aliases, put_changed, user_holder,
};
use crate::conversations::change::Received;
use crate::conversations::{Conversation, WrittenContent, WrittenContext, WrittenMedia};
use crate::core::command::Context;
use crate::core::otp::inbound;
use crate::core::senders::sticky_sender;
use crate::inbox::callback_items::received_key;
use crate::inbox::callback_reads::Replies;
use crate::inbox::identity_merge;
use crate::messages::service_window;
use crate::suppressions::apply_opt_out;
use crate::sweep::{Look, RecordKeys, SLICE_MAX, SweepCursor};
use crate::{analytics, conversations, media};

/// The time for which a message is remembered: a provider repeats its callbacks for seven days.
const KEPT: Duration = Duration::from_secs(8 * 24 * 3600);
/// The longest time between two rounds that delete remembered messages.
const ROUND: Duration = Duration::from_secs(24 * 3600);

/// The type of a message whose content is about another one.
const REACTION: &str = "reaction";

/// Processes a contact's message, once. Returns its file, whose content is to be fetched.
pub(super) fn take_message(
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
    let (parties, file) = process_message(context, received, replies)?;
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
fn process_message(
    context: &mut Context<'_>,
    received: Received<'_>,
    replies: Option<&Replies>,
) -> Result<(Vec<PartyId>, Option<MediaId>), Unavailable> {
    let Received { id, number, at, inbound, .. } = received;
    let unique = u128::from_be_bytes(*id.as_bytes());
    let Some(author) = author_of(context, inbound, unique)? else {
        return Ok((Vec::new(), None));
    };
    let phones = author.phones();
    let Author { contact, phone, proven, parties, others, windows } = author;
    let media = inbound.media.as_ref().map(|file| WrittenMedia {
        media_id: media::expect_file(context, number, id, file),
        mime_type: file.mime_type.to_string(),
        filename: file.filename.as_deref().map(str::to_owned),
    });
    let about = replies.and_then(|replies| replies.about(inbound));
    let content = content_of(inbound, media.as_ref(), about);
    let (media, content) = (media.as_ref(), content.as_deref());
    let received = &Received { media, content, ..received };
    let conversation = conversations::received(context, &contact, received)?;
    for party in &windows {
        service_window::open(context, number, party, at)?;
    }
    for party in &parties {
        sticky_sender::note(context, party, number, at)?;
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
        replies::note_reply(context, phone, found)?;
    }
    if let Some(writer) = phone.map(PartyId::from).as_ref().or(parties.last()) {
        analytics::note_referral(context, inbound, writer)?;
    }
    let phone = phone.map(|phone| phone.to_string());
    context.effects.emit(context.now(), received_event(received, &conversation, &contact, phone));
    Ok((parties, media.map(|media| media.media_id)))
}

fn received_event(
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

/// Returns the content of a contact's message besides its text, with our ids.
///
/// `None` if there is none. The message is `about` another one, if that is known.
fn content_of(
    inbound: &Inbound,
    media: Option<&WrittenMedia>,
    about: Option<MessageId>,
) -> Option<Box<WrittenContent>> {
    let is_about = inbound.about.is_some() || inbound.forwarded;
    if inbound.content.is_none() && inbound.referral.is_none() && !is_about {
        return None;
    }
    let is_reaction = &*inbound.kind == REACTION;
    let object = inbound.content.clone().map(|mut content| {
        if let Some(media) = media {
            content.insert("media_id", media.media_id.to_string().into());
        }
        if is_reaction {
            content.insert("message_id", about.map(|id| id.to_string()).into());
        }
        content
    });
    let answers = !is_reaction && inbound.about.is_some();
    Some(Box::new(WrittenContent {
        truncated: object.as_ref().is_some_and(|content| content.is_truncated()),
        object: object.map(|content| Value::Object(content.into_fields())),
        context: (answers || inbound.forwarded).then_some(WrittenContext {
            message_id: about.filter(|_| answers),
            forwarded: inbound.forwarded,
        }),
        referral: inbound.referral.clone().map(referral_data),
    }))
}

fn referral_data(referral: Referral) -> ReferralData {
    let Referral { source_type, source_id, headline, body, source_url, ctwa_clid } = referral;
    ReferralData { source_type, source_id, headline, body, source_url, ctwa_clid }
}

/// The writer of a message.
struct Author {
    contact: Contact,
    /// The phone that the channel names or has bound to the id, if there is one.
    phone: Option<Phone>,
    /// The names that the channel has proven for them, with each form of a phone.
    proven: Vec<PartyId>,
    /// The names that they write by, an id last. A phone that only the contact has is included.
    parties: Vec<PartyId>,
    /// Their other names: they opt out for these too.
    others: Vec<PartyId>,
    /// The names for which a window opens.
    windows: Vec<PartyId>,
}

impl Author {
    /// Returns the phones that are proven to be theirs, the one that they are known by first.
    fn phones(&self) -> Vec<Phone> {
        let mut phones: Vec<_> = self.phone.into_iter().collect();
        phones.retain(|phone| self.proven.contains(&PartyId::from(*phone)));
        for phone in self.proven.iter().filter_map(PartyId::phone) {
            if !phones.contains(&phone) {
                phones.push(phone);
            }
        }
        phones
    }
}

/// Returns the writer of a message.
///
/// Creates the contact if no contact has the phone or the id. `None` if the message names neither.
fn author_of(
    context: &mut Context<'_>,
    inbound: &Inbound,
    unique: u128,
) -> Result<Option<Author>, Unavailable> {
    let writer = inbound.from.map(|from| phone_aliases::writer(context, from)).transpose()?;
    let other = writer.as_ref().and_then(|writer| writer.other);
    let phone = writer.map(|writer| writer.phone);
    let written = PartyNames { phone, user_id: inbound.user_id.clone() };
    if let (Some(phone), Some(id)) = (phone, &written.user_id) {
        identity::prove(context, phone, id, inbound.at)?;
    }
    let names = names_now(context, written.clone(), inbound.at)?;
    let mut proven = identity::proven_names(context, &names.parties())?;
    if names.phone.is_some() && names.phone == phone {
        // The name that the channel has for the phone is proven, too.
        proven.extend(inbound.from.into_iter().chain(other).map(PartyId::from));
    }
    let phone = match (names.phone, &names.user_id) {
        (None, Some(id)) => proven_by(context, id)?,
        (phone, _) => phone,
    };
    let found = match (names.phone, &names.user_id) {
        (Some(phone), Some(id)) => identity_merge::bind(context, phone, id)?,
        (Some(phone), None) => holder(context, phone)?,
        (None, Some(id)) => user_holder(context, id)?,
        (None, None) => return Ok(None),
    };
    let contact = match found {
        Some(contact) => with_username(context, contact, inbound)?,
        None => {
            let Some(new) = stranger(inbound, &names) else { return Ok(None) };
            let (user_id, username) = (names.user_id, inbound.username.clone());
            create_known(context, new, ChannelNames { user_id, username }, unique)?
        }
    };
    // The contact may have the phone in another form, which is the one that is shown.
    let phone = if contact.phone == phone { contact.phone } else { phone };
    let own = contact.phone.filter(|own| phone != Some(*own));
    let phones = other.into_iter().chain(own).chain(phone).map(PartyId::from);
    let parties: Vec<_> = phones.chain(contact.user_id.clone().map(PartyId::from)).collect();
    let others = contact.parties().into_iter().filter(|name| !parties.contains(name)).collect();
    let mut windows = windows(context, &contact, (&written, &parties), inbound.at)?;
    // Anybody may write a phone into a contact: it was not the phone that this came from.
    windows.retain(|name| name.phone().is_none() || proven.contains(name));
    Ok(Some(Author { contact, phone, proven, parties, others, windows }))
}

/// Returns the names for which a message of that moment opens a window.
///
/// A message from before a change of names opens none for the new names, and the old ones no longer
/// have any.
fn windows(
    context: &Context<'_>,
    contact: &Contact,
    (written, parties): (&PartyNames, &[PartyId]),
    at: Timestamp,
) -> Result<Vec<PartyId>, Unavailable> {
    let (own, written) = (contact.names().parties(), written.parties());
    for name in written.iter().filter(|name| !own.contains(name)) {
        let changed = known_names::changed_to(context, name)?.map(|(_, changed)| changed);
        // Moments are reported in seconds: within the same second, the change came later.
        if changed.max(contact.renamed_at) >= Some(at) {
            return Ok(Vec::new());
        }
    }
    let is_before = contact.renamed_at.is_some_and(|renamed| at < renamed);
    let opens = |name: &&PartyId| !is_before || written.contains(name);
    Ok(parties.iter().filter(opens).cloned().collect())
}

/// Returns the phone of a message's writer, by which it may be a reply. Changes nothing.
pub(super) fn author_phone(
    context: &Context<'_>,
    inbound: &Inbound,
) -> Result<Option<Phone>, Unavailable> {
    let writer = inbound.from.map(|from| phone_aliases::writer(context, from)).transpose()?;
    let phone = writer.map(|writer| writer.phone);
    let written = PartyNames { phone, user_id: inbound.user_id.clone() };
    let names = names_now(context, written, inbound.at)?;
    match (names.phone, &names.user_id) {
        (None, Some(id)) => proven_by(context, id),
        (phone, _) => Ok(phone),
    }
}

/// Returns the phone that is proven for an id, in the form that the workspace knows.
fn proven_by(context: &Context<'_>, id: &UserId) -> Result<Option<Phone>, Unavailable> {
    let phone = known_names::proven_phone(context, id)?;
    let writer = phone.map(|phone| phone_aliases::writer(context, phone)).transpose()?;
    Ok(writer.map(|writer| writer.phone))
}

/// Returns the current names of a message's writer.
///
/// If a name has no contact, its changes after the message count. An id without a contact also
/// brings the phone that was reported with it.
fn names_now(
    context: &Context<'_>,
    mut names: PartyNames,
    at: Timestamp,
) -> Result<PartyNames, Unavailable> {
    let mut is_held = true;
    for name in names.parties() {
        is_held &= holders_place(context, &name)?.is_some();
    }
    if !is_held {
        // Moments are reported in seconds: within the same second, the change came later.
        names = known_names::current_names(context, names, at.minus(Duration::from_millis(1)))?;
    }
    if let (None, Some(id)) = (names.phone, &names.user_id)
        && holders_place(context, &id.clone().into())?.is_none()
    {
        names.phone = proven_by(context, id)?;
    }
    Ok(names)
}

/// Returns the known data of somebody who writes for the first time; `None` if there is none.
fn stranger(inbound: &Inbound, names: &PartyNames) -> Option<NewContact> {
    let phone = names.phone;
    let given = [inbound.name.as_deref(), inbound.username.as_deref()];
    let cut = |name: &str| name.chars().take(NAME_CHARS_MAX).collect::<String>();
    let name = given.into_iter().flatten().find_map(|name| ContactName::new(&cut(name)).ok());
    let name = name
        .or_else(|| phone.map(ContactName::of_phone))
        .or_else(|| names.user_id.as_ref().map(ContactName::of_user))?;
    let (tags, custom_fields) = (Tags::default(), CustomFields::default());
    Some(NewContact { name, phone, email: None, tags, custom_fields })
}

/// Stores the username that a message reports. Returns the changed contact.
fn with_username(
    context: &mut Context<'_>,
    contact: Contact,
    inbound: &Inbound,
) -> Result<Contact, Unavailable> {
    if inbound.username.is_none() || inbound.username == contact.username {
        return Ok(contact);
    }
    let (username, updated_at) = (inbound.username.clone(), context.now());
    let named = Contact { username, updated_at, ..contact.clone() };
    put_changed(context, &contact, &named)?;
    Ok(named)
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
            keys.extend(replies::record_of_phone(look, &phone)?);
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
