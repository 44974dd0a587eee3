//! Pure: parses the provider's news of a number.

use serde_json::Value;

use postrider_domain::template::TemplateQuality;
use postrider_domain::{Phone, printable};

use super::items::PassedOver;
use crate::callback::{IgnoredReason, WORD_CHARS_MAX};
use crate::number_facts::{DailyLimit, NumberFacts, Throughput};

/// The fields of callbacks with news of a number or of all numbers of an account.
pub(super) const NUMBER_FIELDS: [&str; 4] = [
    "phone_number_quality_update",
    "phone_number_name_update",
    "business_capability_update",
    "smb_message_echoes",
];

/// Parses a change of one of [`NUMBER_FIELDS`].
pub(super) fn facts(field: &str, value: &Value) -> Result<NumberFacts, PassedOver> {
    match field {
        "phone_number_name_update" => {
            let decision = value["decision"].as_str().ok_or(Some(IgnoredReason::Unreadable))?;
            let word = decision.chars().take(WORD_CHARS_MAX).collect::<String>();
            let name_status = Some(word.to_ascii_lowercase().into());
            Ok(NumberFacts { name_status, ..NumberFacts::default() })
        }
        "business_capability_update" => {
            let limit = Some(limit(value).ok_or(Some(IgnoredReason::Unreadable))?);
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
        _ => quality(value),
    }
}

/// Parses the provider's report on a number, which has the same facts as its callbacks.
pub(super) fn reported(value: &Value) -> NumberFacts {
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

/// Returns a word of the provider's, cut.
pub(super) fn word(value: &Value) -> Option<Box<str>> {
    let word: String = value.as_str()?.chars().take(WORD_CHARS_MAX).collect();
    Some(printable::harmless(&word).into())
}

fn quality(value: &Value) -> Result<NumberFacts, PassedOver> {
    let mut facts = NumberFacts { limit: limit(value), ..NumberFacts::default() };
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

/// Parses the phone that a change concerns, in any notation.
pub(super) fn phone(value: &Value) -> Option<Phone> {
    let written = value["display_phone_number"].as_str()?;
    let digits: String = written.chars().filter(char::is_ascii_digit).collect();
    format!("+{digits}").parse().ok()
}

/// Parses the number of people a day who may be written to first, as a number or as a tier.
///
/// No channel has a limit of zero people.
fn limit(value: &Value) -> Option<DailyLimit> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_word_has_its_meaning() {
        let of = |field, value| facts(field, &value);
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
            assert_eq!(facts("business_capability_update", &value), unreadable, "{value}");
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
            assert_eq!(facts("smb_message_echoes", &bad), unreadable, "{bad}");
        }
        assert_eq!(facts("phone_number_quality_update", &json!({})), unreadable);
        assert_eq!(facts("phone_number_name_update", &json!({"decision": 7})), unreadable);
        let unknown = Err(Some(IgnoredReason::UnknownType));
        assert_eq!(facts("phone_number_quality_update", &json!({"event": "X"})), unknown);
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
        assert_eq!(reported(&value), expected);
        let in_app = json!({"throughput": {"level": "HIGH"}, "is_on_biz_app": true});
        assert_eq!(reported(&in_app).throughput, Some(Throughput::Coexistence));
        for odd in [json!({}), json!(7), json!({"throughput": {"level": "NOT_APPLICABLE"}})] {
            assert_eq!(reported(&odd), NumberFacts::default());
        }
    }

    #[test]
    fn a_phone_is_read_however_it_is_written() {
        let of = |written: &str| phone(&json!({"display_phone_number": written}));
        for written in ["15550001111", "+1 555-000-1111", "+15550001111"] {
            assert_eq!(of(written).map(|it| it.to_string()).as_deref(), Some("+15550001111"));
        }
        assert_eq!((of(""), of("x")), (None, None));
    }
}
