//! The time until which a conversation may be answered with free text.
//!
//! It is read where a reply reads it: in the open service windows of all connected numbers.

use postrider_domain::{PartyId, Timestamp, WorkspaceId};
use postrider_number::record::NumberInfo;
use postrider_store::{StoreError, View};

use crate::Workspace;
use crate::conversations::{Conversation, ConversationView};
use crate::core::records;
use crate::messages::service_window;
use postrider_domain::unavailable::Unavailable;

/// The time until which a conversation may be answered with free text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyWindow {
    /// Always, as by e-mail.
    Always,
    /// Until this moment, which may have passed.
    Until(Timestamp),
    /// Not until the contact writes.
    Closed,
}

impl ReplyWindow {
    /// Returns whether it is open at a moment.
    #[must_use]
    pub fn is_open(self, now: Timestamp) -> bool {
        match self {
            Self::Always => true,
            Self::Until(end) => now < end,
            Self::Closed => false,
        }
    }

    /// Returns the time at which it closes, or has closed.
    #[must_use]
    pub const fn closes_at(self) -> Option<Timestamp> {
        match self {
            Self::Until(end) => Some(end),
            Self::Always | Self::Closed => None,
        }
    }
}

impl Workspace {
    /// Returns the time until which each of these conversations may be answered with free text.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn reply_windows(
        &self,
        of: &[ConversationView],
    ) -> Result<Vec<ReplyWindow>, Unavailable> {
        let names = |(conversation, contact): &ConversationView| {
            (is_by_mail(conversation), contact.names().parties())
        };
        let asked: Vec<_> = of.iter().map(names).collect();
        if asked.iter().all(|(by_mail, names)| *by_mail || names.is_empty()) {
            return Ok(asked.iter().map(|(by_mail, _)| without_number(*by_mail)).collect());
        }
        self.read(move |store, workspace| read(store, workspace, &asked)).await
    }
}

const fn is_by_mail(conversation: &Conversation) -> bool {
    conversation.mail.is_some()
}

const fn without_number(by_mail: bool) -> ReplyWindow {
    if by_mail { ReplyWindow::Always } else { ReplyWindow::Closed }
}

fn read(
    store: &dyn View,
    workspace: &WorkspaceId,
    asked: &[(bool, Vec<PartyId>)],
) -> Result<Vec<ReplyWindow>, StoreError> {
    let numbers = records::load(store, workspace)?.map(|found| found.numbers).unwrap_or_default();
    let lines: Vec<_> = numbers.iter().map(NumberInfo::line).collect();
    let window = |(by_mail, names): &(bool, Vec<PartyId>)| {
        if *by_mail || names.is_empty() {
            return Ok(without_number(*by_mail));
        }
        // A reply goes to one of the names, to which the person has written.
        let mut latest = None;
        for name in names {
            latest = latest.max(service_window::latest_end(store, workspace, &lines, name)?);
        }
        Ok(latest.map_or(ReplyWindow::Closed, ReplyWindow::Until))
    };
    asked.iter().map(window).collect()
}
