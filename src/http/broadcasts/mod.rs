//! Serves broadcasts: one template sent to many recipients.

mod control;
mod create;
mod preview;
mod read;
mod recipients;

use postrider_actors::domain::BroadcastId;
use postrider_actors::{BroadcastError, CreateBroadcastError, RetryBroadcastError};

use super::pipeline::{ApiError, Call, Code, Principal, Routes};
use super::templates::template_refusal;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .merge(create::routes())
        .merge(preview::routes())
        .merge(read::routes())
        .merge(control::routes())
}

/// Returns the id of the broadcast that the path names. The broadcast may not exist.
async fn broadcast_id(call: &mut Call<Principal>) -> Result<BroadcastId, ApiError> {
    call.path("broadcast_id", "no such broadcast").await
}

impl From<CreateBroadcastError> for ApiError {
    fn from(error: CreateBroadcastError) -> Self {
        let message = error.to_string();
        match error {
            CreateBroadcastError::NoRecipients => {
                Self::field("recipients", "must have at least one entry")
            }
            CreateBroadcastError::TooManyRecipients(most) => {
                Self::field("recipients", format_args!("must have at most {most} entries"))
            }
            CreateBroadcastError::Past => Self::field("schedule_at", "must not be in the past"),
            CreateBroadcastError::Variables { misfits, more } => {
                let said =
                    |(index, _, misfit)| format!("`recipients[{index}].variables`: {misfit}");
                let mut message = misfits.into_iter().map(said).collect::<Vec<_>>().join("; ");
                if more > 0 {
                    message.push_str(&format!("; and {more} more"));
                }
                Self::invalid(message)
            }
            CreateBroadcastError::Retried(_) => Self::new(Code::Conflict, message),
            CreateBroadcastError::Template(error) => template_refusal(error, ""),
            CreateBroadcastError::UnknownNumber(_) => {
                Self::new(Code::Unprocessable, message).because("unknown_number")
            }
            CreateBroadcastError::NotConnected => Self::new(Code::MessagingNotConnected, message),
            CreateBroadcastError::InsufficientCredits { .. } => {
                Self::new(Code::InsufficientCredits, message)
            }
            CreateBroadcastError::Unavailable(error) => error.into(),
        }
    }
}

impl From<BroadcastError> for ApiError {
    fn from(error: BroadcastError) -> Self {
        let message = error.to_string();
        match error {
            BroadcastError::NotFound => Self::new(Code::NotFound, message),
            BroadcastError::WrongState(_) | BroadcastError::NothingFailed => {
                Self::new(Code::Conflict, message)
            }
            BroadcastError::Past => Self::field("schedule_at", "must not be in the past"),
            BroadcastError::Template(error) => template_refusal(error, ""),
            BroadcastError::NotConnected => Self::new(Code::MessagingNotConnected, message),
            BroadcastError::Unavailable(error) => error.into(),
        }
    }
}

impl From<RetryBroadcastError> for ApiError {
    fn from(error: RetryBroadcastError) -> Self {
        match error {
            RetryBroadcastError::Broadcast(error) => error.into(),
            RetryBroadcastError::Create(error) => error.into(),
        }
    }
}
