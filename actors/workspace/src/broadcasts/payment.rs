//! Pure: the credits after a report on a message of a settled broadcast.

use postrider_broadcast::outcomes::Mark;
use postrider_broadcast::record::Record;
use postrider_broadcast::reports::Report;

use crate::broadcasts::view::status_of;

/// Returns the credits after a report on one message with this outcome and the earlier `before`.
///
/// While a broadcast is not settled, its credits are reserved, and the settling counts every
/// message once. From then on, a report that changes whether its message is paid for moves the
/// message's price.
pub(super) fn credits_after(
    credits: u64,
    record: &Record,
    mark: Option<Mark>,
    (before, now): (Option<Report>, Report),
) -> u64 {
    let Some(mark) = mark.filter(|_| record.settled) else { return credits };
    let is_paid = |report| status_of(record, mark, report).is_paid();
    match (is_paid(before), is_paid(Some(now))) {
        (true, false) => credits.saturating_add(record.price),
        (false, true) => credits.saturating_sub(record.price),
        (true, true) | (false, false) => credits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broadcasts::BroadcastCounts;
    use postrider_broadcast::reports::Reports;
    use proptest::prelude::*;
    use serde_json::json;

    const MESSAGES: usize = 4;
    const PRICE: u64 = 3;
    const BEGIN: u64 = 1000;

    fn record(settled: bool) -> Record {
        let status = if settled { "completed" } else { "sending" };
        serde_json::from_value(json!({
            "id": "brd_01hf7yat3v041061050r3gg28a", "name": "Spring",
            "template": {"name": "offer", "language": "en"}, "category": "marketing",
            "policy": "at_least_once", "status": status, "reason": null, "total": MESSAGES,
            "sendable": MESSAGES, "price": PRICE, "number": "num_01hf7yat3v041061050r3gg28b",
            "definition": [], "components": [], "personal": false, "created_at": 0,
            "schedule_at": null, "started_at": 0, "finished_at": null, "retry_of": null,
            "settled": settled,
        }))
        .unwrap()
    }

    fn counts(record: &Record, marks: &[Mark], reports: &Reports) -> BroadcastCounts {
        let mut counts = BroadcastCounts::default();
        for (at, mark) in marks.iter().enumerate() {
            *counts.of(status_of(record, *mark, reports.of(at))) += 1;
        }
        counts
    }

    #[derive(Debug, Clone)]
    enum Step {
        /// The message gets this outcome, unless it has a final one.
        Outcome(usize, Mark),
        Report(usize, Report),
        Settle,
    }

    fn step() -> impl Strategy<Value = Step> {
        let place = 0..MESSAGES;
        let marks =
            vec![Mark::Retry, Mark::Sent, Mark::Held, Mark::Failed, Mark::Unknown, Mark::OptedOut];
        let reports = vec![Report::Sent, Report::Delivered, Report::Read, Report::Failed];
        prop_oneof![
            4 => (place.clone(), prop::sample::select(marks)).prop_map(|(at, it)| Step::Outcome(at, it)),
            4 => (place, prop::sample::select(reports)).prop_map(|(at, it)| Step::Report(at, it)),
            1 => Just(Step::Settle),
        ]
    }

    proptest! {
        #[test]
        fn what_is_paid_is_the_price_of_what_was_sent_and_did_not_fail(
            steps in prop::collection::vec(step(), 0..30),
        ) {
            let (mut marks, mut reports) = ([Mark::Claimed; MESSAGES], Reports::default());
            let (mut credits, mut settled) = (BEGIN - PRICE * MESSAGES as u64, false);
            let settle = |credits: &mut u64, marks: &[Mark], reports: &Reports| {
                let unpaid = MESSAGES as u64 - u64::from(counts(&record(true), marks, reports).paid());
                *credits += unpaid * PRICE;
            };
            for step in steps {
                match step {
                    Step::Outcome(at, mark) if !settled && !marks[at].is_final() => marks[at] = mark,
                    Step::Outcome(..) => {}
                    Step::Report(at, report) => {
                        let before = reports.of(at);
                        if reports.take(at, report, None) {
                            let known = (before, report);
                            credits = credits_after(credits, &record(settled), Some(marks[at]), known);
                        }
                    }
                    Step::Settle if settled => {}
                    Step::Settle => {
                        settle(&mut credits, &marks, &reports);
                        settled = true;
                    }
                }
            }
            if !settled {
                settle(&mut credits, &marks, &reports);
            }
            let counts = counts(&record(true), &marks, &reports);
            let sent = counts.held + counts.sent + counts.delivered + counts.read + counts.unknown;
            prop_assert_eq!(BEGIN - credits, PRICE * u64::from(sent));
        }
    }
}
