//! Carries out the steps of chains by SMS and mail, one task for each, and settles them.
//!
//! A step was claimed and paid before it comes here. A call that surely was not taken is repeated
//! while the step lasts. A call that may have been taken is made once.

use std::sync::{Arc, Weak};
use std::time::Duration;

use CallOutcome::{Ended, NotTaken};
use postrider_channel::email::{MailOptions, Mailed, OutgoingMail, hand_over};
use postrider_channel::sandbox::{Sandbox, SandboxCode, ScriptedOutcome, deliver_code, take_code};
use postrider_domain::event::chain::{OtpChannel, TryStatus};
use postrider_domain::otp_text::filled;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{Email, RequestId, Timestamp, WorkspaceId, json};
use postrider_runtime::clock::Clock;
use postrider_runtime::flow::Backoff;
use postrider_runtime::hold::TENURE_AGAIN_AFTER;
use postrider_webhook::GatewayClient;
use postrider_webhook::client::{Answer, NoAnswer};
use serde::Serialize;

use crate::Workspace;
use crate::core::command::{Command, Context, Footprint};
use crate::core::otp::failover;
use crate::core::otp::failover_plan::StepCall;
use crate::otp::sms::{SmsGateway, SmsRoute};
use crate::services::Services;

/// The pause after a step that was surely not taken.
const RETRY: Backoff = Backoff { min: Duration::from_secs(1), max: Duration::from_secs(16) };
/// The time that a `slow` sandbox takes, in engine time.
const SLOW: Duration = Duration::from_secs(5);
/// The number of tries to note an outcome while storage fails.
const SETTLE_TRIES: usize = 20;

/// The outcome of one call.
enum CallOutcome {
    Ended(TryStatus, Option<u32>),
    /// The call surely was not taken.
    NotTaken(Option<Duration>),
}

/// Starts to carry out a step.
pub(crate) fn begin(services: Weak<Services>, workspace: WorkspaceId, call: StepCall) {
    drop(tokio::spawn(async move {
        if let Err(why) = carry_out(&services, &workspace, &call).await {
            let (request, step) = (call.request, call.number);
            tracing::warn!(%workspace, %request, step, %why, "what became of a step is not noted");
        }
    }));
}

fn handle(services: &Weak<Services>, workspace: &WorkspaceId) -> Option<Workspace> {
    let shared = services.upgrade()?;
    let slot = shared.workspaces.slot(workspace)?;
    Some(Workspace::new(shared, slot))
}

async fn carry_out(
    services: &Weak<Services>,
    workspace: &WorkspaceId,
    call: &StepCall,
) -> Result<(), Unavailable> {
    let mut failures = 0;
    loop {
        let Some(of) = handle(services, workspace) else { return Ok(()) };
        let (means, clock) = (means(&of, call).await, of.shared.clock.clone());
        let may_leave = of.shared.hold.lets_out();
        // While a caller waits, nothing keeps an engine that was dropped.
        drop(of);
        let called = match means {
            means if may_leave => call_once(means, &clock, workspace, call).await,
            _ => NotTaken(Some(TENURE_AGAIN_AFTER)),
        };
        let after = match called {
            Ended(status, error) => return settle(services, workspace, call, status, error).await,
            NotTaken(after) => after.unwrap_or_else(|| RETRY.delay(failures)),
        };
        failures += 1;
        let at = clock.now().plus(after.max(RETRY.min));
        if at >= call.until {
            return settle(services, workspace, call, TryStatus::Failed, None).await;
        }
        clock.sleep_until(at).await;
        let Some(of) = handle(services, workspace) else { return Ok(()) };
        if !of.perform(IsStepWanted(call.request, call.number)).await.unwrap_or(true) {
            drop(of);
            return settle(services, workspace, call, TryStatus::Failed, None).await;
        }
    }
}

async fn settle(
    services: &Weak<Services>,
    workspace: &WorkspaceId,
    call: &StepCall,
    status: TryStatus,
    error: Option<u32>,
) -> Result<(), Unavailable> {
    let mut tries = 0;
    loop {
        let Some(of) = handle(services, workspace) else { return Ok(()) };
        let settled = of.perform(SettleStep(call.request, call.number, status, error)).await;
        drop(of);
        tries += 1;
        match settled {
            Err(why) if why.reason != UnavailableReason::Draining && tries < SETTLE_TRIES => {
                tokio::time::sleep(why.retry_after).await;
            }
            settled => return settled,
        }
    }
}

/// The means by which a step is carried out.
enum Means {
    Sandbox(Arc<Sandbox>),
    Gateway {
        client: Arc<GatewayClient>,
        gateway: SmsGateway,
        url: String,
    },
    Mail(Box<MailOptions>),
    /// None: this is the outcome.
    None(CallOutcome),
}

