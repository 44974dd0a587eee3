//! The client of the Cloud API, which sends messages, lists templates and parses callbacks.

mod answer;
mod body;
mod callback;
pub mod envelope;
mod files;
mod http;
pub mod items;
mod news;
mod queries;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use ::http::{HeaderValue, Uri};
use bytes::Bytes;
use parking_lot::Mutex;
use postrider_domain::Timestamp;
use postrider_runtime::{Clock, Secret};
use rustls::pki_types::CertificateDer;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use self::envelope::About;
use self::http::{Http, HttpAnswer, NoAnswer};
use super::{AttemptOutcome, Channel, Outbound, Sending, Trouble};

pub use self::callback::{MessageObject, identity_change, read_object};
pub use self::files::{DownloadError, Said, UploadError, UploadedFile};
pub use self::http::TlsError;
pub use self::queries::{Checkup, ListError, ListedTemplate, NumberReport};

/// The maximum number of bytes of a response that are read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The address of the Cloud API, and its timeouts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudApiOptions {
    /// The start of every URL, such as `https://graph.facebook.com`.
    pub base_url: String,
    /// The version of the API, such as `v24.0`.
    pub version: String,
    /// Root certificates that are trusted besides those of the system, such as a proxy's.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// The hosts from which received files are downloaded, beside the provider's own.
    pub media_hosts: Vec<String>,
    /// The longest wait for a connection.
    pub connect_timeout: Duration,
    /// The longest wait for a whole response, connecting included.
    ///
    /// If it ends after the request was written, the outcome is unknown.
    pub timeout: Duration,
}

impl Default for CloudApiOptions {
    fn default() -> Self {
        Self {
            base_url: "https://graph.facebook.com".to_owned(),
            version: "v24.0".to_owned(),
            extra_roots: Vec::new(),
            media_hosts: vec!["lookaside.fbsbx.com".to_owned()],
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(20),
        }
    }
}

/// An id that the provider assigns: 1 to 64 of `A-Z`, `a-z`, `0-9`, `_` and `-`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderId(Box<str>);

/// The error of a text that is not a valid [`ProviderId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to 64 of A-Z, a-z, 0-9, _ and -")]
pub struct ProviderIdError;

impl ProviderId {
    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for ProviderId {
    type Err = ProviderIdError;

    fn from_str(text: &str) -> Result<Self, ProviderIdError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let good = (1..=64).contains(&text.len()) && text.bytes().all(allowed);
        if good { Ok(Self(text.into())) } else { Err(ProviderIdError) }
    }
}

/// The ids of a number at the provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloudApiAccount {
    /// The phone number itself.
    pub phone: postrider_domain::Phone,
    /// The provider's id of the number.
    pub phone_number_id: ProviderId,
    /// The provider's id of the account to which it belongs.
    pub account_id: ProviderId,
}

/// The secrets of a number, which no log and no response may show.
#[derive(Debug, Clone)]
pub struct CloudApiSecrets {
    /// The bearer token for the API.
    pub token: Secret,
    /// The secret with which the provider signs callbacks.
    pub app_secret: Secret,
    /// The token that the provider sends when it verifies the callback address.
    pub verify_token: Secret,
}

