//! Mails that arrive.

use crate::Workspace;
use crate::contacts::{Contact, ContactFilter, NewContact, create, find_contact, place_of};
use crate::conversations::{
    self, Conversation, ConversationStatus, Direction, InboxCounts, MailKnownBy, MailThread,
    Written, by_mail,
};
use crate::core::command::{Command, Context};
use postrider_channel::email::inbound::InboundMail;
use postrider_domain::event::message::{MessageData, MessageReceivedData};
use postrider_domain::fold::fold;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{
    ContactId, ContactName, ConversationId, CustomFields, Email, EventData, MessageId, Tags,
};
use postrider_store::Table;

use crate::email::{address_key, known_key};

/// The maximum age of a signature in seconds; also the maximum time that it may be ahead.
const TOLERANCE: u64 = 300;
/// The maximum number of contacts with an address that are searched for the oldest one.
const LOOKED_AT: usize = 200;

/// The reason why a mail was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveMailError {
    /// The workspace accepts no mail.
    #[error("there is no such e-mail channel")]
    NotFound,
    /// It is not signed with the workspace's secret, or the signature is too old.
    #[error("the signature is missing, wrong or older than five minutes")]
    BadSignature,
    /// The workspace cannot accept it now: it should be posted again.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Workspace {
    /// Checks that a mail's body is signed by Standard Webhooks with this workspace's secret.
    ///
    /// `id`, `timestamp` and `signatures` are the values of its headers.
    ///
    /// # Errors
    /// [`ReceiveMailError`]: the signature is wrong, the channel is not open, or the workspace is
    /// unavailable.
    pub async fn check_mail_signature(
        &self,
        id: &str,
        timestamp: &str,
        signatures: &str,
        body: &[u8],
    ) -> Result<(), ReceiveMailError> {
        let secret = self.email_secret().await?.ok_or(ReceiveMailError::NotFound)?;
        let at: u64 = timestamp.parse().map_err(|_| ReceiveMailError::BadSignature)?;
        let is_fresh = at.abs_diff(self.shared.clock.real().as_secs()) <= TOLERANCE;
        if is_fresh && secret.has_signed(id, at, body, signatures) {
            Ok(())
        } else {
            Err(ReceiveMailError::BadSignature)
        }
    }

    /// Accepts a mail: opens the conversation with its writer.
    ///
    /// The contact is created if no contact has the address. A repeated mail changes nothing.
    ///
    /// # Errors
    /// [`Unavailable`]: it should be posted again.
    pub async fn receive_mail(&self, mail: InboundMail) -> Result<(), Unavailable> {
        // The oldest contact with the address is used. A contact that is created meanwhile is not
        // found; then there are two, which is allowed.
        let filter = ContactFilter::search(Some(mail.from.as_str()));
        let page = self.contacts(filter, 0, LOOKED_AT).await?;
        let same = |contact: &&Contact| {
            contact.email.as_ref().is_some_and(|it| is_same_address(it, &mail.from))
        };
        let contact = page.contacts.iter().rev().find(same).map(|contact| contact.id);
        self.perform(TakeMail { mail, contact }).await
    }
}

/// Returns whether two addresses are the same except for case.
fn is_same_address(one: &Email, other: &Email) -> bool {
    fold(one.as_str()) == fold(other.as_str())
}

struct TakeMail {
    mail: InboundMail,
    /// The contact with the address, as far as it is committed.
    contact: Option<ContactId>,
}

impl Command for TakeMail {
    type Answer = ();
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        let Self { mut mail, contact } = self;
        let known = known_key(&context.core.id, &mail.message_id);
        if context.get(Table::Mails, &known)?.is_some() {
            return Ok(());
        }
        // The sender's clock may be ahead of ours.
        mail.at = mail.at.min(context.now());
        let id = mail.id();
        let (old, contact) = match find_thread(context, &mail)? {
            Some((conversation, contact)) => (Some(conversation), contact),
            None => contact_of(context, &mail, contact, id)?,
        };
        let (conversation, opens) =
            add_to_conversation(context, old.as_ref(), &contact, &mail, id)?;
        if opens {
            conversations::emit(
                context,
                EventData::ConversationOpened,
                &conversation,
                contact.phone,
            );
        }
        let of = conversation.id.as_bytes().to_vec();
        let address = address_key(&context.core.id, &mail.from);
        context.put(Table::Mails, address, of.clone());
        emit(context, id, &mail, &conversation);
        context.put(Table::Mails, known, of);
        Ok(())
    }
}

