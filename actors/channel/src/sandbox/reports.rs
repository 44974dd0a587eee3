//! The reported states of the sandbox's messages, by reports on request and automatic ones.

use std::sync::Arc;

use hashbrown::HashSet;
use postrider_domain::{MessageId, NumberId, Timestamp, WorkspaceId};
use postrider_runtime::random;
use tokio::sync::Notify;

use super::{Mailbox, Sandbox};
use crate::Origin;
use crate::callback::{Progress, StatusUpdate};

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

/// The automatic report on each delivered message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AutoDeliver {
    /// No report.
    #[default]
    None,
    /// A report that it is on the phone.
    Delivered,
    /// A report that it was read.
    Read,
}

impl AutoDeliver {
    /// The words for the values.
    pub const WORDS: [&str; 3] = ["none", "delivered", "read"];

    /// Returns the word for the value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// Parses a word.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        [Self::None, Self::Delivered, Self::Read].into_iter().find(|it| it.as_str() == word)
    }

    const fn report(self) -> Option<(SandboxStatus, Progress)> {
        match self {
            Self::None => None,
            Self::Delivered => Some((SandboxStatus::Delivered, Progress::Delivered)),
            Self::Read => Some((SandboxStatus::Read, Progress::Read)),
        }
    }
}

/// The facts of a delivered message that a report needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentThrough {
    /// The number through which it was sent.
    pub number: NumberId,
    /// The origin of the message.
    pub origin: Origin,
}

impl SentThrough {
    /// Creates a report in the form that a channel would use.
    #[must_use]
    pub fn report(&self, status: Progress, at: Timestamp) -> StatusUpdate {
        let provider_id = format!("sandbox.{:020x}", random::unique()).into();
        let origin = self.origin;
        StatusUpdate { origin, provider_id, status, at, to: None, known_as: None, user_id: None }
    }
}

/// Messages of one workspace that must be reported.
#[derive(Debug)]
pub struct DueReports {
    /// The workspace of the messages.
    pub workspace: WorkspaceId,
    /// The status that they have after the report.
    pub status: SandboxStatus,
    /// The report on each.
    pub progress: Progress,
    /// The messages.
    pub messages: Vec<(MessageId, SentThrough)>,
}

impl Sandbox {
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

    /// Returns the automatic report on a workspace's messages.
    #[must_use]
    pub fn auto_deliver(&self, workspace: &WorkspaceId) -> AutoDeliver {
        self.mailboxes.get(workspace).map_or(AutoDeliver::None, |mailbox| mailbox.auto_deliver)
    }

    /// Sets the automatic report on the following messages.
    pub fn set_auto_deliver(&self, workspace: &WorkspaceId, auto_deliver: AutoDeliver) {
        self.with_mailbox(workspace, |mailbox| {
            mailbox.auto_deliver = auto_deliver;
            mailbox.reported = mailbox.next_place;
        });
    }

    /// Returns the handle that is notified when reports are due, and when the sandbox is dropped.
    #[must_use]
    pub fn reports_are_due(&self) -> Arc<Notify> {
        Arc::clone(&self.due)
    }

    /// Takes due reports, at most `limit` of each workspace.
    #[must_use]
    pub fn take_due(&self, limit: usize) -> Vec<DueReports> {
        let mut all = Vec::new();
        for mut entry in self.mailboxes.iter_mut() {
            let most = entry.chained.len().min(limit);
            let chained: Vec<_> = entry.chained.drain(..most).collect();
            if !chained.is_empty() {
                let (status, progress) = (SandboxStatus::Delivered, Progress::Delivered);
                let workspace = entry.key().clone();
                all.push(DueReports { workspace, status, progress, messages: chained });
            }
            if entry.auto_deliver == AutoDeliver::None {
                continue;
            }
            let taken = entry.take_due(limit);
            if let Some((auto, messages)) = taken
                && let Some((status, progress)) = auto.report()
            {
                let workspace = entry.key().clone();
                all.push(DueReports { workspace, status, progress, messages });
            }
        }
        all
    }
}

impl Mailbox {
    /// Returns at most `limit` messages with a due report, and marks them as reported.
    fn take_due(&mut self, limit: usize) -> Option<(AutoDeliver, Vec<(MessageId, SentThrough)>)> {
        let from = self.delivered.partition_point(|it| it.place < self.reported);
        let mut due = Vec::new();
        for message in self.delivered.range(from..) {
            if due.len() == limit {
                break;
            }
            self.reported = message.place + 1;
            let through = message.through.filter(|_| message.status != SandboxStatus::Held);
            due.extend(through.map(|through| (message.message_id, through)));
        }
        (!due.is_empty()).then_some((self.auto_deliver, due))
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.due.notify_one();
    }
}
