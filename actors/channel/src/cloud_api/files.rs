//! Uploads files to the provider, and downloads files that people have sent.
//!
//! Neither holds a whole file: an upload is a form whose largest field is streamed, and a download
//! is handed on in parts as they arrive.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderValue, Uri};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;

use super::callback::UNKNOWN_TYPE;
use super::http::{HttpAnswer, NotFetched, UploadForm};
use super::{ANSWER_BYTES_MAX, CloudApiNumber, ProviderId, answer};
use crate::Failure;

/// The maximum number of bytes of the provider's id of a file.
const FILE_ID_BYTES_MAX: usize = 512;

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
struct UploadAnswer {
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
    let form =
        UploadForm { content_type, before: before.into(), parts, length, after: after.into() };
    let (uri, authorization) = (number.media.clone(), number.authorization.clone());
    let answer = number.http.post_form(uri, authorization, form, ANSWER_BYTES_MAX).await;
    let answer = answer.map_err(|error| UploadError::NotTaken(error.to_string().into()))?;
    upload_outcome(&answer)
}

fn upload_outcome(answer: &HttpAnswer) -> Result<Box<str>, UploadError> {
    if (200..300).contains(&answer.status) {
        let taken = serde_json::from_slice::<UploadAnswer>(&answer.body).ok();
        return taken
            .map(|taken| taken.id)
            .filter(|id| (1..=FILE_ID_BYTES_MAX).contains(&id.len()))
            .ok_or_else(|| UploadError::NotTaken("the answer names no file".into()));
    }
    match answer::refusal(answer) {
        Some(failure) => Err(UploadError::Refused(failure)),
        None => Err(UploadError::NotTaken(answer::trouble(answer).cause)),
    }
}

/// The reason why a file was not downloaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DownloadError {
    /// The provider refuses to hand it out, now and later.
    #[error("the channel refuses it: {0}")]
    Refused(Box<str>),
    /// The file is larger than allowed.
    #[error("it is too large")]
    TooLarge,
    /// The address of the file must not get the token.
    #[error("it is at an address that is not trusted")]
    UntrustedHost,
    /// The download failed for now. It may be tried again.
    #[error("the channel did not give it out: {0}")]
    NotNow(Box<str>),
}

#[derive(Deserialize)]
struct FileAddress {
    url: Box<str>,
    #[serde(flatten)]
    said: Said,
}

/// The provider's statement about a file that it hands out, as far as it makes one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Said {
    mime_type: Option<Value>,
    /// The hash in hexadecimal digits.
    sha256: Option<Value>,
    file_size: Option<Value>,
}

impl Said {
    /// Returns whether the statement agrees with a content, and with the type from the callback.
    #[must_use]
    pub fn is_of(&self, mime_type: &str, length: u64, sha256: &[u8; 32]) -> bool {
        let text = |said: &Option<Value>| {
            said.as_ref().and_then(Value::as_str).filter(|said| !said.is_empty()).map(str::to_owned)
        };
        let kind = |said: &str| said.split(';').next().unwrap_or_default().trim().to_owned();
        // The type of a file is not known if it could not be stored.
        let is_kind = |said: String| {
            mime_type == UNKNOWN_TYPE || kind(&said).eq_ignore_ascii_case(&kind(mime_type))
        };
        let hex: String = sha256.iter().map(|byte| format!("{byte:02x}")).collect();
        // The form of a hash in callbacks.
        let base64 = STANDARD.encode(sha256);
        text(&self.mime_type).is_none_or(is_kind)
            && text(&self.sha256)
                .is_none_or(|said| said.eq_ignore_ascii_case(&hex) || said == base64)
            && self.bytes().is_none_or(|said| said == Some(length))
    }

    /// Returns the number of bytes; `Some(None)` if the statement has no valid number.
    fn bytes(&self) -> Option<Option<u64>> {
        match self.file_size.as_ref()? {
            Value::Number(said) => Some(said.as_u64()),
            Value::String(said) if !said.is_empty() => Some(said.parse().ok()),
            _ => None,
        }
    }
}

pub(super) async fn download(
    number: &CloudApiNumber,
    id: &ProviderId,
    bytes_max: u64,
    parts: mpsc::Sender<Bytes>,
) -> Result<Said, DownloadError> {
    let (place, said) = file_address(number, id).await?;
    if said.bytes().flatten().is_some_and(|bytes| bytes > bytes_max) {
        return Err(DownloadError::TooLarge);
    }
    let authorization = number.authorization.clone();
    match number.http.fetch(place, authorization, bytes_max, parts).await {
        Ok(200) => Ok(said),
        // The address is valid for minutes: the next attempt asks for another one.
        Ok(status) => Err(DownloadError::NotNow(format!("HTTP status {status}").into())),
        Err(NotFetched::TooLarge) => Err(DownloadError::TooLarge),
        Err(NotFetched::Cut(cause)) => Err(DownloadError::NotNow(cause)),
    }
}

