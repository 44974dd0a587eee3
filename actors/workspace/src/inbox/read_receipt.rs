//! Read receipts: they inform a contact that a message was read, and that an answer is being typed.

use std::ops::ControlFlow;
use std::time::Duration;

use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{ConversationId, NumberId, WorkspaceId};
use postrider_number::record::NumberKind;
use postrider_store::view::codec;
use postrider_store::{Direction as Order, StoreError, Table, View};

use crate::Workspace;
use crate::conversations::UpdateConversationError;
use crate::conversations::record::{
    Conversation, Direction, Written, conversation_key, messages_prefix,
};

/// The maximum number of messages that are searched for the contact's newest one.
const LOOKED_AT_MAX: usize = 1_000;
/// The time after which a retry makes sense if the channel did not accept the receipt.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The reason why no read receipt was sent to a contact.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadReceiptError {
    /// The workspace has no such conversation.
    #[error("no such conversation")]
    NotFound,
    /// The contact has written no message that the channel has an id of.
    #[error("the contact has written nothing that could be marked as read")]
    NothingToRead,
    /// The channel does not accept it, or the workspace cannot be reached.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl From<UpdateConversationError> for ReadReceiptError {
    fn from(error: UpdateConversationError) -> Self {
        match error {
            UpdateConversationError::NotFound => Self::NotFound,
            UpdateConversationError::Unavailable(why) => Self::Unavailable(why),
        }
    }
}

impl Workspace {
    /// Sends a read receipt of the newest message of a conversation.
    ///
    /// With `typing` it also reports that an answer is being typed. It is neither queued nor
    /// repeated. Afterwards nothing in the conversation is unread.
    ///
    /// # Errors
    /// [`ReadReceiptError`]: there is nothing to send, or it could not be sent.
    pub async fn send_read_receipt(
        &self,
        id: ConversationId,
        typing: bool,
    ) -> Result<(), ReadReceiptError> {
        self.shared.may_send()?;
        let newest = self.read(move |store, workspace| newest_of(store, workspace, id)).await?;
        let (number, provider_id) = match newest {
            None => return Err(ReadReceiptError::NotFound),
            Some(found) => found.ok_or(ReadReceiptError::NothingToRead)?,
        };
        let down =
            || Unavailable { reason: UnavailableReason::ChannelDown, retry_after: RETRY_AFTER };
        let connected = self.shared.numbers.connected(number).ok_or_else(down)?;
        match (&connected.cloud_api, connected.kind) {
            (Some(provider), _) => {
                let marked = provider.mark_read(&provider_id, typing).await;
                marked.map_err(|why| {
                    tracing::info!(%number, reason = %why, "a message was not marked as read");
                    down()
                })?;
            }
            // A sandbox has no recipient.
            (None, NumberKind::Sandbox) => {}
            (None, _) => return Err(down().into()),
        }
        Ok(self.mark_conversation_read(id).await?)
    }
}

/// The number that a contact wrote to, and the channel's id of the newest message.
type Newest = (NumberId, Box<str>);

/// Returns the contact's last message in a conversation; `None`: there is no such conversation.
fn newest_of(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: ConversationId,
) -> Result<Option<Option<Newest>>, StoreError> {
    let key = conversation_key(workspace, id);
    let Some(json) = store.get(Table::Conversations, &key)? else { return Ok(None) };
    let conversation: Conversation = codec::decode(&json)?;
    let Some(number) = conversation.number else { return Ok(Some(None)) };
    let prefix = messages_prefix(workspace, id);
    let (mut found, mut looked_at) = (Ok(None), 0);
    store.scan(Table::Conversations, &prefix, None, Order::Backward, &mut |_, row| {
        looked_at += 1;
        found = codec::decode::<Written>(row).map(|written| match written.direction {
            Direction::In => written.provider_id,
            Direction::Out => None,
        });
        match found {
            Ok(None) if looked_at < LOOKED_AT_MAX => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    })?;
    Ok(Some(found?.map(|provider_id| (number, provider_id))))
}
