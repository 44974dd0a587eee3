//! Parses the steps over which a code is sent, and shows their outcomes.

use postrider_actors::OtpTry;
use postrider_actors::domain::event::chain::{ChainStep, OtpChannel};
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::pipeline::{ApiError, Integer};

/// One step: the name of a channel, or an object.
#[derive(Debug)]
pub(crate) struct StepBody(StepObject);

/// A channel, and the time to wait for a delivery over it.
#[derive(Debug, Deserialize)]
struct StepObject {
    channel: String,
    timeout_seconds: Option<Integer>,
}

impl<'de> Deserialize<'de> for StepBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = StepBody;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the name of a channel or an object")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<StepBody, E> {
                Ok(StepBody(StepObject { channel: name.to_owned(), timeout_seconds: None }))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<StepBody, A::Error> {
                StepObject::deserialize(de::value::MapAccessDeserializer::new(map)).map(StepBody)
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

/// Checks the steps of a chain.
pub(crate) fn steps(given: &[StepBody]) -> Result<Vec<ChainStep>, ApiError> {
    if !(1..=ChainStep::MAX).contains(&given.len()) {
        return Err(ApiError::field("channels", "must have 1 to 3 entries"));
    }
    let mut steps: Vec<ChainStep> = Vec::new();
    for (place, StepBody(step)) in given.iter().enumerate() {
        let field = format!("channels[{place}]");
        let channel = OtpChannel::of(&step.channel)
            .ok_or_else(|| ApiError::field(&field, "must be one of messaging, sms, email"))?;
        if steps.iter().any(|before| before.channel == channel) {
            return Err(ApiError::field(&field, "must not be there twice"));
        }
        let timeout_seconds = match &step.timeout_seconds {
            // The engine then uses the time of the settings.
            None => 0,
            Some(seconds) => seconds.within(
                &format!("{field}.timeout_seconds"),
                ChainStep::SECONDS_MIN,
                ChainStep::SECONDS_MAX,
            )?,
        };
        steps.push(ChainStep { channel, timeout_seconds });
    }
    Ok(steps)
}

/// One try to bring a code to its person.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OtpTry)]
pub(crate) struct TryRow {
    /// Which one, from 1.
    step: u8,
    /// `messaging`, `sms` or `email`.
    #[schema(example = "sms")]
    channel: &'static str,
    /// `queued`, `sent`, `delivered`, `read`, `failed`, `unknown` (no answer came) or `skipped`
    /// (not begun).
    #[schema(example = "sent")]
    status: &'static str,
    /// The channel's error code, where it gave one.
    error: Option<u32>,
    /// The credits that it costs; 0 once they were given back.
    price: u64,
    /// When it began.
    #[schema(format = DateTime, example = "2026-01-31T09:25:00.000Z")]
    started_at: String,
    /// When the chain went on from it, or came to its end.
    #[schema(format = DateTime, example = "2026-01-31T09:25:30.000Z")]
    ended_at: Option<String>,
}

impl From<OtpTry> for TryRow {
    fn from(it: OtpTry) -> Self {
        Self {
            step: it.step,
            channel: it.channel.as_str(),
            status: it.status.as_str(),
            error: it.error,
            price: it.price,
            started_at: it.started_at.to_string(),
            ended_at: it.ended_at.map(|at| at.to_string()),
        }
    }
}
