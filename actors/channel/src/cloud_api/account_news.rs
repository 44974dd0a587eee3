//! Pure: parses the provider's news of an account, and warnings about a number.
//!
//! News that prevent an account from sending stop its numbers. Everything else is passed on to its
//! operators.

use serde_json::Value;

use postrider_domain::printable;

use super::items::PassedOver;
use super::number_news::word;
use crate::callback::{ChannelFault, IgnoredReason};
use crate::{Failure, FailureClass};

/// The fields of callbacks that stop numbers, or warn.
pub(super) const ACCOUNT_FIELDS: [&str; 3] = ["account_update", "account_alerts", "security"];

/// The maximum number of stored characters of an explanation.
const DETAILS_CHARS_MAX: usize = 500;

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

/// Parses a change of one of [`ACCOUNT_FIELDS`].
pub(super) fn news(field: &str, value: &Value) -> Result<ChannelFault, PassedOver> {
    match field {
        "account_update" => account(value),
        "account_alerts" => alert(value),
        _ => Ok(warning(named(&value["event"])?, "")),
    }
}

/// Returns the word for the event. A notice without one is ignored.
fn named(value: &Value) -> Result<Box<str>, PassedOver> {
    let why = if value.is_null() { None } else { Some(IgnoredReason::Unreadable) };
    word(value).ok_or(why)
}

fn account(value: &Value) -> Result<ChannelFault, PassedOver> {
    let event = named(&value["event"])?;
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

fn alert(value: &Value) -> Result<ChannelFault, PassedOver> {
    let info = if value["alert_info"].is_object() { &value["alert_info"] } else { value };
    let title = named(&info["alert_type"])?;
    let said = [&info["alert_severity"], &info["alert_status"], &info["alert_description"]];
    let said: Vec<_> = said.into_iter().filter_map(Value::as_str).collect();
    Ok(warning(title, &said.join(", ")))
}

fn warning(title: Box<str>, details: &str) -> ChannelFault {
    let details: String = details.chars().take(DETAILS_CHARS_MAX).collect();
    let details = printable::harmless(&details).into();
    let failure = Failure { class: FailureClass::Unrecognized, code: None, details };
    ChannelFault { failure, title: Some(title), of_account: false }
}

/// Returns the provider's id of the number that an alert concerns, if it concerns one.
pub(super) fn alerted_number(value: &Value) -> Option<Box<str>> {
    let is_number = value["entity_type"].as_str() == Some("PHONE_NUMBER");
    is_number.then(|| value["entity_id"].as_str().map(Into::into)).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
            let fault = news("account_update", &value).unwrap();
            assert_eq!(fault.failure.class == FailureClass::Account, stops, "{value}");
            assert_eq!((fault.of_account, &*fault.failure.details), (stops, details), "{value}");
            assert_eq!(fault.title.as_deref(), value["event"].as_str());
        }
        let passed_over = |value| news("account_update", &value).unwrap_err();
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
            let fault = news("account_alerts", &value).unwrap();
            assert_eq!(fault.title.as_deref(), Some("OBA_REVOKED"));
            assert!(fault.failure.details.starts_with("CRITICAL, ACTIVE, The badge is"));
            assert!(!fault.failure.details.contains('\u{7}'));
            assert_eq!(fault.failure.class, FailureClass::Unrecognized);
        }
        let fault = news("security", &json!({"event": "PIN_CHANGED"})).unwrap();
        assert_eq!((fault.title.as_deref(), fault.of_account), (Some("PIN_CHANGED"), false));
        let unreadable = Err(Some(IgnoredReason::Unreadable));
        for (field, name) in [("account_alerts", "alert_type"), ("security", "event")] {
            assert_eq!(news(field, &json!({})), Err(None));
            assert_eq!(news(field, &json!({name: 7})), unreadable);
        }
    }
}
