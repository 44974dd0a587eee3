//! The sandbox: a channel that stores messages instead of sending them.
//!
//! Codes can be read and every outcome can be tried, without an account and without cost. Codes by
//! SMS and mail arrive here too, instead of through a number.

mod reports;
mod thread;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use hashbrown::HashMap;
use postrider_domain::event::chain::OtpChannel;
use postrider_domain::{
    MediaId, MessageContent, MessageId, NumberId, OtpCode, PartyId, Phone, RequestId, Timestamp,
    WorkspaceId,
};
use postrider_runtime::clock::Clock;
use tokio::sync::Notify;

use crate::{
    Acceptance, AttemptOutcome, Channel, Content, Failure, Origin, Outbound, RenderedContent,
    Sending,
};

pub use reports::{AutoDeliver, DueReports, SandboxStatus, SentThrough};
pub use thread::{SandboxPhone, ThreadMessage, WrittenByCustomer};

/// The maximum number of scripts of one workspace; more are ignored.
const SCRIPTS_MAX: usize = 10_000;
/// The delay of a `slow` message, in engine time.
const SLOW: Duration = Duration::from_secs(5);

/// The scripted outcome of a message in the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptedOutcome {
    /// Delivers it.
    Sent,
    /// Refuses it permanently, with this error code of the channel.
    Failed {
        /// The channel's error code.
        error_code: u32,
    },
    /// Behaves as if it could not be reached: the message is retried.
    Unavailable,
    /// Delivers it, but its answer is lost: the outcome is unknown.
    Lost,
    /// Delivers it after five seconds of engine time.
    Slow,
    /// Delivers it, and never reports the delivery.
    Silent,
    /// Accepts it and holds it back, until an operator reports on it.
    Held,
}

/// A message that the sandbox delivered. Its `Debug` hides the text and the code.
#[derive(Clone, PartialEq, Eq)]
pub struct SandboxMessage {
    /// Our id of the message.
    pub message_id: MessageId,
    /// The recipient.
    pub to: PartyId,
    /// The word of its [`MessageKind`](postrider_domain::MessageKind), or `otp`.
    pub kind: &'static str,
    /// Its text.
    pub text: String,
    /// Its code, if it is a one-time password.
    pub code: Option<String>,
    /// The time of its delivery.
    pub at: Timestamp,
    /// The channel over which it arrived.
    pub channel: OtpChannel,
    /// The address of a mail.
    pub email: Option<Box<str>>,
    /// A file of the workspace with the same content as the message's own.
    pub media: Option<MediaId>,
}

impl std::fmt::Debug for SandboxMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("SandboxMessage");
        shown.field("message_id", &self.message_id).field("to", &self.to).finish_non_exhaustive()
    }
}

/// A code to deliver by SMS or mail. Its `Debug` hides the text and the code.
#[derive(Clone)]
pub struct SandboxCode {
    /// The request.
    pub request: RequestId,
    /// The number of the attempt within the request.
    pub number: u8,
    /// The channel.
    pub channel: OtpChannel,
    /// The phone of the recipient.
    pub phone: Phone,
    /// The address of a mail.
    pub email: Option<String>,
    /// The text of the message.
    pub text: String,
    /// The code.
    pub code: OtpCode,
}

impl std::fmt::Debug for SandboxCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SandboxCode").field("request", &self.request).finish_non_exhaustive()
    }
}

/// The sandbox of one engine, with a mailbox for each workspace.
#[derive(Debug)]
pub struct Sandbox {
    mailboxes: DashMap<WorkspaceId, Mailbox>,
    messages_kept: usize,
    clock: Clock,
    /// Notified when reports are due.
    due: Arc<Notify>,
}

impl Sandbox {
    /// Creates a sandbox that stores this many messages of each workspace; the oldest are dropped
    /// first.
    pub fn new(messages_kept: usize, clock: Clock) -> Self {
        Self { mailboxes: DashMap::new(), messages_kept, clock, due: Arc::default() }
    }

