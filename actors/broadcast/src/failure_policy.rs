//! Pure: decides whether the failure of one message pauses or fails its broadcast.

use postrider_channel::{Failure, FailureClass};

/// The consequence of a failure for the whole broadcast.
#[derive(Debug)]
pub enum Verdict {
    /// The broadcast must be paused for this reason. The message may be sent later.
    Pause(Box<str>),
    /// The broadcast must fail for this reason.
    Fail(Box<str>),
}

/// Returns the consequence for the broadcast, or `None` if the failure concerns only one message.
/// `personal` says that each recipient has parameters of their own. Then a refusal of one
/// recipient's says nothing about another's.
#[must_use]
pub fn verdict(failure: &Failure, personal: bool) -> Option<Verdict> {
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
        FailureClass::TemplateLimited => Some(Verdict::Pause(with("the template is limited"))),
        FailureClass::TemplateDisabled => Some(Verdict::Fail(with("the template is disabled"))),
        FailureClass::Parameters if personal => None,
        FailureClass::Template | FailureClass::Parameters => {
            Some(Verdict::Fail(with("the channel refuses the template")))
        }
        FailureClass::Permanent
        | FailureClass::Country
        | FailureClass::WindowClosed
        | FailureClass::MarketingHeldBack
        | FailureClass::OptedOut
        | FailureClass::Unrecognized => None,
    }
}
