//! Tests that only renewals of the same key extend the right, whatever becomes known of them.

use super::*;

const ME: Identity = Identity { directory: [1; 16], incarnation: [1; 16] };
const EARLIER: Identity = Identity { directory: [1; 16], incarnation: [0; 16] };
const OTHER: Identity = Identity { directory: [2; 16], incarnation: [2; 16] };

fn started() -> Tenure {
    let mut tenure = Tenure::new(Terms::DEFAULT, ME);
    assert_eq!(tenure.step(100, &TenureInput::Tick), [TenureOutput::Read]);
    assert_eq!(
        tenure.step(150, &TenureInput::Found(None)),
        [TenureOutput::TermOver, TenureOutput::Write { renewal: 1, revision: 0 }]
    );
    assert_eq!(tenure.term(150), None);
    assert_eq!(tenure.step(400, &TenureInput::Written { renewal: 1, revision: 7 }), []);
    tenure
}

#[test]
fn news_are_reported_soon_and_never_much_more_often_than_the_key_is_renewed() {
    let mut tenure = Tenure::new(Terms::DEFAULT, ME);
    let mut written = Vec::new();
    let mut now = 0;
    // News arrive all the time for a second, and then none.
    for step in 0..30 {
        now += 100;
        let input = if step < 10 { TenureInput::News } else { TenureInput::Tick };
        let mut outputs = tenure.step(now, &input);
        while let Some(output) = outputs.pop() {
            let next = match output {
                TenureOutput::Read => TenureInput::Found(None),
                TenureOutput::Write { renewal, .. } => {
                    written.push(now);
                    TenureInput::Written { renewal, revision: renewal }
                }
                TenureOutput::TermOver | TenureOutput::NameTaken => continue,
            };
            outputs.extend(tenure.step(now, &next));
        }
    }
    assert_eq!(written, [100, 300, 500, 700, 900, 1_100, 2_100], "the last news at 1000");
    assert_eq!(tenure.deadline(), 2_100 + 11_000);
}

#[test]
fn the_right_counts_from_when_the_renewal_was_sent() {
    let mut tenure = started();
    assert_eq!((tenure.term(400), tenure.deadline()), (Some(1), 11_150));
    assert_eq!((tenure.term(11_149), tenure.term(11_150)), (Some(1), None));
    assert_eq!(tenure.step(1_149, &TenureInput::Tick), []);
    let due = [TenureOutput::Write { renewal: 2, revision: 7 }];
    assert_eq!(tenure.step(1_150, &TenureInput::Tick), due);
    tenure.step(1_900, &TenureInput::Written { renewal: 2, revision: 8 });
    assert_eq!(tenure.deadline(), 12_150);
}

#[test]
fn a_renewal_without_answer_is_settled_by_reading() {
    let mut tenure = started();
    tenure.step(2_000, &TenureInput::Tick);
    assert_eq!(tenure.step(2_500, &TenureInput::Tick), []);
    assert_eq!(tenure.step(3_000, &TenureInput::Tick), [TenureOutput::Read]);
    // The renewal had not landed. The next one names the same revision, and the late one wins.
    let first = NodeKey { revision: 7, identity: ME, renewal: 1 };
    assert_eq!(tenure.step(3_010, &TenureInput::Found(Some(first))), []);
    let next = [TenureOutput::Write { renewal: 3, revision: 7 }];
    assert_eq!(tenure.step(3_020, &TenureInput::Tick), next);
    let refused = TenureInput::NotWritten { renewal: 3 };
    assert_eq!(tenure.step(3_030, &refused), [TenureOutput::Read]);
    let late = NodeKey { revision: 9, identity: ME, renewal: 2 };
    assert_eq!(tenure.step(3_040, &TenureInput::Found(Some(late))), []);
    assert_eq!(tenure.deadline(), 2_000 + 11_000);
    assert_eq!(
        tenure.step(4_020, &TenureInput::Tick),
        [TenureOutput::Write { renewal: 4, revision: 9 }]
    );
}

#[test]
fn a_key_that_has_expired_begins_another_term() {
    let mut tenure = started();
    // The process was paused for longer than the lease.
    let write = [TenureOutput::Write { renewal: 2, revision: 7 }];
    assert_eq!(tenure.step(20_000, &TenureInput::Tick), write);
    assert_eq!(tenure.step(20_010, &TenureInput::NotWritten { renewal: 2 }), [TenureOutput::Read]);
    let outputs = tenure.step(20_020, &TenureInput::Found(None));
    assert_eq!(outputs[0], TenureOutput::TermOver);
    assert_eq!(tenure.term(20_020), None);
    tenure.step(20_030, &TenureInput::Written { renewal: 3, revision: 20 });
    assert_eq!(tenure.term(20_030), Some(2));
    // An answer of the term before does not count for this one.
    let stale = TenureInput::Written { renewal: 2, revision: 8 };
    assert_eq!(tenure.step(20_040, &stale), [TenureOutput::Read]);
}

#[test]
fn an_earlier_process_is_replaced_and_another_node_is_not() {
    let mut tenure = Tenure::new(Terms::DEFAULT, ME);
    tenure.step(0, &TenureInput::Tick);
    let key = NodeKey { revision: 5, identity: EARLIER, renewal: 80 };
    let outputs = tenure.step(10, &TenureInput::Found(Some(key)));
    assert_eq!(outputs[1], TenureOutput::Write { renewal: 1, revision: 5 });
    let mut tenure = started();
    let key = NodeKey { revision: 9, identity: OTHER, renewal: 1 };
    let outputs = tenure.step(500, &TenureInput::Found(Some(key)));
    assert_eq!(outputs, [TenureOutput::TermOver, TenureOutput::NameTaken]);
    assert_eq!(tenure.term(500), None);
}