impl CloudApiSecrets {
    /// Returns an identifier of the number's app.
    ///
    /// It is 32 hexadecimal digits of the SHA-256 of the app's secret, which cannot be computed
    /// back from them.
    #[must_use]
    pub fn app(&self) -> String {
        let digest = Sha256::digest(self.app_secret.reveal());
        digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The client of the API, which all numbers share with its connections.
#[derive(Clone)]
pub struct CloudApi {
    http: Arc<Http>,
    options: Arc<CloudApiOptions>,
}

impl CloudApi {
    /// Creates a client for the API at this address.
    ///
    /// # Errors
    /// [`TlsError`]: the certificates cannot be read.
    pub fn new(options: CloudApiOptions) -> Result<Self, TlsError> {
        let http = Arc::new(Http::new(&options)?);
        Ok(Self { http, options: Arc::new(options) })
    }

    /// Creates the client of one number.
    ///
    /// # Errors
    /// The address or the token cannot be used. The text names which one, without showing it.
    pub fn number(
        &self,
        account: &CloudApiAccount,
        secrets: CloudApiSecrets,
    ) -> Result<CloudApiNumber, &'static str> {
        let CloudApiOptions { base_url, version, media_hosts, .. } = &*self.options;
        let root = format!("{}/{version}", base_url.trim_end_matches('/'));
        let uri = |path: String| {
            format!("{root}/{path}").parse::<Uri>().map_err(|_| "the provider's address is none")
        };
        let mut authorization = HeaderValue::try_from(format!("Bearer {}", secrets.token.reveal()))
            .map_err(|_| "the token has characters that no header can have")?;
        authorization.set_sensitive(true);
        let phone_number_id = account.phone_number_id.clone();
        Ok(CloudApiNumber {
            messages: uri(format!("{}/messages", phone_number_id.as_str()))?,
            media: uri(format!("{}/media", phone_number_id.as_str()))?,
            templates: format!("{root}/{}/message_templates", account.account_id.as_str()),
            media_hosts: media_hosts.as_slice().into(),
            http: Arc::clone(&self.http),
            root,
            phone: account.phone,
            phone_number_id,
            account_id: account.account_id.clone(),
            authorization,
            secrets,
            trouble: Arc::default(),
            checkup: tokio::sync::Mutex::default(),
            fields: AtomicUsize::new(0),
        })
    }
}

/// One number of the Cloud API.
pub struct CloudApiNumber {
    http: Arc<Http>,
    /// The start of every URL.
    root: String,
    /// The hosts from which files are downloaded, beside the provider's own.
    media_hosts: Box<[String]>,
    messages: Uri,
    media: Uri,
    /// The URL of the account's templates, without the query.
    templates: String,
    phone: postrider_domain::Phone,
    phone_number_id: ProviderId,
    account_id: ProviderId,
    authorization: HeaderValue,
    secrets: CloudApiSecrets,
    /// The reason why a message was not accepted the last time.
    trouble: Arc<Mutex<Option<Trouble>>>,
    /// The provider's last report, and the time until which it is returned again.
    checkup: tokio::sync::Mutex<Option<(Checkup, Timestamp)>>,
    /// The index of the first list of fields that the provider answers, as far as it is known.
    ///
    /// Each number has its own index, because the provider may refuse a field for its token.
    fields: AtomicUsize,
}

impl CloudApiNumber {
    /// Returns an identifier of the number's app, see [`CloudApiSecrets::app`].
    pub fn app(&self) -> String {
        self.secrets.app()
    }

    /// Returns whether a part of a callback of the number's app concerns this number.
    ///
    /// A part that names neither number nor account concerns each of them.
    pub fn is_meant(&self, about: &About) -> bool {
        match about {
            About::Number(id) => id.as_deref().is_none_or(|id| id == self.phone_number_id.as_str()),
            About::Phone { account, phone } => {
                let is_account = |id: &str| id == self.account_id.as_str();
                *phone == Some(self.phone) && account.as_deref().is_none_or(is_account)
            }
            About::Account(id) => id.as_deref().is_none_or(|id| id == self.account_id.as_str()),
        }
    }

    /// Marks a message of a contact as read, with all before it.
    ///
    /// If `typing` is set, the contact sees a typing indicator until an answer arrives or for 25
    /// seconds. The call is tried once.
    ///
    /// # Errors
    /// [`NotMarked`]: the provider refused it, or cannot be reached.
    pub async fn mark_read(&self, message: &str, typing: bool) -> Result<(), NotMarked> {
        let mut body =
            json!({"messaging_product": "whatsapp", "status": "read", "message_id": message});
        if typing {
            body["typing_indicator"] = json!({"type": "text"});
        }
        let (uri, authorization) = (self.messages.clone(), self.authorization.clone());
        let body = body.to_string().into_bytes();
        match self.http.post(uri, authorization, body, ANSWER_BYTES_MAX).await {
            Ok(HttpAnswer { status: 200..300, .. }) => Ok(()),
            Ok(answer) => Err(NotMarked(answer::trouble(&answer).cause)),
            Err(error) => Err(NotMarked(error.to_string().into())),
        }
    }

    /// Returns the provider's report on the number.
    ///
    /// Within half a minute the provider is not asked again: the last answer is returned, with its
    /// time.
    pub async fn checkup(&self, clock: &Clock) -> Checkup {
        queries::checkup(self, clock).await
    }

    /// Uploads a file, and returns the provider's id of it, which is valid only for this number.
    ///
    /// # Errors
    /// [`UploadError`]: the provider refuses the file, or did not accept it now.
    pub async fn upload(&self, file: UploadedFile) -> Result<Box<str>, UploadError> {
        files::upload(self, file).await
    }

