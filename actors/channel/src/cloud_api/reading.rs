//! Reports to the provider that a message was read, and that an answer is being typed.

use serde_json::json;

use super::http::Answer;
use super::{ANSWER_BYTES_MAX, CloudApiNumber};

/// The error of a mark that the provider did not accept, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the channel did not take it: {0}")]
pub struct NotMarked(Box<str>);

pub(super) async fn mark(
    number: &CloudApiNumber,
    message: &str,
    typing: bool,
) -> Result<(), NotMarked> {
    let mut body =
        json!({"messaging_product": "whatsapp", "status": "read", "message_id": message});
    if typing {
        body["typing_indicator"] = json!({"type": "text"});
    }
    let (uri, authorization) = (number.messages.clone(), number.authorization.clone());
    let body = body.to_string().into_bytes();
    match number.http.post(uri, authorization, body, ANSWER_BYTES_MAX).await {
        Ok(Answer { status: 200..300, .. }) => Ok(()),
        Ok(answer) => Err(NotMarked(super::answer::trouble(&answer).cause)),
        Err(error) => Err(NotMarked(error.to_string().into())),
    }
}
