//! Uploads a file to the provider, as a form whose largest field is streamed.

use bytes::Bytes;
use http::HeaderValue;
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::Failure;

use super::http::Answer;
use super::payload::Form;
use super::{ANSWER_BYTES_MAX, CloudApiNumber, answer};

/// The maximum number of bytes of the provider's id of a file.
const ID_BYTES_MAX: usize = 512;

/// A file to upload.
pub struct UploadedFile {
    /// Its type.
    pub mime_type: String,
    /// The separator of the form's fields, which must not be in the file: its own hash.
    pub boundary: String,
    /// Its length in bytes.
    pub length: u64,
    /// Its content.
    pub parts: mpsc::Receiver<Bytes>,
}

/// The reason why a file was not uploaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UploadError {
    /// The provider refuses the file.
    #[error("the channel refuses it: {}", .0.details)]
    Refused(Failure),
    /// The file was not accepted now. It may be tried again: a second upload does no harm.
    #[error("the channel did not take it: {0}")]
    NotTaken(Box<str>),
}

#[derive(Deserialize)]
struct Taken {
    id: Box<str>,
}

pub(super) async fn upload(
    number: &CloudApiNumber,
    file: UploadedFile,
) -> Result<Box<str>, UploadError> {
    let UploadedFile { mime_type, boundary, length, parts } = file;
    let field = |name: &str, more: &str, value: &str| {
        let head = format!("Content-Disposition: form-data; name=\"{name}\"{more}");
        format!("--{boundary}\r\n{head}\r\n\r\n{value}")
    };
    let product = field("messaging_product", "", "whatsapp\r\n");
    let kind = field("type", "", &format!("{mime_type}\r\n"));
    let more = format!("; filename=\"file\"\r\nContent-Type: {mime_type}");
    let before = [product, kind, field("file", &more, "")].concat();
    let after = format!("\r\n--{boundary}--\r\n");
    let content_type = format!("multipart/form-data; boundary={boundary}");
    let content_type = HeaderValue::try_from(content_type)
        .map_err(|_| UploadError::NotTaken("its boundary is none".into()))?;
    let form = Form { content_type, before: before.into(), parts, length, after: after.into() };
    let (uri, authorization) = (number.media.clone(), number.authorization.clone());
    let answer = number.http.post_form(uri, authorization, form, ANSWER_BYTES_MAX).await;
    let answer = answer.map_err(|error| UploadError::NotTaken(error.to_string().into()))?;
    outcome(&answer)
}

fn outcome(answer: &Answer) -> Result<Box<str>, UploadError> {
    if (200..300).contains(&answer.status) {
        let taken = serde_json::from_slice::<Taken>(&answer.body).ok();
        return taken
            .map(|taken| taken.id)
            .filter(|id| (1..=ID_BYTES_MAX).contains(&id.len()))
            .ok_or_else(|| UploadError::NotTaken("the answer names no file".into()));
    }
    match answer::refusal(answer) {
        Some(failure) => Err(UploadError::Refused(failure)),
        None => Err(UploadError::NotTaken(answer::trouble(answer).cause)),
    }
}
