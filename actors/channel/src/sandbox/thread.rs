//! The screens of the sandbox's phones: threads in both directions.

use hashbrown::HashMap;
use postrider_domain::{MediaId, MessageId, Phone, WorkspaceId};

use super::{Delivered, DeliveredContent, Sandbox, SandboxMessage, SandboxStatus};

/// A message of a phone's thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadMessage {
    /// The message.
    pub message: SandboxMessage,
    /// The reported state. A customer's message is [`Received`](SandboxStatus::Received).
    pub status: SandboxStatus,
    /// Its place among the workspace's; a later message has a higher one.
    pub place: u64,
}

/// A phone to which messages were sent, or that wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPhone {
    /// The phone.
    pub phone: Phone,
    /// Its newest message.
    pub last: SandboxMessage,
    /// The number of messages.
    pub messages: usize,
}

/// The content of a customer's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenByCustomer {
    /// The word for its kind; `text` for one that has none.
    pub kind: &'static str,
    /// Its text or caption.
    pub text: Box<str>,
    /// The file of the workspace whose content was copied to theirs.
    pub media: Option<MediaId>,
}

impl Sandbox {
    /// Stores a customer's message for the thread of their phone.
    pub fn note_written(
        &self,
        workspace: &WorkspaceId,
        message: MessageId,
        from: Phone,
        written: WrittenByCustomer,
    ) {
        let at = self.clock.now();
        self.with_mailbox(workspace, |mailbox| {
            let content = DeliveredContent::Written(written);
            let (to, status) = (from.into(), SandboxStatus::Received);
            let (message_id, place, through) = (message, 0, None);
            let written = Delivered { message_id, to, content, at, place, status, through };
            mailbox.keep(written, self.messages_kept);
        });
    }

    /// Returns the newest `limit` messages to and from a phone, newest first.
    ///
    /// They are before the `place` if one is given.
    #[must_use]
    pub fn thread(
        &self,
        workspace: &WorkspaceId,
        phone: Phone,
        before: Option<u64>,
        limit: usize,
    ) -> Vec<ThreadMessage> {
        let Some(mailbox) = self.mailboxes.get(workspace) else { return Vec::new() };
        let wanted = |message: &&Delivered| {
            message.to == phone && before.is_none_or(|before| message.place < before)
        };
        let newest = mailbox.delivered.iter().rev().filter(wanted).take(limit);
        newest
            .map(|it| ThreadMessage { message: it.read(), status: it.status, place: it.place })
            .collect()
    }

    /// Returns the `limit` phones of the newest messages, newest first.
    #[must_use]
    pub fn phones(&self, workspace: &WorkspaceId, limit: usize) -> Vec<SandboxPhone> {
        let Some(mailbox) = self.mailboxes.get(workspace) else { return Vec::new() };
        let mut places = HashMap::new();
        let mut phones: Vec<SandboxPhone> = Vec::new();
        for delivered in mailbox.delivered.iter().rev() {
            let Some(phone) = delivered.to.phone() else { continue };
            let place: usize = *places.entry(phone).or_insert(phones.len());
            if let Some(known) = phones.get_mut(place) {
                known.messages += 1;
            } else if phones.len() < limit {
                phones.push(SandboxPhone { phone, last: delivered.read(), messages: 1 });
            }
        }
        phones
    }
}
