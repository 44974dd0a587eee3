//! What callers ask of a workspace about messages.

use crate::Workspace;
use crate::broadcasts;
use crate::core::waiters::Waiter;
use crate::idempotency::{IdempotencyKey, Idempotent, IdempotentError, Replayable};
use postrider_domain::MessageId;
use postrider_domain::unavailable::Unavailable;
use postrider_runtime::random;
use postrider_store::Table;
use postrider_store::view::codec;

use crate::messages::record::MessageState;
use crate::messages::send::{MessageSent, Send, SendMessage, SendMessageError};
use crate::messages::waiting;

impl Workspace {
    /// Accepts a message: when this answers it is durable and on its way. With an idempotency key a
    /// second call with the key and the same body answers what the first did, for a day.
    ///
    /// # Errors
    /// [`SendMessageError`]: no number, a closed window, no credits, or not now; or the key was
    /// used otherwise.
    pub async fn send_message(
        &self,
        message: SendMessage,
        key: Option<IdempotencyKey>,
    ) -> Result<Replayable<MessageSent>, IdempotentError<SendMessageError>> {
        self.accept(message, key, None).await
    }

    /// The same, and then waits for what the channel makes of the message, until `patience` is
    /// over.
    ///
    /// # Errors
    /// Those of [`send_message`](Self::send_message).
    pub async fn send_message_and_wait(
        &self,
        message: SendMessage,
        key: Option<IdempotencyKey>,
        patience: impl Future<Output = ()>,
    ) -> Result<Replayable<MessageSent>, IdempotentError<SendMessageError>> {
        let kept_under = key.map(|key| key.record_key(self.id()));
        let (waiter, waiting) = waiting::waiter(kept_under);
        let mut accepted = self.accept(message, key, Some(waiter)).await?;
        if let Some(status) = waiting.settled(patience).await {
            accepted.answer.status = status;
        }
        Ok(accepted)
    }

    async fn accept(
        &self,
        message: SendMessage,
        key: Option<IdempotencyKey>,
        waiter: Option<Waiter>,
    ) -> Result<Replayable<MessageSent>, IdempotentError<SendMessageError>> {
        let command = Send { message, through: None, unique: random::unique(), waiter };
        self.perform(Idempotent { key, command }).await
    }

    /// Where a message stands, one of a broadcast too, of which no moments are known; `None` when
    /// there is none of that id.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn message(&self, id: MessageId) -> Result<Option<MessageState>, Unavailable> {
        self.read(move |store, workspace| {
            match store.get(Table::Messages, &MessageState::key(workspace, id))? {
                Some(json) => codec::decode(&json).map(Some),
                None => broadcasts::message(store, workspace, id),
            }
        })
        .await
    }
}
