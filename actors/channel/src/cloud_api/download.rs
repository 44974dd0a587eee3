//! Downloads a file that somebody has sent, and hands it on in parts as they come.

use bytes::Bytes;
use http::Uri;
use serde::Deserialize;
use tokio::sync::mpsc;

use super::http::NotFetched;
use super::{ANSWER_BYTES_MAX, CloudApiNumber, ProviderId, answer};

/// Why a file was not downloaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DownloadError {
    /// The provider does not give it out, and will not later.
    #[error("the channel refuses it: {0}")]
    Refused(Box<str>),
    /// It has more bytes than it may.
    #[error("it is too large")]
    TooLarge,
    /// It is at an address that must not get the token.
    #[error("it is at an address that is not trusted")]
    UntrustedHost,
    /// Not now. It may be tried again.
    #[error("the channel did not give it out: {0}")]
    NotNow(Box<str>),
}

#[derive(Deserialize)]
struct Place {
    url: Box<str>,
}

pub(super) async fn download(
    number: &CloudApiNumber,
    id: &ProviderId,
    bytes_max: u64,
    parts: mpsc::Sender<Bytes>,
) -> Result<(), DownloadError> {
    let place = place_of(number, id).await?;
    let authorization = number.authorization.clone();
    match number.http.fetch(place, authorization, bytes_max, parts).await {
        Ok(200) => Ok(()),
        // Its address is good for minutes: the next try asks for another one.
        Ok(status) => Err(DownloadError::NotNow(format!("HTTP status {status}").into())),
        Err(NotFetched::TooLarge) => Err(DownloadError::TooLarge),
        Err(NotFetched::Cut(cause)) => Err(DownloadError::NotNow(cause)),
    }
}

/// Asks where a file is.
async fn place_of(number: &CloudApiNumber, id: &ProviderId) -> Result<Uri, DownloadError> {
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
    let place = serde_json::from_slice::<Place>(&answer.body);
    let place = place.map_err(|_| not_now("the answer names no file"))?;
    let place = place.url.parse::<Uri>().ok().filter(|place| may_have_token(number, place));
    place.ok_or(DownloadError::UntrustedHost)
}

/// Whether the token may go to this address: to the provider's own, and over HTTPS to the hosts
/// of its files.
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
    use crate::cloud_api::{CloudApi, CloudApiAccount, CloudApiOptions, CloudApiSecrets};
    use postrider_runtime::Secret;

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
