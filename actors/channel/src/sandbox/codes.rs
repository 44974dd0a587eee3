//! Codes that arrive at the sandbox by SMS and mail, instead of through a number.

use postrider_domain::event::chain::OtpChannel;
use postrider_domain::{MessageId, NumberId, OtpCode, Phone, RequestId, WorkspaceId};

use super::{
    Delivered, DeliveredContent, Mailbox, SCRIPTS_MAX, Sandbox, SandboxStatus, Script,
    ScriptedOutcome, SentThrough,
};
use crate::Origin;

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

impl Mailbox {
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
