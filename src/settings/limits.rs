//! Declares `[limits]`, whose keys are those of the engine's limits.

use postrider_actors::domain::Limits;

use super::declare::SectionSpec;
use super::error::{Origin, Refusal, SettingsError};
use super::layers::Layers;
use super::value::{self, Raw};

/// `[limits]`. Its keys are the engine's, so a new limit needs no line here.
pub(super) const LIMITS: SectionSpec = SectionSpec {
    name: "limits",
    keys: LIMIT_KEYS,
    check: |key, raw| {
        if key == NUMBER_RATE {
            return rate(raw).map(|_| ()).ok_or(Refusal::BadValue { allowed: RATE_ALLOWED });
        }
        if key == SESSION_RATE {
            return session_rate(raw)
                .map(|_| ())
                .ok_or(Refusal::BadValue { allowed: SESSION_ALLOWED });
        }
        if !Limits::NAMES.contains(&key) {
            return Err(Refusal::UnknownKey);
        }
        let allowed = limit_allowed(key);
        limit(key)(raw).map(|_| ()).ok_or(Refusal::BadValue { allowed })
    },
};

/// A limit of numbers. It is not among the limits of workspaces and keys.
const NUMBER_RATE: &str = "number_messages_per_second";
const RATE_ALLOWED: &str = "empty, or a whole number from 0 (no limit) to 100000";

/// A limit of people's sessions. It is not among the limits of workspaces and keys.
const SESSION_RATE: &str = "session_requests_per_minute";
const SESSION_ALLOWED: &str = "a whole number from 0 (no limit) to 4294967295";

/// The limits of the engine and the rates of numbers and sessions.
const LIMIT_KEYS: &[&str] = &{
    let mut keys = [NUMBER_RATE; Limits::NAMES.len() + 2];
    keys[Limits::NAMES.len() + 1] = SESSION_RATE;
    let mut place = 0;
    while place < Limits::NAMES.len() {
        keys[place] = Limits::NAMES[place];
        place += 1;
    }
    keys
};

fn rate(raw: &Raw) -> Option<Option<u32>> {
    value::optional(value::whole(0..=100_000))(raw)
}

fn session_rate(raw: &Raw) -> Option<u32> {
    value::whole(0..=u32::MAX.into())(raw)
}

/// Builds the requests per minute of a session.
pub(super) fn build_session_rate(layers: &Layers) -> Result<u32, SettingsError> {
    layers.take(LIMITS.name, SESSION_RATE, session_rate, SESSION_ALLOWED)
}

/// Builds the rate of numbers that have none of their own.
pub(super) fn build_number_rate(layers: &Layers) -> Result<Option<u32>, SettingsError> {
    layers.take(LIMITS.name, NUMBER_RATE, rate, RATE_ALLOWED)
}

/// Returns the allowed values of a limit. The texts correspond to the engine's largest values.
fn limit_allowed(name: &str) -> &'static str {
    match Limits::max_of(name) {
        4_294_967_295 => "a whole number from 0 (no limit) to 4294967295",
        _ => "a whole number from 0 (no limit) to 9007199254740991",
    }
}

fn limit(name: &str) -> impl Fn(&Raw) -> Option<u64> {
    value::whole(0..=Limits::max_of(name))
}

/// Builds the limits of the engine from the layers.
pub(super) fn build_limits(layers: &Layers) -> Result<Limits, SettingsError> {
    let mut table = serde_json::Map::new();
    for name in Limits::NAMES {
        let limit = layers.take(LIMITS.name, name, limit(name), limit_allowed(name))?;
        table.insert((*name).to_owned(), limit.into());
    }
    serde_json::from_value(table.into()).map_err(|error| SettingsError::BadValue {
        origin: Origin::Defaults,
        key: LIMITS.name.to_owned(),
        allowed: error.to_string(),
    })
}
