//! Pure: parses the provider's news of numbers and accounts, and warnings about them.
//!
//! News that prevent an account from sending stop its numbers. Everything else is passed on to its
//! operators.

use postrider_domain::template::TemplateQuality;
use postrider_domain::{Phone, printable};
use serde_json::Value;

use super::items::PassedOver;
use crate::callback::{ChannelFault, IgnoredReason, WORD_CHARS_MAX};
use crate::number_facts::{DailyLimit, NumberFacts, Throughput};
use crate::{Failure, FailureClass};

/// The fields of callbacks with news of a number or of all numbers of an account.
pub(super) const NUMBER_FIELDS: [&str; 4] = [
    "phone_number_quality_update",
    "phone_number_name_update",
    "business_capability_update",
    "smb_message_echoes",
];
/// The fields of callbacks that stop numbers, or warn.
pub(super) const ACCOUNT_FIELDS: [&str; 3] = ["account_update", "account_alerts", "security"];
/// Events of accounts that hinder no message and need no action.
const HARMLESS: [&str; 9] = [
    "AD_ACCOUNT_LINKED",
    "AUTH_INTL_PRICE_ELIGIBILITY_UPDATE",
    "BUSINESS_PRIMARY_LOCATION_COUNTRY_UPDATE",
    "PARTNER_ADDED",
    "PARTNER_APP_INSTALLED",
    "PARTNER_APP_UNINSTALLED",
    "PARTNER_CLIENT_CERTIFICATION_STATUS_UPDATE",
    "VERIFIED_ACCOUNT",
    "VOLUME_BASED_PRICING_TIER_UPDATE",
];
/// The maximum number of stored characters of an explanation.
const DETAILS_CHARS_MAX: usize = 500;

/// Parses a change of one of [`NUMBER_FIELDS`].
pub(super) fn number_news(field: &str, value: &Value) -> Result<NumberFacts, PassedOver> {
    match field {
        "phone_number_name_update" => {
            let decision = value["decision"].as_str().ok_or(Some(IgnoredReason::Unreadable))?;
            let word = decision.chars().take(WORD_CHARS_MAX).collect::<String>();
            let name_status = Some(word.to_ascii_lowercase().into());
            Ok(NumberFacts { name_status, ..NumberFacts::default() })
        }
        "business_capability_update" => {
            let limit = Some(daily_limit(value).ok_or(Some(IgnoredReason::Unreadable))?);
            Ok(NumberFacts { limit, ..NumberFacts::default() })
        }
        // The owner writes from the app, so the number is in it. An echo without the number or
        // without a message proves nothing.
        "smb_message_echoes" => {
            let number = value["metadata"]["phone_number_id"].as_str();
            let echoes = value["message_echoes"].as_array().filter(|echoes| !echoes.is_empty());
            number.zip(echoes).ok_or(Some(IgnoredReason::Unreadable))?;
            let throughput = Some(Throughput::Coexistence);
            Ok(NumberFacts { throughput, ..NumberFacts::default() })
        }
        _ => quality_news(value),
    }
}

fn quality_news(value: &Value) -> Result<NumberFacts, PassedOver> {
    let mut facts = NumberFacts { limit: daily_limit(value), ..NumberFacts::default() };
    match value["event"].as_str().ok_or(Some(IgnoredReason::Unreadable))? {
        "THROUGHPUT_UPGRADE" => facts.throughput = Some(Throughput::High),
        "FLAGGED" => facts.quality = Some(TemplateQuality::Red),
        // The rating is better than red again, but the new one is not reported.
        "UNFLAGGED" => facts.quality = Some(TemplateQuality::Unknown),
        "UPGRADE" | "DOWNGRADE" | "ONBOARDING" => {}
        _ => return Err(Some(IgnoredReason::UnknownType)),
    }
    Ok(facts)
}

/// Parses the number of people a day who may be written to first, as a number or as a tier.
///
/// No channel has a limit of zero people.
fn daily_limit(value: &Value) -> Option<DailyLimit> {
    let given = [&value["max_daily_conversations_per_business"], &value["current_limit"]];
    given.into_iter().find_map(|given| match given {
        Value::Number(people) if people.as_i64() == Some(-1) => Some(DailyLimit::Unlimited),
        Value::Number(people) => people.as_u64()?.try_into().ok().and_then(people_a_day),
        Value::String(tier) => of_tier(tier),
        _ => None,
    })
}

