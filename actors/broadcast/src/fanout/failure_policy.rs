//! What the failure of a message says about the broadcast.

use postrider_channel::{Failure, FailureClass};

/// What a failure means for the whole broadcast.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It is held; the message may be sent later.
    Pause(Box<str>),
    /// It is over.
    Fail(Box<str>),
}

/// What it means, unless it is one message's own.
pub(super) fn verdict(failure: &Failure) -> Option<Verdict> {
    let with = |what: &str| match &*failure.details {
        "" => Box::from(what),
        details => format!("{what}: {details}").into(),
    };
    match failure.class {
        FailureClass::Account => Some(Verdict::Pause(with("the messaging account cannot send"))),
        FailureClass::SpamLimit => {
            Some(Verdict::Pause(with("recipients have marked too many messages as spam")))
        }
        FailureClass::TemplatePaused => Some(Verdict::Pause(with("the template is paused"))),
        FailureClass::TemplateDisabled => Some(Verdict::Fail(with("the template is disabled"))),
        FailureClass::Template => Some(Verdict::Fail(with("the channel refuses the template"))),
        FailureClass::Permanent
        | FailureClass::Country
        | FailureClass::WindowClosed
        | FailureClass::MarketingHeldBack
        | FailureClass::OptedOut => None,
    }
}