async fn means(of: &Workspace, call: &StepCall) -> Means {
    let workers = &of.shared.step_workers;
    match call.channel {
        OtpChannel::Sms => match of.sms_gateway().await {
            Ok(Some(gateway)) => match gateway.route.clone() {
                SmsRoute::Sandbox => Means::Sandbox(Arc::clone(&workers.sandbox)),
                SmsRoute::Http { url } => match workers.client(&of.shared.webhooks.options) {
                    Some(client) => Means::Gateway { client, gateway, url },
                    None => Means::None(NotTaken(None)),
                },
            },
            Ok(None) => Means::None(Ended(TryStatus::Failed, None)),
            Err(_) => Means::None(NotTaken(None)),
        },
        OtpChannel::Email => match &of.shared.mailer.options {
            Some(options) => Means::Mail(Box::new(options.clone())),
            None => Means::Sandbox(Arc::clone(&workers.sandbox)),
        },
        // A number carries it out.
        OtpChannel::Messaging => Means::None(Ended(TryStatus::Failed, None)),
    }
}

async fn call_once(
    means: Means,
    clock: &Clock,
    workspace: &WorkspaceId,
    call: &StepCall,
) -> CallOutcome {
    match means {
        Means::Sandbox(sandbox) => in_sandbox(&sandbox, clock, workspace, call).await,
        Means::Gateway { client, gateway, url } => {
            let id = format!("{}:{}", call.request, call.number);
            let Some(body) = gateway_body(&id, &gateway, clock, call) else {
                return Ended(TryStatus::Failed, None);
            };
            let to = (workspace, url.as_str());
            read_answer(client.post(to, &id, &gateway.secret, body, clock.real()).await)
        }
        Means::Mail(options) => mail(&options, clock, call).await,
        Means::None(called) => called,
    }
}

/// Returns the text of a step with its code and the minutes that it is valid.
fn text_of(text: &str, call: &StepCall, now: Timestamp) -> String {
    let minutes = call.expires_at.since(now).as_secs().div_ceil(60).max(1);
    filled(text, &call.code.reveal(), minutes)
}

async fn in_sandbox(
    sandbox: &Sandbox,
    clock: &Clock,
    workspace: &WorkspaceId,
    call: &StepCall,
) -> CallOutcome {
    let text = match call.channel {
        OtpChannel::Email => &call.text.email_text,
        OtpChannel::Messaging | OtpChannel::Sms => &call.text.sms,
    };
    let code = SandboxCode {
        request: call.request,
        number: call.number,
        channel: call.channel,
        phone: call.phone,
        email: call.email.clone(),
        text: text_of(text, call, clock.now()),
        code: call.code,
    };
    // Mail has no receipts.
    let arrives = call.channel == OtpChannel::Sms;
    let taken = if arrives { TryStatus::Delivered } else { TryStatus::Sent };
    match take_code(sandbox, workspace, code.clone()) {
        ScriptedOutcome::Sent => Ended(taken, None),
        ScriptedOutcome::Silent | ScriptedOutcome::Held => Ended(TryStatus::Sent, None),
        ScriptedOutcome::Failed { error_code } => Ended(TryStatus::Failed, Some(error_code)),
        ScriptedOutcome::Unavailable => NotTaken(None),
        ScriptedOutcome::Lost => Ended(TryStatus::Unknown, None),
        ScriptedOutcome::Slow => {
            clock.sleep_until(clock.now().plus(SLOW)).await;
            deliver_code(sandbox, workspace, code);
            Ended(taken, None)
        }
    }
}

/// The body of a request to a gateway; without `Debug`, as it has the code.
#[derive(Serialize)]
struct GatewayBody<'a> {
    id: &'a str,
    r#type: &'a str,
    to: String,
    from: Option<&'a str>,
    text: String,
    language: &'a str,
    expires_at: String,
}

fn gateway_body(id: &str, gateway: &SmsGateway, clock: &Clock, call: &StepCall) -> Option<Vec<u8>> {
    let body = GatewayBody {
        id,
        r#type: "otp",
        to: call.phone.to_string(),
        from: gateway.sender.as_deref(),
        text: text_of(&call.text.sms, call, clock.now()),
        language: &call.language,
        expires_at: call.expires_at.to_string(),
    };
    serde_json::to_vec(&body).ok()
}

