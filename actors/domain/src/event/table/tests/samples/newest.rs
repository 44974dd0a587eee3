//! Pure: payloads of the newest event types, in the order of their rows.

use super::{media, message, phone, template_category, template_quality};
use crate::event::decision::OtpDecision;
use crate::event::table::*;
use crate::golden::{AT, UNIQUE};
use crate::{NumberId, RequestId};

pub(super) fn newest() -> Vec<EventData> {
    vec![
        template_category(),
        template_quality(),
        EventData::MediaReady(media(None)),
        EventData::MediaFailed(media(Some("refused".into()))),
        EventData::MessageHeld(message("held")),
        EventData::NumberChanged(NumberChangedData {
            number_id: NumberId::from_parts(AT, UNIQUE),
            field: "pace",
            previous: Some("80".into()),
            value: "1000".into(),
        }),
        EventData::NumberLimitReached(LimitReachedData {
            portfolio_id: "107".into(),
            daily_recipients: Some(250),
            frees_at: Some(AT),
        }),
        EventData::NumberLimitFreed(LimitFreedData {
            portfolio_id: "107".into(),
            daily_recipients: None,
        }),
        EventData::OtpDecided(OtpDecidedData {
            request_id: Some(RequestId::from_parts(AT, UNIQUE)),
            phone: phone(),
            prefix: "1555".into(),
            rule: "prefix",
            sent: 50,
            verified: 4,
            decision: OtpDecision::Probe.as_str(),
        }),
    ]
}
