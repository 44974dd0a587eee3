//! Messages that a new one answers or is about, and what the channel calls them.

use std::ops::ControlFlow;

use postrider_domain::unavailable::Unavailable;
use postrider_domain::{MessageContent, MessageId, NumberId, PartyId, RenderedContent, Timestamp};
use postrider_store::view::codec;
use postrider_store::{Direction as Order, StoreError, Table, View};

use crate::contacts::parties_of;
use crate::conversations::Conversation;
use crate::conversations::record::{Written, messages_prefix};
use crate::core::command::Context;
use crate::core::view::unreadable;
use crate::messages::record::MessageState;
use crate::messages::send::SendMessageError;

/// How many messages of a conversation are looked at for one: it is among those of its second,
/// unless the channel's clock was ahead of ours when it came.
const LOOKED_AT_MAX: usize = 200;

/// Between whom a message is looked for.
pub(super) struct SpokenOf<'a> {
    /// Who gets the new message.
    pub(super) to: &'a PartyId,
    /// The conversation with them, if there is one.
    pub(super) conversation: Option<&'a Conversation>,
    /// The number that the new message leaves through.
    pub(super) number: NumberId,
}

impl SpokenOf<'_> {
    /// What the channel calls a message, of the workspace's or of the contact's.
    pub(super) fn channel_id(
        &self,
        context: &Context<'_>,
        id: MessageId,
    ) -> Result<Box<str>, SendMessageError> {
        let key = MessageState::key(&context.core.id, id);
        let found = match context.get_json::<MessageState>(Table::Messages, &key)? {
            Some(state) => self.of_ours(context, state)?,
            None => self.of_theirs(context, id).map_err(unreadable)?,
        };
        found.ok_or(SendMessageError::UnknownMessage)
    }

    /// Puts the channel's ids into an object that is about another message.
    pub(super) fn complete(
        &self,
        context: &Context<'_>,
        content: &mut RenderedContent,
    ) -> Result<(), SendMessageError> {
        if let MessageContent::Object(object) = content
            && let Some(about) = object.about
        {
            object.insert("message_id", &self.channel_id(context, about)?);
        }
        Ok(())
    }

    fn of_ours(
        &self,
        context: &Context<'_>,
        state: MessageState,
    ) -> Result<Option<Box<str>>, Unavailable> {
        if !parties_of(context, self.to)?.contains(&state.to) {
            return Ok(None);
        }
        let known = context.connected.iter().find(|known| known.id == self.number);
        // A number without an account is a sandbox, which has no ids of its own.
        let is_sandbox = known.is_some_and(|known| known.account.is_none());
        let own = || is_sandbox.then(|| state.message_id.to_string().into());
        Ok(state.provider_id.clone().or_else(own))
    }

    fn of_theirs(
        &self,
        context: &Context<'_>,
        id: MessageId,
    ) -> Result<Option<Box<str>>, StoreError> {
        let Some(conversation) = self.conversation else { return Ok(None) };
        let prefix = messages_prefix(&context.core.id, conversation.id);
        find(context.store(), &prefix, id)
    }
}

/// What the channel calls a message that the contact of a conversation wrote.
fn find(store: &dyn View, prefix: &[u8], id: MessageId) -> Result<Option<Box<str>>, StoreError> {
    let second = Timestamp::from_millis(id.timestamp().as_secs() * 1000).as_millis().to_be_bytes();
    let [_, _, second @ ..] = second;
    let from = [prefix, &second, &[0xff; 25]].concat();
    let (mut found, mut looked_at) = (None, 0);
    store.scan(Table::Conversations, prefix, Some(&from), Order::Backward, &mut |key, row| {
        looked_at += 1;
        if key.last_chunk() == Some(id.as_bytes()) {
            found = Some(row.to_vec());
        }
        match found.is_none() && looked_at < LOOKED_AT_MAX {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    let written = found.map(|row| codec::decode::<Written>(&row)).transpose()?;
    Ok(written.and_then(|written| written.provider_id))
}
