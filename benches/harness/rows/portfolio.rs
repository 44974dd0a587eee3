//! `portfolio_memory` is the cost of a recipient that counts towards the budget of a portfolio.
//!
//! The recipients are counted one after the other at the usual pace of a number, in this process.
//! The value is the allocation afterwards, less that before. Their rows in the store are not in it.

use std::hint::black_box;

use postrider_actors::domain::Timestamp;
use postrider_actors::{MessageMark, UniqueRecipients};

use super::Group;
use crate::Result;
use crate::memory::allocated;
use crate::report::Row;
use crate::scale::Scale;

/// The row.
pub(crate) const GROUP: Group = Group { rows: &["portfolio_memory"], run };

const BUDGET_AND_GOAL: (f64, f64) = (24.0, 20.0);
/// The maximum number of recipients: the budget is about it.
const RECIPIENTS_MAX: usize = 100_000;
/// The recipients per second.
const PACE: u64 = 80;
/// The factor that makes a hash of a number.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

fn run(scale: &Scale) -> Result<Vec<Row>> {
    let recipients = scale.pending.min(RECIPIENTS_MAX);
    let before = allocated()?;
    let mut all = UniqueRecipients::default();
    for of in 0..recipients as u64 {
        let at = Timestamp::from_millis(of * 1000 / PACE);
        all.count((of + 1).wrapping_mul(SPREAD), MessageMark::default(), at);
    }
    let bytes = allocated()? - before;
    if black_box(&all).used() as usize != recipients {
        return Err(format!("{} of {recipients} recipients count", all.used()).into());
    }
    let unit = format!("bytes allocated per recipient that counts, at {recipients}");
    let value = bytes / recipients as f64;
    Ok(vec![Row::of_value(GROUP.rows[0], unit, value, Some(BUDGET_AND_GOAL))])
}
