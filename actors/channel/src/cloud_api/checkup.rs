//! Asks the provider how a number does, and whether callbacks of its account come at all.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ::http::Uri;
use postrider_domain::Timestamp;
use postrider_runtime::Clock;
use serde_json::Value;

use crate::number_facts::NumberFacts;

use super::answer::is_passing;
use super::templates::{ListError, succeeded};
use super::{ANSWER_BYTES_MAX, CloudApiNumber, number_news};

/// What is requested of a number: as much as this token, and this version, can be asked for. The
/// last shows only that the number is known.
const FIELDS: [&str; 3] = [
    "id,verified_name,quality_rating,throughput,name_status,status,\
     whatsapp_business_manager_messaging_limit,is_on_biz_app",
    "id,verified_name,quality_rating,throughput,name_status,status,\
     whatsapp_business_manager_messaging_limit",
    "id",
];
/// The code of a field that cannot be asked for.
const NO_SUCH_FIELD: Option<u32> = Some(100);
/// How long an answer is given again: the provider bounds such calls, and for a whole account.
const HOLDS: Duration = Duration::from_secs(30);
/// How long it is given again that there is none.
const NONE_HOLDS: Duration = Duration::from_secs(5);

/// What the provider says of a number when it is asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NumberReport {
    /// The name that recipients see.
    pub verified_name: Option<Box<str>>,
    /// The provider's word for how it does, such as `CONNECTED`.
    pub status: Option<Box<str>>,
    /// What its callbacks report too.
    pub facts: NumberFacts,
}

/// What the provider says of a number and of its callbacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkup {
    /// When it was asked.
    pub asked_at: Timestamp,
    /// How the number does.
    pub report: Result<NumberReport, ListError>,
    /// How many apps get the callbacks of the number's account. Without one none comes.
    pub subscribed: Result<usize, ListError>,
    /// When the token expires; `None` where it does not, or the provider does not say.
    pub token_expires_at: Option<Timestamp>,
}

/// Asks the provider, or gives its last answer where that is new. Calls wait for each other.
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
        // It would answer the same.
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

/// What the provider says of the number.
async fn report(number: &CloudApiNumber) -> Result<NumberReport, ListError> {
    let mut answer = Err(ListError::Unreadable);
    let from = number.fields.load(Ordering::Relaxed);
    for (at, fields) in FIELDS.iter().enumerate().skip(from) {
        answer = ask(number, number.phone_number_id.as_str(), &format!("?fields={fields}")).await;
        // With fewer it may be answered.
        if !matches!(&answer, Err(ListError::Refused(it)) if it.code == NO_SUCH_FIELD) {
            // It does not have the newest field, or its token may not see it.
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

/// When the number's token expires, if it does and the provider says so. Not every token may be
/// asked for, so no answer is no fault.
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

/// How many apps get the callbacks of the number's account.
async fn subscribed_apps(number: &CloudApiNumber) -> Result<usize, ListError> {
    let value = ask(number, number.account_id.as_str(), "/subscribed_apps").await?;
    value["data"].as_array().map(Vec::len).ok_or(ListError::Unreadable)
}

async fn ask(number: &CloudApiNumber, id: &str, rest: &str) -> Result<Value, ListError> {
    // An id has no other signs than such as a path may have.
    let uri: Uri =
        format!("{}/{id}{rest}", number.root).parse().map_err(|_| ListError::Unreadable)?;
    let answer = number.http.get(uri, number.authorization.clone(), ANSWER_BYTES_MAX).await?;
    // What passes by itself says nothing of the number.
    if is_passing(&answer) {
        return Err(ListError::Unreachable);
    }
    succeeded(&answer)?;
    serde_json::from_slice(&answer.body).map_err(|_| ListError::Unreadable)
}