fn of_tier(tier: &str) -> Option<DailyLimit> {
    match tier.strip_prefix("TIER_")? {
        "UNLIMITED" => Some(DailyLimit::Unlimited),
        people => {
            let (digits, times) = match people.strip_suffix('K') {
                Some(thousands) => (thousands, 1000),
                None => (people, 1),
            };
            let people: u32 = digits.parse().ok()?;
            people.checked_mul(times).and_then(people_a_day)
        }
    }
}

fn people_a_day(people: u32) -> Option<DailyLimit> {
    (people > 0).then_some(DailyLimit::People(people))
}

/// Parses the phone that a change concerns, in any notation.
pub(super) fn changed_phone(value: &Value) -> Option<Phone> {
    let written = value["display_phone_number"].as_str()?;
    let digits: String = written.chars().filter(char::is_ascii_digit).collect();
    format!("+{digits}").parse().ok()
}

/// Parses the provider's report on a number, which has the same facts as its callbacks.
pub(super) fn reported_facts(value: &Value) -> NumberFacts {
    let is_in_app = value["is_on_biz_app"].as_bool();
    let throughput = match value["throughput"]["level"].as_str() {
        // The level does not matter.
        _ if is_in_app == Some(true) => Some(Throughput::Coexistence),
        Some("HIGH") => Some(Throughput::High),
        Some("STANDARD") => Some(Throughput::Standard),
        _ => None,
    };
    let quality = value["quality_rating"].as_str().map(TemplateQuality::from_channel);
    let tier = value["whatsapp_business_manager_messaging_limit"].as_str();
    let name_status = word(&value["name_status"]).map(|word| word.to_ascii_lowercase().into());
    NumberFacts { throughput, quality, name_status, limit: tier.and_then(of_tier), is_in_app }
}

/// Parses a change of one of [`ACCOUNT_FIELDS`].
pub(super) fn account_news(field: &str, value: &Value) -> Result<ChannelFault, PassedOver> {
    match field {
        "account_update" => account_update(value),
        "account_alerts" => account_alert(value),
        _ => Ok(warning(event_word(&value["event"])?, "")),
    }
}

fn account_update(value: &Value) -> Result<ChannelFault, PassedOver> {
    let event = event_word(&value["event"])?;
    let restrictions = value["restriction_info"].as_array().map_or(&[][..], Vec::as_slice);
    let restricted = || restrictions.iter().filter_map(|it| it["restriction_type"].as_str());
    let ban = value["ban_info"]["waba_ban_state"].as_str().unwrap_or_default();
    let (stops, details) = match &*event {
        // A coming ban, or a lifted one, hinders nothing now.
        "DISABLED_UPDATE" => (matches!(ban, "" | "DISABLE"), ban.to_owned()),
        "ACCOUNT_DELETED" | "PARTNER_REMOVED" => (true, String::new()),
        "ACCOUNT_RESTRICTION" => {
            let is_of_messages = restricted().any(|kind| kind.contains("MESSAGING"));
            (is_of_messages, restricted().collect::<Vec<_>>().join(", "))
        }
        "ACCOUNT_VIOLATION" => {
            let kind = value["violation_info"]["violation_type"].as_str();
            (false, kind.unwrap_or_default().to_owned())
        }
        harmless if HARMLESS.contains(&harmless) => return Err(None),
        _ => return Err(Some(IgnoredReason::UnknownType)),
    };
    if !stops {
        return Ok(warning(event, &details));
    }
    // The explanation is the reason that a stopped number shows.
    let reason = if details.is_empty() { event.to_string() } else { format!("{event}: {details}") };
    let mut fault = warning(event, &reason);
    fault.failure.class = FailureClass::Account;
    fault.of_account = true;
    Ok(fault)
}

fn account_alert(value: &Value) -> Result<ChannelFault, PassedOver> {
    let info = if value["alert_info"].is_object() { &value["alert_info"] } else { value };
    let title = event_word(&info["alert_type"])?;
    let said = [&info["alert_severity"], &info["alert_status"], &info["alert_description"]];
    let said: Vec<_> = said.into_iter().filter_map(Value::as_str).collect();
    Ok(warning(title, &said.join(", ")))
}

/// Returns the provider's id of the number that an alert concerns, if it concerns one.
pub(super) fn alerted_number(value: &Value) -> Option<Box<str>> {
    let is_number = value["entity_type"].as_str() == Some("PHONE_NUMBER");
    is_number.then(|| value["entity_id"].as_str().map(Into::into)).flatten()
}