/// Interprets the answer of a gateway.
fn read_answer(answer: Answer) -> CallOutcome {
    let (status, retry_after, text) = match answer {
        Answer::Status { status, retry_after, text, .. } => (status, retry_after, text),
        // No request was sent.
        Answer::None(NoAnswer::ConnectionFailed) => return NotTaken(None),
        Answer::None(NoAnswer::BlockedAddress | NoAnswer::InvalidUrl) => {
            return Ended(TryStatus::Failed, None);
        }
        Answer::None(_) => return Ended(TryStatus::Unknown, None),
    };
    let text = text.map(|text| text.body).unwrap_or_default();
    let body = json::given(&text);
    // A text that is no JSON may be the page of a proxy in between.
    let is_broken = body.is_none() && !text.trim().is_empty();
    let body = body.unwrap_or_default();
    match status {
        200..=299 if is_broken => Ended(TryStatus::Unknown, None),
        200..=299 if body["status"] == "delivered" => Ended(TryStatus::Delivered, None),
        200..=299 => Ended(TryStatus::Sent, None),
        429 | 503 => NotTaken(retry_after),
        400..=499 => {
            let code = match &body["code"] {
                serde_json::Value::String(text) => text.parse().ok(),
                code => code.as_u64().and_then(|code| code.try_into().ok()),
            };
            Ended(TryStatus::Failed, code)
        }
        _ => Ended(TryStatus::Unknown, None),
    }
}

async fn mail(options: &MailOptions, clock: &Clock, call: &StepCall) -> CallOutcome {
    let to = call.email.as_deref().and_then(|email| Email::new(email).ok());
    let Some(to) = to else { return Ended(TryStatus::Failed, None) };
    let host = options.from.as_str().rsplit('@').next().unwrap_or_default().to_owned();
    let mail = OutgoingMail {
        to,
        subject: text_of(&call.text.email_subject, call, clock.now()),
        text: text_of(&call.text.email_text, call, clock.now()),
        message_id: format!("<{}.{}@{host}>", call.request, call.number),
        in_reply_to: None,
        references: Vec::new(),
        is_automatic: true,
    };
    match hand_over(options, &mail).await {
        Mailed::Sent => Ended(TryStatus::Sent, None),
        Mailed::Failed(_) => Ended(TryStatus::Failed, None),
        Mailed::Retry(_) => NotTaken(None),
        Mailed::Unknown(_) => Ended(TryStatus::Unknown, None),
    }
}

/// Returns whether a step that was not taken is still to be carried out.
struct IsStepWanted(RequestId, u8);

impl Command for IsStepWanted {
    type Answer = bool;
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<bool, Unavailable> {
        Ok(failover::is_step_wanted(context.core, self.0, self.1))
    }
}

/// The command to note the outcome of a request's step, with the error code of its channel.
pub(crate) struct SettleStep(
    pub(crate) RequestId,
    pub(crate) u8,
    pub(crate) TryStatus,
    pub(crate) Option<u32>,
);

impl Command for SettleStep {
    type Answer = ();
    type Error = Unavailable;

    const FOOTPRINT: Footprint = Footprint::Ends;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        let Self(id, number, status, error) = self;
        failover::settle_step(context.core, id, number, (status, error), context.effects);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use postrider_webhook::exchanges::AnswerText;

    use super::*;

    #[test]
    fn an_answer_of_a_gateway_counts_only_if_it_can_be_read() {
        let of = |status, body: &str| {
            let text = Box::new(AnswerText { headers: Vec::new(), body: body.to_owned() });
            let excerpt = None;
            let answer = Answer::Status { status, retry_after: None, excerpt, text: Some(text) };
            read_answer(answer)
        };
        let long = format!(r#"{{"status": "delivered", "more": "{}"}}"#, "x".repeat(5000));
        for (status, body, expected) in [
            (200, "", TryStatus::Sent),
            (204, " \n", TryStatus::Sent),
            (200, r#"{"status": "delivered"}"#, TryStatus::Delivered),
            (200, &long, TryStatus::Delivered),
            (202, r#"{"status": 0, "id": 7}"#, TryStatus::Sent),
            (200, "null", TryStatus::Sent),
            (200, "OK", TryStatus::Unknown),
            (200, "<html>", TryStatus::Unknown),
            (200, r#"{"status": "deliv"#, TryStatus::Unknown),
            (500, "", TryStatus::Unknown),
            (400, "no", TryStatus::Failed),
        ] {
            let Ended(found, None) = of(status, body) else { panic!("{status} {body}") };
            assert_eq!(found, expected, "{status} {body}");
        }
        for body in [r#"{"code": 30007}"#, r#"{"code": "30007"}"#] {
            assert!(matches!(of(422, body), Ended(TryStatus::Failed, Some(30_007))));
        }
    }
}
