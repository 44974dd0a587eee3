//! Pure: the outcome of a provider's response, with its report on an accepted message.
//!
//! The error code decides; the HTTP status decides only if there is no known code.

use std::time::Duration;

use postrider_domain::{PartyId, PartyNames, json};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::body;
use super::http::HttpAnswer;
use crate::{Acceptance, AttemptOutcome, Failure, FailureClass, Throttle, Trouble};

/// The pause of a number in maintenance.
const MAINTENANCE: Duration = Duration::from_secs(60);
/// The maximum number of stored characters of an explanation.
const DETAILS_CHARS_MAX: usize = 500;
/// The maximum number of bytes of the provider's id of a message.
const PROVIDER_ID_BYTES_MAX: usize = 512;
/// The statuses of a message that the provider accepted and holds back.
const HELD: [&str; 2] = ["held_for_quality_assessment", "paused"];

/// The required consequence of an error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The message is refused, with this class.
    Refused(FailureClass),
    /// The rate is limited for this scope.
    Throttled(Throttle),
    /// The number must pause for a minute.
    Maintenance,
    /// The message must be retried.
    Transient,
}

/// Returns the meaning of an error code; `None` if the code is not known.
pub(super) const fn meaning(code: u32) -> Option<Meaning> {
    use FailureClass as Class;
    Some(match code {
        0
        | 3
        | 10
        | 190
        | 200..=299
        | 368
        | 131_005
        | 131_031
        | 131_037
        | 131_042
        | 131_044
        | 131_045
        | 133_010
        | 139_200 => Meaning::Refused(Class::Account),
        4 => Meaning::Throttled(Throttle::App),
        80_007 => Meaning::Throttled(Throttle::Account),
        130_429 => Meaning::Throttled(Throttle::Number),
        131_056 => Meaning::Throttled(Throttle::Recipient),
        131_057 => Meaning::Maintenance,
        1 | 2 | 131_000 | 131_016 | 135_000 => Meaning::Transient,
        131_048 | 131_064 => Meaning::Refused(Class::SpamLimit),
        33
        | 100
        | 130_472
        | 131_008
        | 131_009
        | 131_021
        | 131_026
        | 131_030
        | 131_051..=131_053
        | 131_055
        | 131_062
        | 131_063
        | 137_000 => Meaning::Refused(Class::Permanent),
        130_497 => Meaning::Refused(Class::Country),
        131_047 => Meaning::Refused(Class::WindowClosed),
        131_049 => Meaning::Refused(Class::MarketingHeldBack),
        131_050 => Meaning::Refused(Class::OptedOut),
        132_000 | 132_005 | 132_007 | 132_008 | 132_012 | 132_018 => {
            Meaning::Refused(Class::Parameters)
        }
        132_001 | 132_068 => Meaning::Refused(Class::Template),
        132_069 => Meaning::Refused(Class::TemplateLimited),
        132_015 => Meaning::Refused(Class::TemplatePaused),
        132_016 => Meaning::Refused(Class::TemplateDisabled),
        _ => return None,
    })
}

/// Returns the outcome of a request to send a message to `to`.
pub(super) fn outcome(answer: &HttpAnswer, to: &PartyId) -> AttemptOutcome {
    let after = answer.retry_after;
    if (200..300).contains(&answer.status) {
        // A success that names no message may be the response of a proxy in between.
        return match serde_json::from_slice::<Accepted<'_>>(&answer.body) {
            Ok(accepted) if accepted.names_a_message() => match accepted.of_message(to) {
                more if more == Acceptance::default() => AttemptOutcome::Sent,
                more => AttemptOutcome::SentAs(more),
            },
            _ => AttemptOutcome::Unknown,
        };
    }
    let error = serde_json::from_slice::<RefusalBody>(&answer.body).ok().map(|body| body.error);
    let code = error.as_ref().and_then(|error| error.code);
    let failed = |class| {
        let details = error.as_ref().map(ProviderError::explanation).unwrap_or_default();
        AttemptOutcome::Failed(Failure { class, code, details })
    };
    match (code.and_then(meaning), answer.status) {
        (Some(Meaning::Refused(class)), _) => failed(class),
        (Some(Meaning::Throttled(scope)), _) => AttemptOutcome::Throttled { scope, after },
        (Some(Meaning::Maintenance), _) => {
            let after = after.unwrap_or(MAINTENANCE);
            AttemptOutcome::Throttled { scope: Throttle::Number, after: Some(after) }
        }
        // The response is of a gateway, which may have forwarded the message.
        (None, 502 | 504) if error.is_none() => AttemptOutcome::Unknown,
        (Some(Meaning::Transient), _) | (None, 500..) => AttemptOutcome::Retry { after },
        (None, 429) => AttemptOutcome::Throttled { scope: Throttle::Number, after },
        (None, _) if code.is_some() => failed(FailureClass::Unrecognized),
        (None, _) => failed(FailureClass::Permanent),
    }
}

