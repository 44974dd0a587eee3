//! The figures that a number's actor reports.

use postrider_channel::Failure;
use postrider_domain::Timestamp;
use postrider_runtime::flow::Trip;

use super::NumberActor;
use super::state::State;
use crate::figures::{NumberError, NumberFigures, NumberState};

/// Stores an error of the channel for later reports.
pub(super) fn note_error(actor: &NumberActor, failure: &Failure) {
    let error = NumberError::of(failure, actor.clock.now());
    *actor.slot.last_error.lock() = Some(error);
}

/// Records whether the number sends.
pub(super) fn note_state(state: &mut State, now: Timestamp) {
    let is = if state.breaker.open_until().is_some() {
        NumberState::Stopped
    } else if state.paused_until(now).is_some() {
        NumberState::Slow
    } else {
        NumberState::Open
    };
    state.ledger.is(is, now);
}

/// Returns the number's figures, without the values that only its slot has.
pub(super) fn figures(state: &State, now: Timestamp) -> NumberFigures {
    NumberFigures {
        breaker_open: state.breaker.open_until().is_some(),
        is_account_stopped: state.breaker.trip() == Some(Trip::Stopped),
        failures: state.breaker.failures(),
        next_try_at: state.breaker.open_until().max(state.paused_until(now)),
        rate_set: state.connected.messages_per_second,
        in_flight: state.in_flight_or_claiming(),
        ..state.ledger.figures(now)
    }
}