    /// Returns the newest `limit` messages that were delivered in a workspace, newest first.
    ///
    /// `to` restricts them to one phone.
    #[must_use]
    pub fn messages(
        &self,
        workspace: &WorkspaceId,
        to: Option<Phone>,
        limit: usize,
    ) -> Vec<SandboxMessage> {
        let Some(mailbox) = self.mailboxes.get(workspace) else { return Vec::new() };
        let wanted = |message: &&Delivered| {
            message.through.is_some() && to.is_none_or(|to| message.to == to)
        };
        mailbox.delivered.iter().rev().filter(wanted).take(limit).map(Delivered::read).collect()
    }

    /// Removes the messages and scripts of a deleted workspace.
    pub fn forget(&self, workspace: &WorkspaceId) {
        self.mailboxes.remove(workspace);
    }

    /// Returns the number of stored messages of a workspace.
    #[cfg(any(test, feature = "testing"))]
    pub fn count(&self, workspace: &WorkspaceId) -> usize {
        self.mailboxes.get(workspace).map_or(0, |mailbox| mailbox.delivered.len())
    }

    /// Scripts the outcome of messages to one phone, or to all phones if `to` is `None`.
    ///
    /// It applies to the next `times` messages, or until the next script for the same phone. A
    /// phone's own script takes precedence over the script for all phones.
    pub fn script(
        &self,
        workspace: &WorkspaceId,
        to: Option<Phone>,
        outcome: ScriptedOutcome,
        times: Option<u32>,
    ) {
        let mut mailbox = self.mailboxes.entry(workspace.clone()).or_default();
        mailbox.scripts.remove(&to);
        if mailbox.scripts.len() < SCRIPTS_MAX {
            mailbox.scripts.insert(to, Script { outcome, times });
        }
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

    /// Applies the script to a message, and returns the script's outcome.
    fn take(&self, message: &Outbound) -> ScriptedOutcome {
        let next = |mailbox: &mut Mailbox| mailbox.next_outcome(message.to.phone());
        let outcome = self.with_mailbox(&message.workspace, next);
        match outcome {
            ScriptedOutcome::Sent | ScriptedOutcome::Lost | ScriptedOutcome::Silent => {
                self.deliver(message, outcome == ScriptedOutcome::Sent);
            }
            ScriptedOutcome::Held => self.with_mailbox(&message.workspace, |mailbox| {
                let (kept, now) = (self.messages_kept, self.clock.now());
                mailbox.deliver(message, SandboxStatus::Held, kept, now);
            }),
            ScriptedOutcome::Failed { .. }
            | ScriptedOutcome::Unavailable
            | ScriptedOutcome::Slow => {}
        }
        outcome
    }

    /// Delivers a message. `is_reported` lets the delivery of a code be reported if a channel
    /// follows it.
    fn deliver(&self, message: &Outbound, is_reported: bool) {
        let chained = matches!(message.content, Content::Otp { chained: true, .. }) && is_reported;
        let auto_deliver = self.with_mailbox(&message.workspace, |mailbox| {
            mailbox.deliver(message, SandboxStatus::Sent, self.messages_kept, self.clock.now());
            if chained {
                let through = SentThrough { number: message.number, origin: message.origin };
                mailbox.chained.push((message.message_id, through));
            }
            mailbox.auto_deliver
        });
        if chained || auto_deliver != AutoDeliver::None {
            self.due.notify_one();
        }
    }

    fn with_mailbox<T>(&self, workspace: &WorkspaceId, act: impl FnOnce(&mut Mailbox) -> T) -> T {
        if let Some(mut mailbox) = self.mailboxes.get_mut(workspace) {
            return act(&mut mailbox);
        }
        act(&mut self.mailboxes.entry(workspace.clone()).or_default())
    }
}

/// Scripts the outcome of codes by SMS or mail to one phone, or to all if `to` is `None`.
///
/// It works like [`script`](Sandbox::script) for messages through a number.
pub fn script_codes(
    sandbox: &Sandbox,
    workspace: &WorkspaceId,
    channel: OtpChannel,
    to: Option<Phone>,
    outcome: ScriptedOutcome,
    times: Option<u32>,
) {
    sandbox.with_mailbox(workspace, |mailbox| {
        mailbox.code_scripts.remove(&(channel, to));
        if mailbox.code_scripts.len() < SCRIPTS_MAX {
            mailbox.code_scripts.insert((channel, to), Script { outcome, times });
        }
    });
}

/// Applies the script to a code, and returns the script's outcome.
///
/// The caller must deliver a slow code later.
pub fn take_code(sandbox: &Sandbox, workspace: &WorkspaceId, code: SandboxCode) -> ScriptedOutcome {
    let (channel, phone) = (code.channel, code.phone);
    let outcome =
        sandbox.with_mailbox(workspace, |mailbox| mailbox.next_code_outcome(channel, phone));
    if let ScriptedOutcome::Sent | ScriptedOutcome::Lost | ScriptedOutcome::Silent = outcome {
        deliver_code(sandbox, workspace, code);
    }
    outcome
}

/// Delivers a code.
pub fn deliver_code(sandbox: &Sandbox, workspace: &WorkspaceId, code: SandboxCode) {
    let SandboxCode { request, number, channel, phone, email, text, code } = code;
    let mut id = *request.as_bytes();
    id[15] ^= number.saturating_sub(1);
    let origin = Origin::Otp { request_id: request, number };
    let through = SentThrough { number: NumberId::from_bytes([0; 16]), origin };
    let delivered = Delivered {
        message_id: MessageId::from_bytes(id),
        to: phone.into(),
        content: DeliveredContent::Code(channel, code, text.into(), email.map(Into::into)),
        at: sandbox.clock.now(),
        place: 0,
        status: SandboxStatus::Sent,
        through: Some(through),
    };
    sandbox.with_mailbox(workspace, |mailbox| mailbox.keep(delivered, sandbox.messages_kept));
}

/// The sandbox as a channel.
#[derive(Debug, Clone)]
pub struct SandboxChannel(pub Arc<Sandbox>);

impl Channel for SandboxChannel {
    fn send(&self, message: Outbound) -> Sending {
        let sandbox = &self.0;
        match sandbox.take(&message) {
            ScriptedOutcome::Sent | ScriptedOutcome::Silent => {
                Box::pin(std::future::ready(AttemptOutcome::Sent))
            }
            ScriptedOutcome::Failed { error_code } => {
                let failure = Failure::permanent(Some(error_code));
                Box::pin(std::future::ready(AttemptOutcome::Failed(failure)))
            }
            ScriptedOutcome::Unavailable => {
                Box::pin(std::future::ready(AttemptOutcome::Retry { after: None }))
            }
            ScriptedOutcome::Held => {
                let held = Acceptance { held: true, ..Acceptance::default() };
                Box::pin(std::future::ready(AttemptOutcome::SentAs(held)))
            }
            ScriptedOutcome::Lost => Box::pin(std::future::ready(AttemptOutcome::Unknown)),
            ScriptedOutcome::Slow => {
                let sandbox = Arc::clone(sandbox);
                Box::pin(async move {
                    let due = sandbox.clock.now().plus(SLOW);
                    sandbox.clock.sleep_until(due).await;
                    sandbox.deliver(&message, true);
                    AttemptOutcome::Sent
                })
            }
        }
    }
}

#[derive(Debug, Default)]
struct Mailbox {
    /// The delivered messages, oldest first.
    delivered: VecDeque<Delivered>,
    /// The scripts by phone; the script for all phones is under `None`.
    scripts: HashMap<Option<Phone>, Script>,
    /// The scripts of codes by SMS and mail, by channel and phone.
    code_scripts: HashMap<(OtpChannel, Option<Phone>), Script>,
    /// Codes of chains whose delivery must be reported.
    chained: Vec<(MessageId, SentThrough)>,
    /// The place of the next message.
    next_place: u64,
    /// The automatic report on each message.
    auto_deliver: AutoDeliver,
    /// The place before which no message has a due automatic report.
    reported: u64,
}

#[derive(Debug)]
struct Script {
    outcome: ScriptedOutcome,
    /// The number of further messages to which it applies; `None` until it is replaced.
    times: Option<u32>,
}

impl Mailbox {
    fn deliver(&mut self, message: &Outbound, status: SandboxStatus, kept: usize, at: Timestamp) {
        let (message_id, to) = (message.message_id, message.to.clone());
        let content = match (&message.content, message.code()) {
            (_, Some(code)) => DeliveredContent::Otp(code),
            (Content::Message(content), _) => DeliveredContent::Message(Arc::clone(content)),
            // Unreachable: a one-time password always has a code.
            (Content::Otp { .. }, None) => return,
        };
        let through = Some(SentThrough { number: message.number, origin: message.origin });
        let delivered = Delivered { message_id, to, content, at, place: 0, status, through };
        self.keep(delivered, kept);
    }