/// Returns the reason if a call is refused for good.
///
/// Returns `None` if the call may be tried again, once the account works.
pub(super) fn refusal(answer: &HttpAnswer) -> Option<Failure> {
    let error = serde_json::from_slice::<RefusalBody>(&answer.body).ok().map(|body| body.error);
    let error = error.unwrap_or_default();
    match (error.code.and_then(meaning), answer.status) {
        (Some(Meaning::Refused(FailureClass::Account)), _) => None,
        (Some(Meaning::Refused(_)), _) => Some(failure(&error)),
        (Some(_), _) | (None, 429 | 500..) => None,
        (None, _) => Some(failure(&error)),
    }
}

/// Returns whether a call was not carried out, for a temporary reason.
pub(super) fn is_passing(answer: &HttpAnswer) -> bool {
    let error = serde_json::from_slice::<RefusalBody>(&answer.body).ok().map(|body| body.error);
    match (error.and_then(|error| error.code).and_then(meaning), answer.status) {
        (Some(Meaning::Refused(_)), _) => false,
        (known, status) => known.is_some() || status == 429 || status >= 500,
    }
}

/// Returns the reason why a message was not accepted.
pub(super) fn trouble(answer: &HttpAnswer) -> Trouble {
    let error = serde_json::from_slice::<RefusalBody>(&answer.body).ok().map(|body| body.error);
    match error.map(|error| (error.code, error.explanation())) {
        Some((Some(code), details)) => Trouble { cause: format!("error {code}").into(), details },
        _ => {
            let cause = format!("HTTP status {}", answer.status).into();
            Trouble { cause, details: Box::default() }
        }
    }
}

/// Returns the failure for an error in a callback or in another call.
///
/// Errors that would be retried in the response to a send are permanent here.
pub(super) fn failure(error: &ProviderError) -> Failure {
    let class = match error.code.map(meaning) {
        Some(Some(Meaning::Refused(class))) => class,
        Some(None) => FailureClass::Unrecognized,
        _ => FailureClass::Permanent,
    };
    Failure { class, code: error.code, details: error.explanation() }
}

/// The body of an answer that accepts a message.
#[derive(Deserialize)]
pub(super) struct Accepted<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
    #[serde(borrow)]
    contacts: Option<&'a RawValue>,
}

impl Accepted<'_> {
    /// Returns whether the answer names a message: otherwise a proxy in between may have sent it.
    pub(super) fn names_a_message(&self) -> bool {
        !self.messages.is_empty()
    }

    /// Returns the report on a message to `to`.
    pub(super) fn of_message(&self, to: &PartyId) -> Acceptance {
        let first = self.messages.first();
        let message = first.map(|it| json::readable(it));
        let id = message.as_ref().and_then(|message| message["id"].as_str());
        let provider_id = id.filter(|id| id.len() <= PROVIDER_ID_BYTES_MAX).map(Box::from);
        let status = message.as_ref().and_then(|message| message["message_status"].as_str());
        let held = status.is_some_and(|status| HELD.contains(&status));
        Acceptance { known_as: self.known_as(to), provider_id, held }
    }

    /// Returns the provider's other names of the recipient, beside the one that was used.
    fn known_as(&self, to: &PartyId) -> PartyNames {
        let Some(contacts) = self.contacts.map(json::readable) else {
            return PartyNames::default();
        };
        let phone = contacts[0]["wa_id"].as_str().and_then(body::phone);
        let user_id = contacts[0]["user_id"].as_str().and_then(|id| id.parse().ok());
        PartyNames {
            phone: phone.filter(|phone| to.phone() != Some(*phone)),
            user_id: user_id.filter(|id| to.user_id() != Some(id)),
        }
    }
}

/// The body of a refusal.
#[derive(Deserialize)]
pub(super) struct RefusalBody {
    pub(super) error: ProviderError,
}

/// An error in the provider's form.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ProviderError {
    code: Option<u32>,
    message: Option<String>,
    title: Option<String>,
    error_data: Option<ErrorData>,
}

impl ProviderError {
    /// Returns the provider's name for the error, cut to the stored length.
    pub(super) fn title(&self) -> Option<Box<str>> {
        self.title.as_ref().map(|title| title.chars().take(DETAILS_CHARS_MAX).collect())
    }

