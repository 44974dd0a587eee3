//! Queries of the provider: an account's templates, and the state of a number and its callbacks.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ::http::Uri;
use postrider_domain::{Timestamp, json};
use postrider_runtime::Clock;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::answer::{RefusalBody, failure, is_passing};
use super::callback::rejected_reason;
use super::http::{HttpAnswer, NoAnswer};
use super::{ANSWER_BYTES_MAX, CloudApiNumber, news};
use crate::number_facts::NumberFacts;
use crate::{Failure, FailureClass};

/// The requested fields of each template.
const LISTED_FIELDS: &str = "name,status,language,category,components,quality_score,\
                             parameter_format,correct_category,message_send_ttl_seconds,\
                             rejected_reason";
/// The number of templates requested at a time.
const PAGE: usize = 100;
/// The maximum number of requested pages.
const PAGES_MAX: usize = 200;
/// The maximum number of bytes of a page that are read.
const PAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The lists of requested fields of a number, for different tokens and API versions.
///
/// The last list shows only that the number is known.
const REPORT_FIELDS: [&str; 3] = [
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

/// The reason why a query of the provider failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// The provider cannot be reached, or its response was lost.
    #[error("the provider cannot be reached")]
    Unreachable,
    /// The provider refused the query.
    #[error("the provider refuses: {}", .0.details)]
    Refused(Failure),
    /// The provider's response cannot be parsed.
    #[error("the provider's answer cannot be read")]
    Unreadable,
}

impl From<NoAnswer> for ListError {
    fn from(_: NoAnswer) -> Self {
        Self::Unreachable
    }
}

/// A template in the provider's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTemplate {
    /// Its name.
    pub name: Box<str>,
    /// Its language, such as `en_US`.
    pub language: Box<str>,
    /// The provider's word for its category, such as `UTILITY`.
    pub category: Box<str>,
    /// The provider's word for its status, such as `APPROVED`.
    pub status: Box<str>,
    /// Its components: a JSON array.
    pub components: Box<str>,
    /// The provider's word for its quality, such as `GREEN`.
    pub quality: Option<Box<str>>,
    /// The time for which the provider tries to deliver a message of it, in seconds.
    pub ttl_seconds: Option<u32>,
    /// The provider's word for the form of its parameters: `POSITIONAL` or `NAMED`.
    pub parameter_format: Option<Box<str>>,
    /// The provider's word for the category that it considers right.
    pub correct_category: Option<Box<str>>,
    /// The provider's word for the reason of a rejection, such as `INVALID_FORMAT`.
    pub rejected_reason: Option<Box<str>>,
}

impl CloudApiNumber {
    /// Returns all templates of the number's account, at most 20,000.
    ///
    /// A template that lacks a field is left out.
    ///
    /// # Errors
    /// [`ListError`]: the provider does not respond or refuses, or its response cannot be parsed.
    pub async fn list_templates(&self) -> Result<Vec<ListedTemplate>, ListError> {
        let mut templates = Vec::new();
        let mut after = None;
        for _ in 0..PAGES_MAX {
            let page = self.page(after.as_deref()).await?;
            templates.extend(page.data.iter().filter_map(|it| listed(&json::readable(it))));
            after = match page.paging {
                Some(Paging { cursors: Some(cursors), next: Some(_) }) => cursors.after,
                _ => None,
            };
            if after.is_none() {
                break;
            }
        }
        Ok(templates)
    }

    async fn page(&self, after: Option<&str>) -> Result<TemplatePage, ListError> {
        let mut address = format!("{}?fields={LISTED_FIELDS}&limit={PAGE}", self.templates);
        if let Some(after) = after {
            address.push_str("&after=");
            push_escaped(&mut address, after);
        }
        let uri: Uri = address.parse().map_err(|_| ListError::Unreadable)?;
        let answer = self.http.get(uri, self.authorization.clone(), PAGE_BYTES_MAX).await?;
        succeeded(&answer)?;
        serde_json::from_slice(&answer.body).map_err(|_| ListError::Unreadable)
    }
}

#[derive(Deserialize)]
struct TemplatePage {
    data: Vec<Box<RawValue>>,
    paging: Option<Paging>,
}

