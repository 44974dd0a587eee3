//! Records the outcomes of messages, and applies their consequences for the whole broadcast.

use postrider_channel::outcome::FinalOutcome;
use postrider_domain::NumberId;

use super::{Fanout, FanoutState};
use crate::BroadcastOptions;
use crate::control::{Control, ControlError, TemplateRefusal, Verdict, verdict};
use crate::outcomes::{Failed, Mark};
use crate::record::BroadcastStatus;

/// The consequences of some outcomes for the whole broadcast.
#[derive(Default)]
struct Consequences {
    /// The refusals of the template to numbers, each once, with the verdict if no other goes on.
    refusals: Vec<(TemplateRefusal, Verdict)>,
    /// The first verdict of any other kind.
    other: Option<Verdict>,
}

impl Consequences {
    /// Returns the consequences of outcomes of messages that left `through` these numbers.
    fn of(
        outcomes: &[(u32, FinalOutcome)],
        personal: bool,
        through: impl Fn(u32) -> NumberId,
    ) -> Self {
        let mut stops = Self::default();
        for (index, outcome) in outcomes {
            let FinalOutcome::Failed(failure) = outcome else { continue };
            let Some(verdict) = verdict(failure, personal) else { continue };
            match TemplateRefusal::of(failure, through(*index), personal) {
                None => stops.other = stops.other.or(Some(verdict)),
                Some(new) if stops.refusals.iter().any(|(known, _)| *known == new) => {}
                Some(new) => stops.refusals.push((new, verdict)),
            }
        }
        stops
    }
}

/// Records final outcomes, and pauses or fails the broadcast if one of them requires it. If the
/// broadcast goes on, a message whose template was refused leaves through another account's number.
pub(super) async fn apply_outcomes(
    fanout: &Fanout,
    outcomes: Vec<(u32, FinalOutcome)>,
    state: &mut FanoutState,
) {
    fanout.give_back_unsent(&outcomes, state);
    let personal = state.record.personal;
    let Consequences { refusals, other } =
        Consequences::of(&outcomes, personal, |index| state.number_of(index));
    let mut passed_on = Vec::new();
    for (refusal, verdict) in refusals {
        if stop(fanout, verdict, Some(refusal), state).await {
            passed_on.push(refusal);
        }
    }
    for (index, outcome) in outcomes {
        let (mark, failed) = match outcome {
            FinalOutcome::Sent => (Mark::Sent, None),
            FinalOutcome::SentAs(name) => {
                state.names.push((index, name));
                (Mark::Sent, None)
            }
            FinalOutcome::Held(name) => {
                state.names.extend(name.map(|name| (index, name)));
                (Mark::Held, None)
            }
            FinalOutcome::Unknown => (Mark::Unknown, None),
            FinalOutcome::NotSentInTime => {
                let late = Failed { refused: false, code: None, details: Box::default() };
                (Mark::Failed, Some(late))
            }
            FinalOutcome::Failed(failure) => {
                let refusal = TemplateRefusal::of(&failure, state.number_of(index), personal);
                let is_passed_on = refusal.is_some_and(|it| passed_on.contains(&it));
                let pauses = matches!(verdict(&failure, personal), Some(Verdict::Pause(_)));
                match is_passed_on || pauses {
                    true => (Mark::Retry, None),
                    false => (Mark::Failed, Some(Failed::of(&failure))),
                }
            }
        };
        state.failure_rate.outcome(index, mark);
        state.settle(index, mark, failed);
    }
    if !passed_on.is_empty() {
        fanout.take_back(state);
    }
    match other {
        Some(verdict) => drop(stop(fanout, verdict, None, state).await),
        None => pause_if_too_many_failed(fanout, state).await,
    }
}

/// Pauses the broadcast if too many messages fail.
pub(super) async fn pause_if_too_many_failed(fanout: &Fanout, state: &mut FanoutState) {
    let too_many = state.failure_rate.too_many_failed(&fanout.options);
    if let Some(reason) = too_many.filter(|_| !state.plan.is_done()) {
        fanout.pause(reason, state).await;
    }
}

