//! Pure: the changes of a broadcast's status, and the failures of messages that require one.

use std::time::Duration;

use postrider_channel::{Failure, FailureClass};
use postrider_domain::template::TemplateStatus;
use postrider_domain::{NumberId, Unavailable};

use crate::record::BroadcastStatus;

/// The reason of a broadcast that is paused because the channel paused its template.
pub const TEMPLATE_PAUSED: &str = "the template is paused";
/// The reason of a broadcast that fails because its template is not approved any more.
pub const TEMPLATE_GONE: &str = "the template is not approved any more";

/// The refusal of a broadcast's template to a number. It concerns the number's account, not those
/// of other numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TemplateRefusal {
    /// The number.
    pub number: NumberId,
    /// The status of the template in that account. It is `None` if the answer has no status: the
    /// account does not have the template, or has it with other parameters.
    pub status: Option<TemplateStatus>,
}

impl TemplateRefusal {
    /// Returns the refusal in a failure of a message that left through a number. It is `None` if
    /// the failure is not about the template. `personal` says that each recipient has parameters of
    /// their own.
    #[must_use]
    pub const fn of(failure: &Failure, number: NumberId, personal: bool) -> Option<Self> {
        use FailureClass::{
            Parameters, Template, TemplateDisabled, TemplateLimited, TemplatePaused,
        };
        match failure.class {
            Parameters if personal => None,
            Parameters | Template | TemplateDisabled | TemplateLimited | TemplatePaused => {
                Some(Self { number, status: failure.template_status() })
            }
            _ => None,
        }
    }
}

/// A change of a broadcast's status.
#[derive(Debug, Clone)]
pub enum Control {
    /// It starts, because it is due.
    Begin {
        /// The time since it became due.
        late: Duration,
    },
    /// It pauses.
    Pause {
        /// The reason, unless a user requested the pause.
        reason: Option<Box<str>>,
        /// The refusal of its template, if that is the reason. It goes on if numbers of other
        /// accounts can send the template.
        refusal: Option<TemplateRefusal>,
    },
    /// It resumes.
    Resume,
    /// It is cancelled.
    Cancel,
    /// It fails.
    Fail {
        /// The reason why it cannot continue.
        reason: Box<str>,
        /// The refusal of its template, if that is the reason. It goes on if numbers of other
        /// accounts can send the template.
        refusal: Option<TemplateRefusal>,
    },
    /// It is finished: every claimed message has an outcome, and nothing more is claimed.
    Finish,
}

/// The reason for which a change of status was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// No broadcast has that id.
    #[error("no such broadcast")]
    NotFound,
    /// Its status does not allow the change, because another command changed it.
    #[error("the broadcast is {}", .0.as_str())]
    WrongState(BroadcastStatus),
    /// The workspace's rules forbid the change. The text says why.
    #[error("{0}")]
    Refused(Box<str>),
    /// The workspace cannot accept it now. The fan-out retries.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

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