/// Returns the word for the event. A notice without one is ignored.
fn event_word(value: &Value) -> Result<Box<str>, PassedOver> {
    let why = if value.is_null() { None } else { Some(IgnoredReason::Unreadable) };
    word(value).ok_or(why)
}

fn warning(title: Box<str>, details: &str) -> ChannelFault {
    let details: String = details.chars().take(DETAILS_CHARS_MAX).collect();
    let details = printable::harmless(&details).into();
    let failure = Failure { class: FailureClass::Unrecognized, code: None, details };
    ChannelFault { failure, title: Some(title), of_account: false }
}

/// Returns a word of the provider's, cut.
pub(super) fn word(value: &Value) -> Option<Box<str>> {
    let word: String = value.as_str()?.chars().take(WORD_CHARS_MAX).collect();
    Some(printable::harmless(&word).into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_word_has_its_meaning() {
        let of = |field, value| number_news(field, &value);
        let quality = |value| of("phone_number_quality_update", value);
        let upgrade = quality(json!({"event": "THROUGHPUT_UPGRADE", "current_limit": "TIER_10K"}));
        let upgrade = upgrade.unwrap();
        assert_eq!(upgrade.throughput, Some(Throughput::High));
        assert_eq!(upgrade.limit, Some(DailyLimit::People(10_000)));
        let rated = |event| quality(json!({"event": event})).unwrap().quality;
        assert_eq!(rated("FLAGGED"), Some(TemplateQuality::Red));
        assert_eq!((rated("UNFLAGGED"), rated("UPGRADE")), (Some(TemplateQuality::Unknown), None));
        let limit = |max: Value| {
            let value = json!({"max_daily_conversations_per_business": max});
            of("business_capability_update", value).map(|facts| facts.limit.unwrap())
        };
        assert_eq!(limit(json!(-1)), Ok(DailyLimit::Unlimited));
        assert_eq!(limit(json!(250)), Ok(DailyLimit::People(250)));
        assert_eq!(limit(json!("TIER_UNLIMITED")), Ok(DailyLimit::Unlimited));
        let name = of("phone_number_name_update", json!({"decision": "APPROVED"})).unwrap();
        assert_eq!(name.name_status.as_deref(), Some("approved"));
        let echo = json!({"metadata": {"phone_number_id": "106"}, "message_echoes": [{}]});
        let echo = of("smb_message_echoes", echo).unwrap();
        assert_eq!(echo.throughput.and_then(Throughput::pace), Some(20));
    }

    #[test]
    fn what_cannot_be_read_says_nothing() {
        let unreadable = Err(Some(IgnoredReason::Unreadable));
        let bad = [json!(-2), json!(1e12), json!("TIER_X"), json!("250"), json!([])];
        for bad in bad.into_iter().chain([json!(0), json!("TIER_0"), json!("TIER_0K")]) {
            let value = json!({"max_daily_conversations_per_business": bad});
            assert_eq!(number_news("business_capability_update", &value), unreadable, "{value}");
        }
        let number = json!({"phone_number_id": "106"});
        for bad in [
            json!({}),
            json!(7),
            json!({"message_echoes": [{}]}),
            json!({"metadata": {"phone_number_id": 106}, "message_echoes": [{}]}),
            json!({"metadata": number}),
            json!({"metadata": number, "message_echoes": {}}),
            json!({"metadata": number, "message_echoes": []}),
        ] {
            assert_eq!(number_news("smb_message_echoes", &bad), unreadable, "{bad}");
        }
        assert_eq!(number_news("phone_number_quality_update", &json!({})), unreadable);
        assert_eq!(number_news("phone_number_name_update", &json!({"decision": 7})), unreadable);
        let unknown = Err(Some(IgnoredReason::UnknownType));
        assert_eq!(number_news("phone_number_quality_update", &json!({"event": "X"})), unknown);
    }

    #[test]
    fn what_is_asked_for_says_what_callbacks_say() {
        let value = json!({
            "quality_rating": "YELLOW", "throughput": {"level": "HIGH"},
            "whatsapp_business_manager_messaging_limit": "TIER_2K", "name_status": "APPROVED",
        });
        let expected = NumberFacts {
            throughput: Some(Throughput::High),
            quality: Some(TemplateQuality::Yellow),
            name_status: Some("approved".into()),
            limit: Some(DailyLimit::People(2_000)),
            is_in_app: None,
        };
        assert_eq!(reported_facts(&value), expected);
        let in_app = json!({"throughput": {"level": "HIGH"}, "is_on_biz_app": true});
        assert_eq!(reported_facts(&in_app).throughput, Some(Throughput::Coexistence));
        for odd in [json!({}), json!(7), json!({"throughput": {"level": "NOT_APPLICABLE"}})] {
            assert_eq!(reported_facts(&odd), NumberFacts::default());
        }
    }

    #[test]
    fn a_phone_is_read_however_it_is_written() {
        let of = |written: &str| changed_phone(&json!({"display_phone_number": written}));
        for written in ["15550001111", "+1 555-000-1111", "+15550001111"] {
            assert_eq!(of(written).map(|it| it.to_string()).as_deref(), Some("+15550001111"));
        }
        assert_eq!((of(""), of("x")), (None, None));
    }

    #[test]
    fn what_keeps_an_account_from_sending_stops_it_and_the_rest_warns() {
        let restricted = |kind: &str| json!({"event": "ACCOUNT_RESTRICTION", "restriction_info": [{"restriction_type": kind}]});
        let banned = |state: &str| json!({"event": "DISABLED_UPDATE", "ban_info": {"waba_ban_state": state}});
        for (value, stops, details) in [
            (banned("DISABLE"), true, "DISABLED_UPDATE: DISABLE"),
            (banned("SCHEDULE_FOR_DISABLE"), false, "SCHEDULE_FOR_DISABLE"),
            (banned("REINSTATE"), false, "REINSTATE"),
            (json!({"event": "DISABLED_UPDATE"}), true, "DISABLED_UPDATE"),
            (json!({"event": "ACCOUNT_DELETED"}), true, "ACCOUNT_DELETED"),
            (json!({"event": "PARTNER_REMOVED"}), true, "PARTNER_REMOVED"),
            (
                restricted("RESTRICTED_BIZ_INITIATED_MESSAGING"),
                true,
                "ACCOUNT_RESTRICTION: RESTRICTED_BIZ_INITIATED_MESSAGING",
            ),
            (
                restricted("RESTRICTED_ADD_PHONE_NUMBER_ACTION"),
                false,
                "RESTRICTED_ADD_PHONE_NUMBER_ACTION",
            ),
            (
                json!({"event": "ACCOUNT_VIOLATION", "violation_info": {"violation_type": "SPAM"}}),
                false,
                "SPAM",
            ),
        ] {
            let fault = account_news("account_update", &value).unwrap();
            assert_eq!(fault.failure.class == FailureClass::Account, stops, "{value}");
            assert_eq!((fault.of_account, &*fault.failure.details), (stops, details), "{value}");
            assert_eq!(fault.title.as_deref(), value["event"].as_str());
        }
        let passed_over = |value| account_news("account_update", &value).unwrap_err();
        assert_eq!(passed_over(json!({"event": "VERIFIED_ACCOUNT"})), None);
        assert_eq!(passed_over(json!({"event": "NEW"})), Some(IgnoredReason::UnknownType));
        assert_eq!(passed_over(json!({"event": 7})), Some(IgnoredReason::Unreadable));
    }

    #[test]
    fn alerts_and_security_warn_in_the_channels_words() {
        let info = json!({
            "alert_severity": "CRITICAL", "alert_status": "ACTIVE", "alert_type": "OBA_REVOKED",
            "alert_description": "The badge is\u{7} lost.",
        });
        let nested = json!({"entity_type": "PHONE_NUMBER", "entity_id": "106", "alert_info": info});
        assert_eq!(alerted_number(&nested).as_deref(), Some("106"));
        assert_eq!(alerted_number(&json!({"entity_type": "WABA", "entity_id": "107"})), None);
        for value in [info, nested] {
            let fault = account_news("account_alerts", &value).unwrap();
            assert_eq!(fault.title.as_deref(), Some("OBA_REVOKED"));
            assert!(fault.failure.details.starts_with("CRITICAL, ACTIVE, The badge is"));
            assert!(!fault.failure.details.contains('\u{7}'));
            assert_eq!(fault.failure.class, FailureClass::Unrecognized);
        }
        let fault = account_news("security", &json!({"event": "PIN_CHANGED"})).unwrap();
        assert_eq!((fault.title.as_deref(), fault.of_account), (Some("PIN_CHANGED"), false));
        let unreadable = Err(Some(IgnoredReason::Unreadable));
        for (field, name) in [("account_alerts", "alert_type"), ("security", "event")] {
            assert_eq!(account_news(field, &json!({})), Err(None));
            assert_eq!(account_news(field, &json!({name: 7})), unreadable);
        }
    }
}
