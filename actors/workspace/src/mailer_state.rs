//! What the mailer remembers between its runs.

use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use postrider_channel::email::MailOptions;
use postrider_domain::{Email, MessageId, WorkspaceId};
use std::collections::HashSet;

pub(crate) type Place = (WorkspaceId, MessageId);

/// Hands mails over, if there is a server for them.
#[derive(Default)]
pub struct Mailer {
    pub(crate) options: Option<MailOptions>,
    /// Those that this process has under way.
    pub(crate) busy: Mutex<HashSet<Place>>,
    /// It is looking for more.
    pub(crate) looking: AtomicBool,
    pub(crate) stopping: AtomicBool,
}

impl Mailer {
    /// A mailer for this server; without one nothing leaves.
    pub fn new(options: Option<MailOptions>) -> Self {
        Self { options, ..Self::default() }
    }

    /// Where mail comes from; nothing if there is no server.
    pub fn from(&self) -> Option<&Email> {
        self.options.as_ref().map(|options| &options.from)
    }
}
