//! Asks the provider about the state of a number, and about the callbacks of its account.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ::http::Uri;
use postrider_domain::{Timestamp, json};
use postrider_runtime::Clock;
use serde_json::Value;

use crate::number_facts::NumberFacts;

use super::answer::is_passing;
use super::templates::{ListError, succeeded};
use super::{ANSWER_BYTES_MAX, CloudApiNumber, number_news};

/// The lists of requested fields of a number, for different tokens and API versions.
///
/// The last list shows only that the number is known.
const FIELDS: [&str; 3] = [
    "id,verified_name,quality_rating,throughput,name_status,status,\
     whatsapp_business_manager_messaging_limit,is_on_biz_app",
    "id,verified_name,quality_rating,throughput,name_status,status,\
     whatsapp_business_manager_messaging_limit",
    "id",
];
/// The error code of a field that cannot be requested.
const NO_SUCH_FIELD: Option<u32> = Some(100);
/// The time for which an answer is repeated: the provider limits such calls, for a whole account.
const HOLDS: Duration = Duration::from_secs(30);
/// The time for which the lack of an answer is repeated.
const NONE_HOLDS: Duration = Duration::from_secs(5);

/// The provider's report on a number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NumberReport {
    /// The name that recipients see.
    pub verified_name: Option<Box<str>>,
    /// The provider's word for its state, such as `CONNECTED`.
    pub status: Option<Box<str>>,
    /// The facts that callbacks report too.
    pub facts: NumberFacts,
}

/// The provider's report on a number and on its callbacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkup {
    /// The time of the request.
    pub asked_at: Timestamp,
    /// The state of the number.
    pub report: Result<NumberReport, ListError>,
    /// The number of apps that get the callbacks of the number's account. Without one none arrives.
    pub subscribed: Result<usize, ListError>,
    /// The time at which the token expires; `None` if it does not, or the provider does not report
    /// it.
    pub token_expires_at: Option<Timestamp>,
}

/// Asks the provider, or returns its last answer if that is recent. Calls wait for each other.
pub(super) async fn checkup(number: &CloudApiNumber, clock: &Clock) -> Checkup {
    let mut last = number.checkup.lock().await;
    let asked_at = clock.now();
    if let Some((last, until)) = &*last
        && asked_at < *until
    {
        return last.clone();
    }
    let report = report(number).await;
    let subscribed = match &report {
        // The request would get the same answer.
        Err(error) => Err(error.clone()),
        Ok(_) => subscribed_apps(number).await,
    };
    let token_expires_at = match &report {
        Err(_) => None,
        Ok(_) => token_expires_at(number).await,
    };
    let is_none = report == Err(ListError::Unreachable);
    let until = clock.now().plus(if is_none { NONE_HOLDS } else { HOLDS });
    let checkup = Checkup { asked_at, report, subscribed, token_expires_at };
    *last = Some((checkup.clone(), until));
    checkup
}

/// Asks the provider for its report on the number.
async fn report(number: &CloudApiNumber) -> Result<NumberReport, ListError> {
    let mut answer = Err(ListError::Unreadable);
    let from = number.fields.load(Ordering::Relaxed);
    for (at, fields) in FIELDS.iter().enumerate().skip(from) {
        answer = ask(number, number.phone_number_id.as_str(), &format!("?fields={fields}")).await;
        // A request for fewer fields may be answered.
        if !matches!(&answer, Err(ListError::Refused(it)) if it.code == NO_SUCH_FIELD) {
            // This API version lacks the newest field, or the token may not read it.
            if answer.is_ok() && at == 1 {
                number.fields.store(at, Ordering::Relaxed);
            }
            break;
        }
    }
    let value = answer?;
    Ok(NumberReport {
        verified_name: number_news::word(&value["verified_name"]),
        status: number_news::word(&value["status"]),
        facts: number_news::reported(&value),
    })
}

/// Asks when the number's token expires, if it does and the provider reports it.
///
/// Not every token can be asked about, so a missing answer is no fault.
async fn token_expires_at(number: &CloudApiNumber) -> Option<Timestamp> {
    let token = number.authorization.to_str().ok()?.strip_prefix("Bearer ")?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encoded: String = token
        .bytes()
        .map(|byte| match is_plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect();
    let said = ask(number, "debug_token", &format!("?input_token={encoded}")).await.ok()?;
    let seconds = said["data"]["expires_at"].as_u64().filter(|seconds| *seconds > 0)?;
    Some(Timestamp::from_millis(seconds.saturating_mul(1000)))
}

/// Asks for the number of apps that get the callbacks of the number's account.
async fn subscribed_apps(number: &CloudApiNumber) -> Result<usize, ListError> {
    let value = ask(number, number.account_id.as_str(), "/subscribed_apps").await?;
    value["data"].as_array().map(Vec::len).ok_or(ListError::Unreadable)
}

async fn ask(number: &CloudApiNumber, id: &str, rest: &str) -> Result<Value, ListError> {
    // An id has only characters that a path may have.
    let uri: Uri =
        format!("{}/{id}{rest}", number.root).parse().map_err(|_| ListError::Unreadable)?;
    let answer = number.http.get(uri, number.authorization.clone(), ANSWER_BYTES_MAX).await?;
    // A temporary error is no evidence about the number.
    if is_passing(&answer) {
        return Err(ListError::Unreachable);
    }
    succeeded(&answer)?;
    let text = str::from_utf8(&answer.body).ok();
    text.and_then(json::given).ok_or(ListError::Unreadable)
}