/// Finds the conversation of a mail: that of a mail which it answers, or of its address.
fn find_thread(
    context: &Context<'_>,
    mail: &InboundMail,
) -> Result<Option<(Conversation, Contact)>, Unavailable> {
    let workspace = &context.core.id;
    let answered = mail.references.iter().rev().map(|id| known_key(workspace, id));
    for key in answered.chain([address_key(workspace, &mail.from)]) {
        let Some(of) = context.get(Table::Mails, &key)? else { continue };
        let Ok(of) = of.try_into().map(ConversationId::from_bytes) else { continue };
        // Its contact may have been deleted.
        let Some(conversation) = conversations::find(context, of)? else { continue };
        if let Some(contact) = find_contact(context, conversation.contact_id)? {
            return Ok(Some((conversation, contact)));
        }
    }
    Ok(None)
}

/// Returns the contact with the mail's address, created if there is none, and its conversation.
fn contact_of(
    context: &mut Context<'_>,
    mail: &InboundMail,
    contact: Option<ContactId>,
    id: MessageId,
) -> Result<(Option<Conversation>, Contact), Unavailable> {
    let found = contact.map(|contact| find_contact(context, contact)).transpose()?.flatten();
    let same = |contact: &Contact| {
        contact.email.as_ref().is_some_and(|it| is_same_address(it, &mail.from))
    };
    if let Some(contact) = found.filter(same) {
        return Ok((by_mail(context, place_of(contact.id))?, contact));
    }
    let name = mail.from_name.as_deref().unwrap_or_default();
    let name: String = name.chars().take(postrider_domain::contact::NAME_CHARS_MAX).collect();
    let new = NewContact {
        name: ContactName::new(&name).unwrap_or_else(|_| ContactName::of_email(&mail.from)),
        phone: None,
        email: Some(mail.from.clone()),
        tags: Tags::default(),
        custom_fields: CustomFields::default(),
    };
    Ok((None, create(context, new, u128::from_be_bytes(*id.as_bytes()))?))
}

/// Adds the mail to its conversation. Returns the changed one, and whether it was not open.
fn add_to_conversation(
    context: &mut Context<'_>,
    old: Option<&Conversation>,
    contact: &Contact,
    mail: &InboundMail,
    id: MessageId,
) -> Result<(Conversation, bool), Unavailable> {
    let mut references = mail.references.clone();
    references.push(mail.message_id.clone());
    let thread =
        MailThread { address: mail.from.clone(), subject: mail.subject.clone(), references };
    let unique = u128::from_be_bytes(*id.as_bytes());
    let new = || Conversation::new(contact.id, context.now(), mail.at, unique);
    let mut new = old.cloned().unwrap_or_else(new);
    let opens = new.status != ConversationStatus::Open;
    new.status = ConversationStatus::Open;
    new.note_inbound(mail.at);
    new.mail = Some(thread);
    // The subject of a mail may be its whole text.
    let text = if mail.text.is_empty() { &mail.subject } else { &mail.text };
    let written = Written {
        direction: Direction::In,
        kind: "email".to_owned(),
        text: text.clone(),
        at: mail.at,
        mail: Some(MailKnownBy { message_id: mail.message_id.clone(), address: mail.from.clone() }),
        provider_id: None,
        media: None,
        content: None,
    };
    let counted = conversations::moved_counts(context, &Vec::from_iter(old), &[&new])?;
    conversations::note_inbox(context, &InboxCounts::one_received(opens))?.write(context);
    Ok((conversations::note(context, old, new, id, &written, counted), opens))
}

/// Emits that a message was received.
fn emit(context: &mut Context<'_>, id: MessageId, mail: &InboundMail, of: &Conversation) {
    let data = MessageReceivedData {
        message_id: id,
        conversation_id: of.id,
        contact_id: of.contact_id,
        number_id: None,
        channel: Some(MessageData::EMAIL),
        from: Some(mail.from.as_str().to_owned()),
        user_id: None,
        username: None,
        subject: Some(mail.subject.clone()),
        name: mail.from_name.as_deref().map(Into::into),
        r#type: MessageData::EMAIL.into(),
        text: mail.text.as_str().into(),
        at: mail.at,
        referral: None,
        media: None,
        content: None,
        content_truncated: false,
        context: None,
    };
    context.effects.emit(context.now(), EventData::MessageReceived(data));
}