/// Pauses or fails the broadcast, unless numbers go on to which its template is not refused.
/// Returns whether it may go on; then refused messages are sent again.
pub(super) async fn stop(
    fanout: &Fanout,
    verdict: Verdict,
    refusal: Option<TemplateRefusal>,
    state: &mut FanoutState,
) -> bool {
    let status = state.record.status;
    let control = match verdict {
        Verdict::Pause(reason) if status == BroadcastStatus::Sending => {
            Control::Pause { reason: Some(reason), refusal }
        }
        Verdict::Fail(reason) if !status.is_over() => Control::Fail { reason, refusal },
        _ => return false,
    };
    let done = fanout.try_control(control, state).await;
    may_go_on(&done, state.record.status)
}

/// Returns whether a broadcast that was to stop may go on. It may if it is not over, or if the
/// result is unknown.
const fn may_go_on(done: &Result<(), ControlError>, status: BroadcastStatus) -> bool {
    match done {
        Ok(()) => !status.is_over(),
        Err(ControlError::Unavailable(_)) => true,
        Err(_) => false,
    }
}

/// The outcomes since the status of a broadcast last changed, and the failures among them.
///
/// A failure counts however it was reported: in the answer to the message, or by a later report on
/// a message that had been accepted.
#[derive(Debug, Default)]
pub(super) struct FailureRate {
    outcomes: u32,
    failed: u32,
    /// The recipients whose messages were accepted and are not reported as failed.
    accepted: RecipientSet,
    /// The recipients whose messages are reported as failed. A report may overtake the answer.
    reported: RecipientSet,
}

impl FailureRate {
    /// Records the outcome of the message to the recipient at this index.
    pub(super) fn outcome(&mut self, index: u32, mark: Mark) {
        self.outcomes += 1;
        match mark {
            Mark::Failed => self.failed += 1,
            Mark::Sent | Mark::Held | Mark::Unknown if self.reported.has(index) => self.failed += 1,
            Mark::Sent | Mark::Held | Mark::Unknown => self.accepted.set(index, true),
            Mark::Claimed | Mark::Retry | Mark::OptedOut => {}
        }
    }

    /// Records a report that the message to the recipient at this index failed.
    pub(super) fn reported_failed(&mut self, index: u32) {
        if self.accepted.has(index) {
            self.accepted.set(index, false);
            self.failed += 1;
        }
        self.reported.set(index, true);
    }

    /// Resets the counts after a change of the status: earlier outcomes do not count any more.
    pub(super) fn begin_again(&mut self) {
        let reported = std::mem::take(&mut self.reported);
        *self = Self { reported, ..Self::default() };
    }

    /// Returns the reason for a pause, if too many of the outcomes are failures.
    pub(super) fn too_many_failed(&self, options: &BroadcastOptions) -> Option<Box<str>> {
        let Self { outcomes, failed, .. } = *self;
        let percent = u64::from(options.pause_failure_percent);
        let too_many = percent > 0
            && outcomes >= options.pause_failure_min
            && u64::from(failed) * 100 > u64::from(outcomes) * percent;
        too_many.then(|| format!("{failed} of {outcomes} messages failed").into())
    }
}

/// A set of recipients: one bit for each, up to the last one in the set.
#[derive(Debug, Default)]
struct RecipientSet(Vec<u64>);

impl RecipientSet {
    const fn of(index: u32) -> (usize, u64) {
        ((index / u64::BITS) as usize, 1 << (index % u64::BITS))
    }

    fn has(&self, index: u32) -> bool {
        let (word, bit) = Self::of(index);
        self.0.get(word).is_some_and(|bits| bits & bit != 0)
    }

    fn set(&mut self, index: u32, is_in: bool) {
        let (word, bit) = Self::of(index);
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        if let Some(bits) = self.0.get_mut(word) {
            *bits = if is_in { *bits | bit } else { *bits & !bit };
        }
    }
}

#[cfg(test)]
mod tests {
    use postrider_channel::{Failure, FailureClass};
    use postrider_domain::template::TemplateStatus;
    use postrider_domain::unavailable::{Unavailable, UnavailableReason};

