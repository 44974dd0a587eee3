//! The screens of the sandbox's phones: threads in both directions, and the reported states.

use hashbrown::{HashMap, HashSet};

use postrider_domain::{MediaId, MessageId, NumberId, Phone, WorkspaceId};

use super::{Delivered, DeliveredContent, Sandbox, SandboxMessage, ScriptedOutcome};
use crate::Origin;

/// The reported state of a message of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxStatus {
    /// A customer wrote it.
    Received,
    /// The sandbox accepted it and holds it back.
    Held,
    /// The sandbox delivered it, and nothing was reported.
    Sent,
    /// It was reported to be on the phone.
    Delivered,
    /// It was reported to be read.
    Read,
    /// It was reported to have failed.
    Failed,
}

impl SandboxStatus {
    /// Returns the word for the state.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Held => "held",
            Self::Sent => "sent",
            Self::Delivered => "delivered",
            Self::Read => "read",
            Self::Failed => "failed",
        }
    }
}

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

/// The facts of a delivered message that a report needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentThrough {
    /// The number through which it was sent.
    pub number: NumberId,
    /// The origin of the message.
    pub origin: Origin,
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

    /// Returns the facts for a report on a delivered message; `None` if there is no such message.
    #[must_use]
    pub fn sent_through(&self, workspace: &WorkspaceId, id: MessageId) -> Option<SentThrough> {
        let mailbox = self.mailboxes.get(workspace)?;
        mailbox.delivered.iter().rev().find(|it| it.message_id == id)?.through
    }

    /// Stores the reported state of messages. A late report takes nothing back.
    pub fn note_reported(
        &self,
        workspace: &WorkspaceId,
        messages: impl IntoIterator<Item = MessageId>,
        status: SandboxStatus,
    ) {
        let mut wanted: HashSet<_> = messages.into_iter().collect();
        self.with_mailbox(workspace, |mailbox| {
            // The messages are among the newest: one search from the end finds all of a burst.
            for known in mailbox.delivered.iter_mut().rev() {
                if wanted.is_empty() {
                    break;
                }
                if wanted.remove(&known.message_id) && known.status != SandboxStatus::Read {
                    known.status = status;
                }
            }
        });
    }

    /// Returns the scripts, that for all phones first, with the number of messages.
    #[must_use]
    pub fn scripts(
        &self,
        workspace: &WorkspaceId,
    ) -> Vec<(Option<Phone>, ScriptedOutcome, Option<u32>)> {
        let Some(mailbox) = self.mailboxes.get(workspace) else { return Vec::new() };
        let scripts = mailbox.scripts.iter();
        let mut all: Vec<_> = scripts.map(|(to, it)| (*to, it.outcome, it.times)).collect();
        all.sort_unstable_by_key(|(to, ..)| to.map(|to| to.to_string()));
        all
    }

    /// Removes all scripts.
    pub fn forget_scripts(&self, workspace: &WorkspaceId) {
        self.with_mailbox(workspace, |mailbox| {
            mailbox.scripts.clear();
            mailbox.code_scripts.clear();
        });
    }
}