#[derive(Deserialize)]
struct Paging {
    cursors: Option<Cursors>,
    /// The URL of the next page, if there is one.
    next: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Cursors {
    after: Option<String>,
}

/// Parses a template of a page; `None` if it lacks a field that every template has.
fn listed(value: &Value) -> Option<ListedTemplate> {
    let text = |name: &str| value[name].as_str().map(Box::from);
    let components = match &value["components"] {
        Value::Null => "[]".into(),
        components => components.to_string().into(),
    };
    Some(ListedTemplate {
        name: text("name")?,
        language: text("language")?,
        category: text("category")?,
        status: text("status")?,
        components,
        quality: value["quality_score"]["score"].as_str().map(Box::from),
        ttl_seconds: value["message_send_ttl_seconds"].as_u64().and_then(|it| it.try_into().ok()),
        parameter_format: text("parameter_format"),
        correct_category: text("correct_category"),
        rejected_reason: rejected_reason(&value["rejected_reason"]),
    })
}

/// Appends a value of a query. Every byte that is no ASCII letter or digit is escaped.
fn push_escaped(address: &mut String, value: &str) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() {
            address.push(char::from(byte));
        } else {
            address.push_str(&format!("%{byte:02X}"));
        }
    }
}

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
    for (at, fields) in REPORT_FIELDS.iter().enumerate().skip(from) {
        answer = query(number, number.phone_number_id.as_str(), &format!("?fields={fields}")).await;
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
        verified_name: news::word(&value["verified_name"]),
        status: news::word(&value["status"]),
        facts: news::reported_facts(&value),
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
    let said = query(number, "debug_token", &format!("?input_token={encoded}")).await.ok()?;
    let seconds = said["data"]["expires_at"].as_u64().filter(|seconds| *seconds > 0)?;
    Some(Timestamp::from_millis(seconds.saturating_mul(1000)))
}

/// Asks for the number of apps that get the callbacks of the number's account.
async fn subscribed_apps(number: &CloudApiNumber) -> Result<usize, ListError> {
    let value = query(number, number.account_id.as_str(), "/subscribed_apps").await?;
    value["data"].as_array().map(Vec::len).ok_or(ListError::Unreadable)
}

async fn query(number: &CloudApiNumber, id: &str, rest: &str) -> Result<Value, ListError> {
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

pub(super) fn succeeded(answer: &HttpAnswer) -> Result<(), ListError> {
    if (200..300).contains(&answer.status) {
        return Ok(());
    }
    let refusal = serde_json::from_slice::<RefusalBody>(&answer.body);
    Err(ListError::Refused(match refusal {
        Ok(refusal) => failure(&refusal.error),
        Err(_) => Failure {
            class: FailureClass::Permanent,
            code: None,
            details: format!("HTTP status {}", answer.status).into(),
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_escaped() {
        let mut address = String::new();
        push_escaped(&mut address, "QVFI+/=é");
        assert_eq!(address, "QVFI%2B%2F%3D%C3%A9");
    }

    #[test]
    fn a_template_that_lacks_a_field_is_left_out() {
        let whole = serde_json::json!({
            "name": "n", "language": "en", "category": "UTILITY", "status": "APPROVED",
            "components": [{"type": "BODY", "text": "Hi"}], "id": "1"
        });
        let template = listed(&whole).unwrap();
        assert_eq!(&*template.components, r#"[{"text":"Hi","type":"BODY"}]"#);
        let rated = serde_json::json!({
            "name": "n", "language": "en", "category": "UTILITY", "status": "APPROVED",
            "quality_score": {"score": "RED", "date": 1}, "message_send_ttl_seconds": 600,
            "parameter_format": "NAMED", "correct_category": "MARKETING",
            "rejected_reason": "SCAM"
        });
        let rated = listed(&rated).unwrap();
        assert_eq!((rated.quality.as_deref(), rated.ttl_seconds), (Some("RED"), Some(600)));
        assert_eq!(rated.parameter_format.as_deref(), Some("NAMED"));
        assert_eq!(rated.correct_category.as_deref(), Some("MARKETING"));
        assert_eq!(rated.rejected_reason.as_deref(), Some("SCAM"));
        assert_eq!(rejected_reason(&serde_json::json!("NONE")), None);
        assert_eq!(listed(&serde_json::json!({"name": "n"})), None);
        assert_eq!(listed(&Value::Null), None);
    }
}