    use super::*;

    #[test]
    fn who_was_refused_is_written_to_again_unless_the_broadcast_is_known_to_be_over() {
        use BroadcastStatus::{Failed, Paused, Sending};
        let draining = Unavailable::because(UnavailableReason::Draining);
        for (done, status, expected) in [
            (Ok(()), Sending, true),
            (Ok(()), Paused, true),
            (Ok(()), Failed, false),
            (Err(ControlError::Unavailable(draining)), Sending, true),
            (Err(ControlError::WrongState(Failed)), Sending, false),
        ] {
            assert_eq!(may_go_on(&done, status), expected, "{done:?}, {status:?}");
        }
    }

    #[test]
    fn each_number_is_heard_and_none_hides_what_another_says() {
        use FailureClass::{Permanent, SpamLimit, Template, TemplateDisabled, TemplatePaused};
        let failed = |class| FinalOutcome::Failed(Failure { class, ..Failure::permanent(None) });
        let classes = [TemplatePaused, SpamLimit, TemplateDisabled, Permanent, Template, Template];
        let outcomes: Vec<_> = (0..).zip(classes.map(failed)).collect();
        let number = |index: u32| NumberId::from_bytes([index as u8 / 2; 16]);
        let stops = Consequences::of(&outcomes, false, number);
        let refusals: Vec<_> = stops.refusals.iter().map(|(refusal, _)| *refusal).collect();
        let refusal = |index, status| TemplateRefusal { number: number(index), status };
        let statuses = [TemplateStatus::Paused, TemplateStatus::Disabled].map(Some);
        let expected = [refusal(0, statuses[0]), refusal(2, statuses[1]), refusal(4, None)];
        assert_eq!(refusals, expected);
        assert!(matches!(stops.other, Some(Verdict::Pause(_))), "spam pauses it all the same");
    }

    #[test]
    fn refused_parameters_are_those_of_one_recipient_where_each_has_their_own() {
        let refused = Failure { class: FailureClass::Parameters, ..Failure::permanent(None) };
        let outcomes = [(0, FinalOutcome::Failed(refused))];
        let number = |_| NumberId::from_bytes([1; 16]);
        for (personal, expected) in [(true, 0), (false, 1)] {
            let stops = Consequences::of(&outcomes, personal, number);
            assert_eq!(stops.refusals.len(), expected, "{personal}");
            assert!(stops.other.is_none());
        }
    }

    fn options() -> BroadcastOptions {
        BroadcastOptions { pause_failure_min: 4, ..BroadcastOptions::default() }
    }

    #[test]
    fn a_failure_counts_once_however_it_is_reported() {
        let mut rate = FailureRate::default();
        rate.outcome(0, Mark::Sent);
        rate.reported_failed(0);
        rate.reported_failed(0);
        rate.outcome(1, Mark::Failed);
        rate.reported_failed(1);
        assert_eq!((rate.outcomes, rate.failed), (2, 2));
        // The report has overtaken the answer.
        rate.reported_failed(70);
        assert_eq!(rate.failed, 2);
        rate.outcome(70, Mark::Sent);
        assert_eq!(rate.too_many_failed(&options()), None, "too few are judged");
        rate.outcome(3, Mark::Retry);
        assert_eq!(rate.too_many_failed(&options()).as_deref(), Some("3 of 4 messages failed"));
        for index in [4, 5] {
            rate.outcome(index, Mark::Unknown);
        }
        assert_eq!(rate.too_many_failed(&options()), None, "half is not more than half");
    }

    #[test]
    fn what_was_before_a_change_of_status_does_not_count() {
        let mut rate = FailureRate::default();
        (0..8).for_each(|index| rate.outcome(index, Mark::Sent));
        rate.begin_again();
        (0..8).for_each(|index| rate.reported_failed(index));
        assert_eq!((rate.outcomes, rate.failed), (0, 0));
        (8..12).for_each(|index| rate.outcome(index, Mark::Sent));
        assert_eq!(rate.too_many_failed(&options()), None);
    }
}
