//! Lists an account's templates.

use ::http::Uri;
use postrider_domain::json;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::callback::WORD_CHARS_MAX;
use crate::{Failure, FailureClass};

use super::CloudApiNumber;
use super::answer::{Refusal, failure};
use super::http::{Answer, NoAnswer};

/// The requested fields of each template.
const FIELDS: &str = "name,status,language,category,components,quality_score,parameter_format,\
                      correct_category,message_send_ttl_seconds,rejected_reason";
/// The number of templates requested at a time.
const PAGE: usize = 100;
/// The maximum number of requested pages.
const PAGES_MAX: usize = 200;
/// The maximum number of bytes of a page that are read.
const PAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

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

#[derive(Deserialize)]
struct Page {
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

    async fn page(&self, after: Option<&str>) -> Result<Page, ListError> {
        let mut address = format!("{}?fields={FIELDS}&limit={PAGE}", self.templates);
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

pub(super) fn succeeded(answer: &Answer) -> Result<(), ListError> {
    if (200..300).contains(&answer.status) {
        return Ok(());
    }
    let refusal = serde_json::from_slice::<Refusal>(&answer.body);
    Err(ListError::Refused(match refusal {
        Ok(refusal) => failure(&refusal.error),
        Err(_) => Failure {
            class: FailureClass::Permanent,
            code: None,
            details: format!("HTTP status {}", answer.status).into(),
        },
    }))
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

/// Returns the provider's word for the reason of a rejection; `NONE` is no reason.
pub(super) fn rejected_reason(value: &Value) -> Option<Box<str>> {
    let word = value.as_str().filter(|word| !word.is_empty() && *word != "NONE")?;
    Some(word.chars().take(WORD_CHARS_MAX).collect::<String>().into())
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