    /// Returns the provider's explanation for an operator, cut to the stored length.
    fn explanation(&self) -> Box<str> {
        let details = self.error_data.as_ref().and_then(|data| data.details.as_deref());
        let given = details.or(self.message.as_deref()).or(self.title.as_deref());
        given.unwrap_or_default().chars().take(DETAILS_CHARS_MAX).collect()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ErrorData {
    details: Option<String>,
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use postrider_domain::PartyNames;
    use postrider_domain::fuzz::edited;

    use super::*;

    fn answer(status: u16, body: &str) -> HttpAnswer {
        HttpAnswer { status, retry_after: None, body: Bytes::from(body.to_owned()) }
    }

    /// Returns the outcome of an answer for a message to +15551234567.
    fn outcome(answer: &HttpAnswer) -> AttemptOutcome {
        super::outcome(answer, &"+15551234567".parse().unwrap())
    }

    fn refused(status: u16, code: u32) -> AttemptOutcome {
        let body = format!(
            r#"{{"error":{{"message":"no","type":"OAuthException","code":{code},"error_data":{{"messaging_product":"whatsapp","details":"why"}},"fbtrace_id":"x"}}}}"#
        );
        outcome(&answer(status, &body))
    }

    #[test]
    fn each_code_has_its_class() {
        use FailureClass as Class;
        let classes: [(Class, &[u32]); 14] = [
            (Class::Account, &[0, 190, 3, 10, 200, 242, 299, 368, 131_031, 131_042]),
            (Class::Account, &[131_005, 131_037, 131_044, 131_045, 133_010, 139_200]),
            (Class::SpamLimit, &[131_048, 131_064]),
            (
                Class::Permanent,
                &[131_026, 130_472, 131_021, 131_030, 131_051, 100, 131_008, 131_009, 33],
            ),
            (Class::Permanent, &[131_052, 131_053, 131_055, 131_062, 131_063, 137_000]),
            (Class::Country, &[130_497]),
            (Class::WindowClosed, &[131_047]),
            (Class::MarketingHeldBack, &[131_049]),
            (Class::OptedOut, &[131_050]),
            (Class::Parameters, &[132_000, 132_005, 132_007, 132_008, 132_012, 132_018]),
            (Class::Template, &[132_001, 132_068]),
            (Class::TemplateLimited, &[132_069]),
            (Class::TemplatePaused, &[132_015]),
            (Class::TemplateDisabled, &[132_016]),
        ];
        for (class, codes) in classes {
            for &code in codes {
                // The status is ignored if the code is known.
                for status in [400, 401, 403, 429, 500, 503] {
                    let failure = Failure { class, code: Some(code), details: "why".into() };
                    assert_eq!(refused(status, code), AttemptOutcome::Failed(failure), "{code}");
                }
            }
        }
    }

    #[test]
    fn throttles_have_their_scope() {
        for (code, scope) in [
            (4, Throttle::App),
            (80_007, Throttle::Account),
            (130_429, Throttle::Number),
            (131_056, Throttle::Recipient),
        ] {
            let throttled = AttemptOutcome::Throttled { scope, after: None };
            assert_eq!(refused(400, code), throttled);
            assert_eq!(refused(500, code), throttled);
        }
        let minute = Some(Duration::from_secs(60));
        let maintenance = AttemptOutcome::Throttled { scope: Throttle::Number, after: minute };
        assert_eq!(refused(400, 131_057), maintenance);
        let wait = Some(Duration::from_secs(7));
        let body = r#"{"error":{"code":130429}}"#;
        let asked = HttpAnswer { retry_after: wait, ..answer(429, body) };
        let throttled = AttemptOutcome::Throttled { scope: Throttle::Number, after: wait };
        assert_eq!(outcome(&asked), throttled);
    }

    #[test]
    fn transient_errors_are_retried() {
        for code in [1, 2, 131_000, 131_016, 135_000] {
            assert_eq!(refused(400, code), AttemptOutcome::Retry { after: None });
        }
        for status in [500, 502, 503, 504] {
            assert_eq!(refused(status, 999_999), AttemptOutcome::Retry { after: None });
            let gateway = status == 502 || status == 504;
            let odd = if gateway {
                AttemptOutcome::Unknown
            } else {
                AttemptOutcome::Retry { after: None }
            };
            assert_eq!(outcome(&answer(status, "<html>")), odd);
        }
    }

    #[test]
    fn without_a_known_code_the_status_decides() {
        let failed = |class, code, details: &str| {
            AttemptOutcome::Failed(Failure { class, code, details: details.into() })
        };
        let permanent = |code, details: &str| failed(FailureClass::Permanent, code, details);
        let unrecognized = failed(FailureClass::Unrecognized, Some(131_999), "why");
        assert_eq!(refused(400, 131_999), unrecognized);
        for status in [400, 404, 413] {
            assert_eq!(outcome(&answer(status, "no")), permanent(None, ""));
        }
        let titled = r#"{"error":{"message":"said","code":null}}"#;
        assert_eq!(outcome(&answer(400, titled)), permanent(None, "said"));
        let throttled = AttemptOutcome::Throttled { scope: Throttle::Number, after: None };
        assert_eq!(outcome(&answer(429, "")), throttled);
    }

    fn answered(status: &str, contacts: &str) -> AttemptOutcome {
        let message = format!(r#"{{"id":"wamid.x","message_status":"{status}"}}"#);
        outcome(&answer(200, &format!(r#"{{"contacts":{contacts},"messages":[{message}]}}"#)))
    }

    #[test]
    fn only_a_response_that_names_a_message_is_a_success() {
        let accepted = |contacts: &str| answered("accepted", contacts);
        let contact = |wa_id: &str| format!(r#"[{{"input":"+15551234567","wa_id":{wa_id}}}]"#);
        let taken = |known_as, held| {
            let provider_id = Some("wamid.x".into());
            AttemptOutcome::SentAs(Acceptance { known_as, provider_id, held })
        };
        let sent_as = |known_as| taken(known_as, false);
        for held in ["held_for_quality_assessment", "paused"] {
            assert_eq!(answered(held, "[]"), taken(PartyNames::default(), true), "{held}");
        }
        let sent = sent_as(PartyNames::default());
        assert_eq!(accepted(&contact(r#""15551234567""#)), sent);
        assert_eq!(outcome(&answer(200, r#"{"messages":[7]}"#)), AttemptOutcome::Sent);
        let other = PartyNames { phone: "+5511987654".parse().ok(), user_id: None };
        assert_eq!(accepted(&contact(r#""5511987654""#)), sent_as(other));
        let hidden = r#"[{"input":"+15551234567","wa_id":"15551234567","user_id":"US.1"}]"#;
        let other = PartyNames { phone: None, user_id: "US.1".parse().ok() };
        assert_eq!(accepted(hidden), sent_as(other));
        for odd in ["null", "7", "[]", "{}", r#"["\ud83d"]"#, &contact("1"), &contact(r#""x""#)] {
            assert_eq!(accepted(odd), sent, "{odd}");
        }
        for odd in ["", "{}", r#"{"messages":[]}"#, "<html>"] {
            assert_eq!(outcome(&answer(200, odd)), AttemptOutcome::Unknown, "{odd}");
        }
    }

    #[test]
    fn an_explanation_is_kept_short() {
        let error = ProviderError { message: Some("é".repeat(900)), ..Default::default() };
        assert_eq!(failure(&error).details.chars().count(), DETAILS_CHARS_MAX);
        assert_eq!(failure(&error).class, FailureClass::Permanent);
        let of = |code| failure(&ProviderError { code: Some(code), ..Default::default() }).class;
        assert_eq!(of(139_999), FailureClass::Unrecognized);
        assert_eq!([of(130_429), of(131_016)], [FailureClass::Permanent; 2], "too late to retry");
    }

    #[test]
    fn fuzz_answers() {
        let examples: [&[u8]; 3] = [
            br#"{"messages":[{"id":"wamid.A"}],"contacts":[{"input":"+1","wa_id":"16505551234"}]}"#,
            br#"{"error":{"message":"(#131026) Undeliverable","type":"OAuthException",
            "code":131026,"error_data":{"details":"not on the app"},"fbtrace_id":"A"}}"#,
            b"<html>502 Bad Gateway</html>",
        ];
        let fuzzer = bolero::check!().with_iterations(5_000);
        fuzzer.for_each(|script: &[u8]| {
            let body = Bytes::from(edited(&examples, script));
            for status in [200, 400, 429, 503] {
                let answer = HttpAnswer { status, retry_after: None, body: body.clone() };
                let outcome = outcome(&answer);
                // Only an answer with status 200 may count as a success.
                let is_sent = matches!(outcome, AttemptOutcome::Sent | AttemptOutcome::SentAs(_));
                assert!(!is_sent || status == 200, "{outcome:?}");
                assert!(trouble(&answer).details.chars().count() <= DETAILS_CHARS_MAX);
            }
        });
    }
}
