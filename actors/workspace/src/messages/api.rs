//! The operations of callers on messages, and the channel through which they wait for outcomes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use postrider_channel::Failure;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{MessageId, MessageKind};
use postrider_runtime::random;
use tokio::sync::oneshot;

use crate::core::message_status::{OutcomeWaiter, SettledOutcome, Waiter};
use crate::idempotency::{IdempotencyKey, Idempotent, IdempotentError, Replayable};
use crate::messages::attached::{self, Uploaded};
use crate::messages::error::SendMessageError;
use crate::messages::record::MessageState;
use crate::messages::send::{MessageSent, Send, SendMessage};
use crate::{Workspace, broadcasts};

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
        let (waiter, mut waiting) = outcome_channel(kept_under.clone());
        let mut accepted = match (self.accept(message, key, Some(waiter), None).await, again) {
            (Err(error), Some((message, key))) => {
                let refused = self.uploaded(error, message.content.kind()).await?;
                let (waiter, anew) = outcome_channel(kept_under);
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
    /// [`Unavailable`] when the store cannot be read, or not written and the message may be a new
    /// one.
    pub async fn message(&self, id: MessageId) -> Result<Option<MessageState>, Unavailable> {
        let hides = self.may_hide_messages();
        let found = self.read_message(id).await?;
        if found.is_some() || !hides {
            return Ok(found);
        }
        self.write_messages().await?;
        self.read_message(id).await
    }

    async fn read_message(&self, id: MessageId) -> Result<Option<MessageState>, Unavailable> {
        self.read(move |store, workspace| match MessageState::read(store, workspace, id)? {
            Some(state) => Ok(Some(state)),
            None => broadcasts::message(store, workspace, id),
        })
        .await
    }
}

/// The end of the channel that the actor holds.
#[derive(Debug)]
struct OutcomeSender {
    sender: oneshot::Sender<SettledOutcome>,
    /// Set once it is decided that the caller gets the outcome, or that it has given up.
    decided: Arc<AtomicBool>,
}

/// The end of the channel that the caller holds.
pub(crate) struct OutcomeReceiver {
    receiver: oneshot::Receiver<SettledOutcome>,
    decided: Arc<AtomicBool>,
}

/// Creates a caller that will wait, and its sender.
pub(crate) fn outcome_channel(kept_under: Option<Vec<u8>>) -> (Waiter, OutcomeReceiver) {
    let (sender, receiver) = oneshot::channel();
    let decided = Arc::new(AtomicBool::new(false));
    let caller = Box::new(OutcomeSender { sender, decided: Arc::clone(&decided) });
    (Waiter { caller, kept_under }, OutcomeReceiver { receiver, decided })
}

impl OutcomeWaiter for OutcomeSender {
    fn is_waiting(&self) -> bool {
        !self.decided.load(Ordering::Acquire) && !self.sender.is_closed()
    }

    fn decide(&self) -> bool {
        // A caller that does not wait has given up too.
        !self.sender.is_closed() && !self.decided.swap(true, Ordering::AcqRel)
    }

    fn resolve(self: Box<Self>, settled: SettledOutcome) {
        // Nothing is sent if the caller does not wait any more.
        self.sender.send(settled).ok();
    }
}

impl OutcomeReceiver {
    /// Returns the outcome, if it comes before `patience` is over.
    ///
    /// An outcome on its way by then is awaited: it only has to become durable.
    pub(crate) async fn settled(
        mut self,
        patience: impl Future<Output = ()>,
    ) -> Option<SettledOutcome> {
        tokio::select! {
            biased;
            // Nothing is sent when the answer was given before, or when the workspace restarts.
            settled = &mut self.receiver => settled.ok(),
            () = patience => {
                let decided = self.decided.swap(true, Ordering::AcqRel);
                if decided { self.receiver.await.ok() } else { None }
            }
        }
    }
}
