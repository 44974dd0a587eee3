//! Pure: limits codes to destinations where few of them are verified.
//!
//! A region is limited while too few of its codes of the window were verified. A country is limited
//! while that holds for its other regions together. Then a few codes go on as probes, which show
//! when real people are back. A region of a limited country that does well by itself is not
//! limited. Refusals cost their cause nothing, so only so many of each span are emitted.

use postrider_domain::destination::{Prefix, calling_code, region};
use postrider_domain::event::chain::{ChainPlan, OtpChannel};
use postrider_domain::event::decision::{OtpDecidedData, OtpDecision};
use postrider_domain::event::otp::{OtpNotes, OtpOwnNotes};
use postrider_domain::{AdaptiveMode, Event, EventData, Phone, RequestId};

use super::conversion_counts::{Conversion, spans_of};
use super::types::{BlockedBy, SendOtpError};
use crate::core::Core;
use crate::core::effects::Effects;
use crate::core::otp::pumping_guard::hour_start;
use crate::core::settings::AdaptiveOptions;

/// A limited destination, and the rule that limits it.
struct LimitedDestination {
    prefix: Prefix,
    rule: &'static str,
    counts: Conversion,
}

/// Checks whether a one-time password may go to the phone.
///
/// Returns the decision if its destination is limited. A request that is sent again is `known`.
pub(super) fn check(
    core: &mut Core,
    (id, known): (RequestId, bool),
    (phone, plan): (Phone, Option<&ChainPlan>),
    effects: &mut Effects,
) -> Result<Option<OtpDecision>, SendOtpError> {
    let options = core.rules.guard.adaptive;
    let mode = core.destinations.adaptive.unwrap_or(options.mode);
    let goes_to_phone =
        |plan: &ChainPlan| plan.steps.iter().any(|step| step.channel != OtpChannel::Email);
    if mode == AdaptiveMode::Off || !plan.is_none_or(goes_to_phone) {
        return Ok(None);
    }
    let Some(LimitedDestination { prefix, rule, counts }) = limited(core, phone, &options) else {
        return Ok(None);
    };
    let decision = match mode {
        _ if core.destinations.is_safe(phone) => OtpDecision::Allowed,
        AdaptiveMode::Refuse if takes_probe(core, (phone, prefix), &options) => OtpDecision::Probe,
        AdaptiveMode::Refuse => OtpDecision::Refused,
        _ => OtpDecision::WouldRefuse,
    };
    let is_refused = decision == OtpDecision::Refused;
    let Conversion { ended: sent, verified } = counts;
    let prefix = prefix.to_string();
    let by = BlockedBy::Conversion { prefix: prefix.clone(), sent, verified };
    let data = OtpDecidedData {
        request_id: Some(id).filter(|_| known || !is_refused),
        phone,
        prefix,
        rule,
        sent,
        verified,
        decision: decision.as_str(),
    };
    let now = core.now();
    if !is_refused || core.hot.conversions.emitted.admits(now, &data.prefix) {
        effects.emit(now, EventData::OtpDecided(data));
    }
    if is_refused { Err(SendOtpError::DestinationBlocked(by)) } else { Ok(Some(decision)) }
}

/// Notes the decision about a send with its request.
pub(super) fn note(
    core: &mut Core,
    id: RequestId,
    decision: Option<OtpDecision>,
    effects: &mut Effects,
) {
    let own = core.hot.otps.extras.own(id).unwrap_or_default();
    if own.decision == decision {
        return;
    }
    let own = Some(Box::new(OtpOwnNotes { decision, ..own }));
    let notes = OtpNotes { own, ..core.hot.otps.extras.notes(id) };
    if let Some(notes) = notes.to_json() {
        core.perform(Event::OtpNoted { id, notes }, effects);
    }
}

fn limited(core: &mut Core, phone: Phone, options: &AdaptiveOptions) -> Option<LimitedDestination> {
    let (now, spans) = (core.now(), spans_of(options.window_seconds));
    let (region, code) = (region(phone), calling_code(phone));
    let conversions = &mut core.hot.conversions;
    let counts = conversions.of_region(region, now, spans);
    if conversions.limits.judge(region, now, counts, options) {
        return Some(LimitedDestination { prefix: region, rule: "prefix", counts });
    }
    if counts.verified > 0 && !options.is_under(counts) {
        return None;
    }
    let has_own_limit = |of| options.has_too_few(of);
    let counts = conversions.of_country(code, (now, spans), has_own_limit);
    let country = Prefix::of_country(code);
    let is_limited = conversions.limits.judge(country, now, counts, options);
    is_limited.then_some(LimitedDestination { prefix: country, rule: "country", counts })
}

/// Returns whether codes to the phone are of the few that go on as probes.
///
/// The choice of phones stays for an hour, so asking again changes nothing. Nobody outside can know
/// which phones are chosen.
fn is_probe(core: &Core, phone: Phone, options: &AdaptiveOptions) -> bool {
    let hour = hour_start(core.now()).as_secs().to_be_bytes();
    let hash = core.keys.caller("probe", &[phone.key_bytes(), hour].concat());
    hash.is_some_and(|hash| u128::from_be_bytes(hash) % 100 < options.probe_percent.into())
}

/// Takes a probe for the phone, if it is chosen and its destination has one left in the window.
fn takes_probe(core: &mut Core, (phone, to): (Phone, Prefix), options: &AdaptiveOptions) -> bool {
    let now = core.now();
    is_probe(core, phone, options) && core.hot.conversions.limits.take_probe(to, now, options)
}