/// Asks for the address of a file, and for the statement about it.
async fn file_address(
    number: &CloudApiNumber,
    id: &ProviderId,
) -> Result<(Uri, Said), DownloadError> {
    let not_now = |cause: &str| DownloadError::NotNow(cause.into());
    let uri = format!("{}/{}", number.root, id.as_str()).parse::<Uri>();
    let uri = uri.map_err(|_| not_now("the provider's address is none"))?;
    let answer = number.http.get(uri, number.authorization.clone(), ANSWER_BYTES_MAX).await;
    let answer = answer.map_err(|error| not_now(&error.to_string()))?;
    if answer.status != 200 {
        return Err(match answer::refusal(&answer) {
            Some(failure) => DownloadError::Refused(failure.details),
            None => DownloadError::NotNow(answer::trouble(&answer).cause),
        });
    }
    let place = serde_json::from_slice::<FileAddress>(&answer.body);
    let FileAddress { url, said } = place.map_err(|_| not_now("the answer names no file"))?;
    let place = url.parse::<Uri>().ok().filter(|place| may_have_token(number, place));
    place.map(|place| (place, said)).ok_or(DownloadError::UntrustedHost)
}

/// Returns whether the token may be sent to this address.
///
/// It may be sent to the provider's own address, and over HTTPS to the hosts of its files.
fn may_have_token(number: &CloudApiNumber, place: &Uri) -> bool {
    let Some(authority) = place.authority() else { return false };
    let own = number.root.parse::<Uri>().ok();
    let is_own =
        own.is_some_and(|own| own.scheme() == place.scheme() && own.authority() == Some(authority));
    let is_usual =
        place.scheme_str() == Some("https") && authority.port_u16().is_none_or(|port| port == 443);
    let host = authority.host();
    let is_known =
        || is_usual && number.media_hosts.iter().any(|known| known.eq_ignore_ascii_case(host));
    !authority.as_str().contains('@') && (is_own || is_known())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Said;
    use crate::cloud_api::{CloudApi, CloudApiAccount, CloudApiOptions, CloudApiSecrets};
    use postrider_runtime::Secret;

    #[test]
    fn what_is_said_of_a_file_must_be_so() {
        let hash = [0xab; 32];
        let hex = "AB".repeat(32);
        for (said, is_so) in [
            (json!({}), true),
            (json!({"mime_type": null, "sha256": 7, "file_size": [1]}), true),
            (json!({"mime_type": "AUDIO/ogg; codecs=opus", "sha256": hex, "file_size": 3}), true),
            (json!({"file_size": "3"}), true),
            (json!({"mime_type": "", "sha256": "", "file_size": ""}), true),
            (json!({"sha256": "q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s="}), true),
            (json!({"mime_type": "image/png"}), false),
            (json!({"sha256": "cd".repeat(32)}), false),
            (json!({"file_size": 4}), false),
            (json!({"file_size": "4"}), false),
            (json!({"file_size": -3}), false),
            (json!({"file_size": 2.5}), false),
            (json!({"file_size": "three"}), false),
            (json!({"sha256": "abc"}), false),
            (json!({"mime_type": "none"}), false),
        ] {
            let read: Said = serde_json::from_value(said.clone()).unwrap();
            assert_eq!(read.is_of("audio/ogg", 3, &hash), is_so, "{said}");
        }
        let read: Said = serde_json::from_value(json!({"mime_type": "a/b"})).unwrap();
        assert!(read.is_of(super::UNKNOWN_TYPE, 3, &hash));
    }

    #[test]
    fn the_token_goes_to_the_providers_hosts_only() {
        let api = CloudApi::new(CloudApiOptions {
            base_url: "http://127.0.0.1:9".to_owned(),
            media_hosts: vec!["files.example.com".to_owned()],
            ..Default::default()
        });
        let account = CloudApiAccount {
            phone: "+15550001111".parse().unwrap(),
            phone_number_id: "106".parse().unwrap(),
            account_id: "107".parse().unwrap(),
        };
        let secret = || Secret::new("s");
        let secrets =
            CloudApiSecrets { token: secret(), app_secret: secret(), verify_token: secret() };
        let number = api.unwrap().number(&account, secrets).unwrap();
        for (place, expected) in [
            ("http://127.0.0.1:9/a?b=c", true),
            ("https://files.example.com/a", true),
            ("https://FILES.example.com:443/a", true),
            ("http://files.example.com/a", false),
            ("https://files.example.com:444/a", false),
            ("https://files.example.com.evil.example/a", false),
            ("https://files.example.com@evil.example/a", false),
            ("https://a@files.example.com/a", false),
            ("https://127.0.0.1:9/a", false),
            ("http://127.0.0.1:8/a", false),
            ("/a", false),
        ] {
            assert_eq!(
                super::may_have_token(&number, &place.parse().unwrap()),
                expected,
                "{place}"
            );
        }
    }
}
