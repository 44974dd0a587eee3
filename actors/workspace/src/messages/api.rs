//! The operations of callers on messages.

use crate::Workspace;
use crate::broadcasts;
use crate::core::waiters::Waiter;
use crate::idempotency::{IdempotencyKey, Idempotent, IdempotentError, Replayable};
use postrider_channel::Failure;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{MessageId, MessageKind};
use postrider_runtime::random;

use crate::messages::attached;
use crate::messages::record::MessageState;
use crate::messages::send::{MessageSent, Send, SendMessage, SendMessageError};
use crate::messages::upload::Uploaded;
use crate::messages::waiting;

impl Workspace {
    /// Accepts a message: on return it is durable and on its way.
    ///
    /// With an idempotency key, a second call with the key and the same body returns the answer of
    /// the first, for a day.
    ///
    /// # Errors
    /// [`SendMessageError`]: no number, a closed window, no credits, or not now; or the key was
    /// used otherwise.
    pub async fn send_message(
        &self,
        message: SendMessage,
        key: Option<IdempotencyKey>,
    ) -> Result<Replayable<MessageSent>, IdempotentError<SendMessageError>> {
        let again = attached::file_of(&message.content).map(|_| (message.clone(), key));
        match (self.accept(message, key, None, None).await, again) {
            (Err(error), Some((message, key))) => {
                let refused = self.uploaded(error, message.content.kind()).await?;
                self.accept(message, key, None, refused).await
            }
            (answered, _) => answered,
        }
    }

    /// Has the file uploaded that a message needs. Returns the channel's refusal, if it refuses the
    /// file.
    ///
    /// # Errors
    /// The refusal of the message for another reason; or the content is missing, or the channel
    /// cannot be reached.
    async fn uploaded(
        &self,
        error: IdempotentError<SendMessageError>,
        kind: MessageKind,
    ) -> Result<Option<Failure>, IdempotentError<SendMessageError>> {
        let IdempotentError::Refused(SendMessageError::NotUploaded { number, media }) = error
        else {
            return Err(error);
        };
        match self.upload(number, media).await {
            Ok(Uploaded::Done) => Ok(None),
            Ok(Uploaded::Refused(failure)) => Ok(Some(failure)),
            Ok(Uploaded::Missing) => {
                Err(IdempotentError::Refused(SendMessageError::UnknownMedia { kind }))
            }
            Err(why) => Err(IdempotentError::Refused(why.into())),
        }
    }

    /// Sends a message, and waits for the channel's answer until `patience` is over.
    ///
    /// # Errors
    /// Those of [`send_message`](Self::send_message).
    pub async fn send_message_and_wait(
        &self,
        message: SendMessage,
        key: Option<IdempotencyKey>,
        patience: impl Future<Output = ()>,
    ) -> Result<Replayable<MessageSent>, IdempotentError<SendMessageError>> {
        let kept_under = key.as_ref().map(|key| key.record_key(self.id()));
        let again = attached::file_of(&message.content).map(|_| (message.clone(), key));
        let (waiter, mut waiting) = waiting::waiter(kept_under.clone());
        let mut accepted = match (self.accept(message, key, Some(waiter), None).await, again) {
            (Err(error), Some((message, key))) => {
                let refused = self.uploaded(error, message.content.kind()).await?;
                let (waiter, anew) = waiting::waiter(kept_under);
                waiting = anew;
                self.accept(message, key, Some(waiter), refused).await?
            }
            (answered, _) => answered?,
        };
        if let Some((status, number)) = waiting.settled(patience).await {
            accepted.answer = MessageSent { status, number: Some(number), ..accepted.answer };
        }
        Ok(accepted)
    }

    async fn accept(
        &self,
        message: SendMessage,
        key: Option<IdempotencyKey>,
        waiter: Option<Waiter>,
        refused: Option<Failure>,
    ) -> Result<Replayable<MessageSent>, IdempotentError<SendMessageError>> {
        let command = Send { message, through: None, unique: random::unique(), waiter, refused };
        self.perform(Idempotent { key, command }).await
    }

    /// Returns the state of a message, also of a broadcast's, for which no moments are known.
    ///
    /// `None` if there is none of that id.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn message(&self, id: MessageId) -> Result<Option<MessageState>, Unavailable> {
        self.read(move |store, workspace| match MessageState::read(store, workspace, id)? {
            Some(state) => Ok(Some(state)),
            None => broadcasts::message(store, workspace, id),
        })
        .await
    }
}