    /// Downloads a file of at most `bytes_max` bytes.
    ///
    /// The token is sent only to the provider and to the hosts of its files, and redirects are not
    /// followed. Returns the provider's statement about the file.
    ///
    /// # Errors
    /// [`DownloadError`]: the provider does not hand it out, or not now. The parts that were handed
    /// on are then not the whole file.
    pub async fn download(
        &self,
        id: &ProviderId,
        bytes_max: u64,
        parts: mpsc::Sender<Bytes>,
    ) -> Result<Said, DownloadError> {
        files::download(self, id, bytes_max, parts).await
    }
}

impl Channel for CloudApiNumber {
    fn send(&self, message: Outbound) -> Sending {
        let (http, uri) = (Arc::clone(&self.http), self.messages.clone());
        let (authorization, body) = (self.authorization.clone(), body::json_of(&message));
        let (trouble, to) = (Arc::clone(&self.trouble), message.to);
        Box::pin(async move {
            match http.post(uri, authorization, body, ANSWER_BYTES_MAX).await {
                Ok(answer) => {
                    let outcome = answer::outcome(&answer, &to);
                    if matches!(outcome, AttemptOutcome::Retry { .. }) {
                        *trouble.lock() = Some(answer::trouble(&answer));
                    }
                    outcome
                }
                Err(NoAnswer::NotWritten(cause)) => {
                    *trouble.lock() = Some(Trouble { cause, details: Box::default() });
                    AttemptOutcome::Retry { after: None }
                }
                Err(NoAnswer::Lost) => AttemptOutcome::Unknown,
            }
        })
    }

    fn trouble(&self) -> Option<Trouble> {
        self.trouble.lock().clone()
    }
}

impl fmt::Debug for CloudApiNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("CloudApiNumber");
        shown.field("phone_number_id", &self.phone_number_id).finish_non_exhaustive()
    }
}

/// The error of a mark that the provider did not accept, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the channel did not take it: {0}")]
pub struct NotMarked(Box<str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_fits_into_a_path() {
        for good in ["1", "106540352242922", "a_B-9", &"7".repeat(64)] {
            assert!(good.parse::<ProviderId>().is_ok(), "{good}");
        }
        for bad in ["", "1/2", "1?x", "..", "1 2", "é", &"7".repeat(65)] {
            assert!(bad.parse::<ProviderId>().is_err(), "{bad}");
        }
    }

    fn api_and_account() -> (Result<CloudApi, TlsError>, CloudApiAccount) {
        let api = CloudApi::new(CloudApiOptions {
            base_url: "http://127.0.0.1:9/".to_owned(),
            ..Default::default()
        });
        let account = CloudApiAccount {
            phone: "+15550001111".parse().unwrap(),
            phone_number_id: "106".parse().unwrap(),
            account_id: "107".parse().unwrap(),
        };
        (api, account)
    }

    #[test]
    fn a_phone_means_the_number_of_the_account_that_is_named_with_it() {
        let (api, account) = api_and_account();
        let [token, app_secret, verify_token] = ["a", "b", "c"].map(Secret::new);
        let secrets = CloudApiSecrets { token, app_secret, verify_token };
        let number = api.as_ref().unwrap().number(&account, secrets).unwrap();
        let is_meant = |account: Option<&str>, phone: Option<&str>| {
            let phone = phone.map(|phone| phone.parse().unwrap());
            number.is_meant(&About::Phone { account: account.map(Into::into), phone })
        };
        let own = Some("+15550001111");
        assert!(is_meant(Some("107"), own) && is_meant(None, own));
        // The callback is of an account that the phone has left, or to which it has moved.
        assert!(!is_meant(Some("108"), own));
        assert!(!is_meant(Some("107"), Some("+15550001112")) && !is_meant(Some("107"), None));
    }

    #[test]
    fn a_number_shows_no_secret() {
        let (api, account) = api_and_account();
        let secret = |text: &str| Secret::new(text);
        let secrets = |token: &str| CloudApiSecrets {
            token: secret(token),
            app_secret: secret("hush2"),
            verify_token: secret("hush3"),
        };
        let number = api.as_ref().unwrap().number(&account, secrets("hush1")).unwrap();
        assert!(!format!("{number:?} {:?}", secrets("hush1")).contains("hush"));
        assert!(!format!("{:?}", number.authorization).contains("hush"));
        assert_eq!(number.messages, "http://127.0.0.1:9/v24.0/106/messages");
        assert!(api.unwrap().number(&account, secrets("line\nbreak")).is_err());
    }
}
