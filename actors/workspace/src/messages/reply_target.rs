//! Messages that a new one answers or is about, and the channel's ids of them.

use std::ops::ControlFlow;

use postrider_broadcast::audience::place_of;
use postrider_broadcast::{provider_ids, record};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{
    BroadcastId, MessageContent, MessageId, NumberId, PartyId, Phone, RenderedContent, Timestamp,
    WorkspaceId,
};
use postrider_store::view::codec;
use postrider_store::{Direction as Order, StoreError, Table, View};

use crate::contacts::parties_of;
use crate::conversations::Conversation;
use crate::conversations::record::{Written, messages_prefix};
use crate::core::command::Context;
use crate::core::view::unreadable;
use crate::messages::error::SendMessageError;
use crate::messages::record::MessageState;

/// The maximum of a conversation's messages to search for one.
///
/// The message is among those of its second, unless the channel's clock was ahead of ours when it
/// came.
const LOOKED_AT_MAX: usize = 200;

/// The two sides between whom a message is looked for.
pub(super) struct ReplyTarget<'a> {
    /// The recipient of the new message.
    pub(super) to: &'a PartyId,
    /// The conversation with them, if there is one.
    pub(super) conversation: Option<&'a Conversation>,
    /// The number through which the new message leaves.
    pub(super) number: NumberId,
}

impl ReplyTarget<'_> {
    /// Returns the channel's id of a message, of the workspace's or of the contact's.
    pub(super) fn channel_id(
        &self,
        context: &Context<'_>,
        id: MessageId,
    ) -> Result<Box<str>, SendMessageError> {
        let found = match MessageState::get(context, id)? {
            Some(state) => self.of_ours(context, state)?,
            None => match self.of_theirs(context, id).map_err(unreadable)? {
                None => self.of_broadcast(context, id)?,
                found => found,
            },
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
        let own = || self.is_sandbox(context).then(|| state.message_id.to_string().into());
        Ok(state.provider_id.clone().or_else(own))
    }

    /// Returns whether the number is a sandbox, which has no account and no ids of its own.
    fn is_sandbox(&self, context: &Context<'_>) -> bool {
        let known = context.connected.iter().find(|known| known.id == self.number);
        known.is_some_and(|known| known.account.is_none())
    }

    /// Returns the channel's id of a message of a broadcast, if it went to the recipient.
    fn of_broadcast(
        &self,
        context: &Context<'_>,
        id: MessageId,
    ) -> Result<Option<Box<str>>, Unavailable> {
        let parties = parties_of(context, self.to)?;
        let found = parties.iter().filter_map(PartyId::phone).find_map(|phone| {
            broadcast_name((context.store(), &context.core.id), id, phone).transpose()
        });
        let Some(name) = found.transpose().map_err(unreadable)? else { return Ok(None) };
        let own = || self.is_sandbox(context).then(|| id.to_string().into());
        Ok(name.or_else(own))
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

/// Returns the channel's id of a broadcast's message, if it is known.
///
/// The outer `None` means that there is no such message to this phone.
fn broadcast_name(
    (store, workspace): (&dyn View, &WorkspaceId),
    id: MessageId,
    phone: Phone,
) -> Result<Option<Option<Box<str>>>, StoreError> {
    let (prefix, index) = record::of_message(workspace, id);
    let mut broadcasts = Vec::new();
    store.scan(Table::Broadcasts, &prefix, None, Order::Forward, &mut |key, _| {
        broadcasts.extend(key.last_chunk().map(|id| BroadcastId::from_bytes(*id)));
        ControlFlow::Continue(())
    })?;
    for broadcast in broadcasts {
        if place_of(store, workspace, broadcast, phone)? == Some(index) {
            return Ok(Some(provider_ids::name(store, workspace, broadcast, index)?));
        }
    }
    Ok(None)
}

/// Returns the channel's id of a message that the contact of a conversation wrote.
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
