//! The state of the mailer between its runs.

use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use postrider_channel::email::MailOptions;
use postrider_domain::{Email, MessageId, WorkspaceId};
use std::collections::HashSet;

pub(crate) type Place = (WorkspaceId, MessageId);

/// Hands mails over, if there is a mail server.
#[derive(Default)]
pub struct Mailer {
    pub(crate) options: Option<MailOptions>,
    /// The mails that this process is handing over.
    pub(crate) busy: Mutex<HashSet<Place>>,
    /// Set while it looks for more.
    pub(crate) looking: AtomicBool,
    pub(crate) stopping: AtomicBool,
}

impl Mailer {
    /// Returns a mailer for this server; without one no mail leaves.
    pub fn new(options: Option<MailOptions>) -> Self {
        Self { options, ..Self::default() }
    }

    /// Returns the sender's address; `None` if there is no server.
    pub fn from(&self) -> Option<&Email> {
        self.options.as_ref().map(|options| &options.from)
    }
}