    /// Stores a message at the next place.
    fn keep(&mut self, message: Delivered, kept: usize) {
        if self.delivered.len() >= kept {
            self.delivered.pop_front();
        }
        let place = self.next_place;
        self.next_place += 1;
        self.delivered.push_back(Delivered { place, ..message });
    }

    fn next_outcome(&mut self, to: Option<Phone>) -> ScriptedOutcome {
        let own = to.filter(|to| self.scripts.contains_key(&Some(*to)));
        let Some(script) = self.scripts.get_mut(&own) else { return ScriptedOutcome::Sent };
        let outcome = script.outcome;
        if let Some(times) = &mut script.times {
            *times = times.saturating_sub(1);
            if *times == 0 {
                self.scripts.remove(&own);
            }
        }
        outcome
    }

    fn next_code_outcome(&mut self, channel: OtpChannel, phone: Phone) -> ScriptedOutcome {
        let own = (channel, Some(phone));
        let key = if self.code_scripts.contains_key(&own) { own } else { (channel, None) };
        let Some(script) = self.code_scripts.get_mut(&key) else { return ScriptedOutcome::Sent };
        let outcome = script.outcome;
        if let Some(times) = &mut script.times {
            *times = times.saturating_sub(1);
            if *times == 0 {
                self.code_scripts.remove(&key);
            }
        }
        outcome
    }
}

/// A delivered message, stored compactly: its text is made when it is read.
#[derive(Debug)]
struct Delivered {
    message_id: MessageId,
    to: PartyId,
    content: DeliveredContent,
    at: Timestamp,
    place: u64,
    status: SandboxStatus,
    /// The number and the origin of the message; `None` if a customer wrote it.
    through: Option<SentThrough>,
}

#[derive(Debug)]
enum DeliveredContent {
    Otp(OtpCode),
    /// A code over another channel, with its text and the address of a mail.
    Code(OtpChannel, OtpCode, Box<str>, Option<Box<str>>),
    Message(Arc<RenderedContent>),
    /// A message that a customer wrote.
    Written(WrittenByCustomer),
}

impl Delivered {
    fn read(&self) -> SandboxMessage {
        let (mut channel, mut email) = (OtpChannel::Messaging, None);
        let (kind, text, code) = match &self.content {
            DeliveredContent::Otp(code) => {
                let code = code.reveal();
                ("otp", format!("{code} is your verification code."), Some(code))
            }
            DeliveredContent::Message(content) => {
                let (kind, text) = (content.kind().as_str(), content.text());
                let shown = if text.is_empty() { format!("[{kind}]") } else { text.to_owned() };
                (kind, shown, None)
            }
            DeliveredContent::Code(over, code, text, address) => {
                (channel, email) = (*over, address.clone());
                ("otp", text.to_string(), Some(code.reveal()))
            }
            DeliveredContent::Written(written) => (written.kind, written.text.to_string(), None),
        };
        let media = match &self.content {
            DeliveredContent::Written(written) => written.media,
            DeliveredContent::Message(content) => match &**content {
                MessageContent::Object(object) => object.media,
                MessageContent::Text(_) | MessageContent::Template(_) => None,
            },
            DeliveredContent::Otp(_) | DeliveredContent::Code(..) => None,
        };
        SandboxMessage {
            message_id: self.message_id,
            to: self.to.clone(),
            kind,
            text,
            code,
            at: self.at,
            channel,
            email,
            media,
        }
    }
}
