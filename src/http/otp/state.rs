//! The state of a one-time password, as answers show it.

use std::collections::BTreeMap;

use postrider_actors::domain::event::decision::OtpDecision;
use postrider_actors::{Delivery, OtpState, OtpStatus};
use serde::Serialize;
use utoipa::ToSchema;

use super::chain::TryRow;

/// Where a request stands.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OtpAnswer {
    /// The request.
    #[schema(example = "otp_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    request_id: String,
    /// `active`, `verified`, `expired`, `invalidated` (five wrong codes) or `cancelled`.
    #[schema(value_type = String, example = "active")]
    status: OtpStatus,
    /// Wrong codes that are still allowed.
    #[schema(minimum = 0, maximum = 5)]
    attempts_remaining: u8,
    /// When the code stops, or stopped, being valid.
    #[schema(format = DateTime, example = "2026-01-31T09:30:00.000Z")]
    expires_at: String,
    /// What became of the message, after a resend of the newest: `queued`, `sent`, `delivered`,
    /// `read`, `failed` or `unknown`.
    #[schema(value_type = String, example = "sent")]
    delivery_status: Delivery,
    /// What its caller calls it.
    #[schema(example = "order-1017")]
    reference: Option<String>,
    /// What its caller keeps with it.
    #[schema(value_type = Object, example = json!({"flow": "sign-in"}))]
    metadata: BTreeMap<String, String>,
    /// The channel that delivered it, or that of the step that began last.
    #[schema(example = "messaging")]
    channel: &'static str,
    /// `outbound`, or `inbound`: its person sends the code.
    #[schema(example = "outbound")]
    mode: &'static str,
    /// Where the code went, or who is to send it or sent it; null while anybody may send it, and of
    /// a person whose phone the channel hides.
    #[schema(example = "+15550123456")]
    phone: Option<String>,
    /// Who sent the code, once it is verified by that.
    contact_id: Option<String>,
    /// The number that its messages leave through; of one that ended an hour ago only where there
    /// was a choice.
    #[schema(example = "num_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    number_id: Option<String>,
    /// What was decided of its newest send where the destination was limited: `allowed`, `probe`
    /// or `would_refuse`; null where it was not. A resend that was refused changes nothing here.
    #[schema(example = "probe")]
    decision: Option<&'static str>,
    /// The language that is used over that channel; from an hour after the end on only where one
    /// was asked for.
    #[schema(example = "en")]
    language: Option<String>,
    /// What became of each try to bring the code. Where it goes over the chat-app channel alone,
    /// they are its sends: `started_at` is that of the request, and events have error codes.
    tries: Vec<TryRow>,
}

impl From<OtpState> for OtpAnswer {
    fn from(state: OtpState) -> Self {
        Self {
            request_id: state.request_id.to_string(),
            status: state.status,
            attempts_remaining: state.attempts_remaining,
            expires_at: state.expires_at.to_string(),
            delivery_status: state.delivery,
            mode: if state.is_inbound { "inbound" } else { "outbound" },
            phone: state.phone.map(|phone| phone.to_string()),
            contact_id: state.notes.contact_id.map(|id| id.to_string()),
            number_id: state.number.map(|id| id.to_string()),
            decision: state.notes.decision().map(OtpDecision::as_str),
            reference: state.notes.reference,
            metadata: state.notes.metadata,
            channel: state.channel.as_str(),
            language: state.language,
            tries: state.tries.into_iter().map(TryRow::from).collect(),
        }
    }
}
