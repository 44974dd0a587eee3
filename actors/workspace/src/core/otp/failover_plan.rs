//! Pure: the steps over which a code is to arrive, and a step worker's call of one.

use std::sync::Arc;

use postrider_domain::event::chain::{ChainPlan, ChainStep, OtpChannel};
use postrider_domain::otp_text::{OtpText, OtpTexts};
use postrider_domain::{OtpCode, Phone, RequestId, Timestamp};

use super::failover_state::Chain;
use super::types::{SendMore, SendOtpError};
use crate::core::Core;

/// The channels that a workspace has set up for codes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ChannelSetup {
    /// Set if there is an SMS gateway.
    pub(crate) sms: bool,
    /// Set if mail can be sent: there is a server for it, or it goes to the sandbox.
    pub(crate) mail: bool,
    /// Set if there is a server for mail.
    pub(crate) mail_server: bool,
    /// The chain of requests that name none; empty: the chat-app channel alone.
    pub(crate) default: Vec<ChainStep>,
    /// The texts of codes over SMS and mail.
    pub(crate) texts: Arc<OtpTexts>,
}

/// A step that a step worker is to carry out.
#[derive(Debug, Clone)]
pub(crate) struct StepCall {
    pub(crate) request: RequestId,
    pub(crate) number: u8,
    pub(crate) channel: OtpChannel,
    pub(crate) phone: Phone,
    pub(crate) email: Option<String>,
    pub(crate) code: OtpCode,
    pub(crate) language: String,
    pub(crate) text: OtpText,
    pub(crate) expires_at: Timestamp,
    /// The time until which a call is repeated that was surely not taken.
    pub(crate) until: Timestamp,
}

/// Returns the chain of a send; `None` if it is the chat-app channel alone.
pub(super) fn plan_of(
    core: &Core,
    more: Option<&SendMore>,
) -> Result<Option<ChainPlan>, SendOtpError> {
    let asked = more.and_then(|more| more.channels.as_deref());
    let steps = asked.unwrap_or(&core.channels.default);
    if let [] | [ChainStep { channel: OtpChannel::Messaging, .. }] = steps {
        return Ok(None);
    }
    let email = more.and_then(|more| more.email.clone());
    for ChainStep { channel, .. } in steps {
        check_channel(core, *channel)?;
        if *channel == OtpChannel::Email && email.is_none() {
            return Err(SendOtpError::EmailMissing);
        }
    }
    let steps = timed_all(core, steps);
    Ok(Some(ChainPlan { steps, email, only: false, adopts: None }))
}

/// Returns the chain of a resend; `None` if it is a message of a request without a chain.
pub(super) fn plan_again(
    core: &Core,
    id: RequestId,
    only: Option<OtpChannel>,
) -> Result<Option<ChainPlan>, SendOtpError> {
    let chain = core.hot.otps.chains.get(id);
    let Some(channel) = only else {
        let again = |chain: &Chain| {
            let (steps, email) = (chain.steps.clone(), chain.plan.email.clone());
            ChainPlan { steps, email, only: false, adopts: None }
        };
        return Ok(chain.map(again));
    };
    check_channel(core, channel)?;
    let email = chain.and_then(|chain| chain.plan.email.clone());
    if channel == OtpChannel::Email && email.is_none() {
        return Err(SendOtpError::NoEmail);
    }
    let adopts = match chain {
        None if channel == OtpChannel::Messaging => return Ok(None),
        None => Some(core.rules.prices.otp),
        Some(_) => None,
    };
    let planned = chain.and_then(|chain| chain.steps.iter().find(|step| step.channel == channel));
    let step = planned.copied().unwrap_or(ChainStep { channel, timeout_seconds: 0 });
    Ok(Some(ChainPlan { steps: vec![timed(core, step)], email, only: true, adopts }))
}

fn check_channel(core: &Core, channel: OtpChannel) -> Result<(), SendOtpError> {
    let is_set_up = match channel {
        OtpChannel::Messaging => true,
        OtpChannel::Sms => core.channels.sms,
        OtpChannel::Email => core.channels.mail,
    };
    if is_set_up { Ok(()) } else { Err(SendOtpError::ChannelNotConfigured(channel)) }
}

/// Returns the chain of requests that name none.
pub(crate) fn chain_in_force(core: &Core) -> Vec<ChainStep> {
    let alone = [ChainStep { channel: OtpChannel::Messaging, timeout_seconds: 0 }];
    let steps = &core.channels.default;
    timed_all(core, if steps.is_empty() { &alone } else { steps })
}

/// Returns the steps with their times.
fn timed_all(core: &Core, steps: &[ChainStep]) -> Vec<ChainStep> {
    steps.iter().map(|step| timed(core, *step)).collect()
}

/// Returns a step with its time; one that names none has that of the settings.
fn timed(core: &Core, step: ChainStep) -> ChainStep {
    let timeout_seconds = match step.timeout_seconds {
        0 => core.rules.otp.step_timeout_seconds,
        named => named,
    };
    ChainStep { timeout_seconds, ..step }
}
