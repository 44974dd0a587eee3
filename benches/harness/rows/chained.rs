//! `otp_send_http_chain` measures the cost of a code that may continue by SMS.
//!
//! The workspace of one server has a chain of two channels, and that of the other has none. Both
//! get the same sends in turn, and the first channel accepts them all. The sandbox reports each
//! code of a chain as delivered, because a chain waits for that. It does so on the other server
//! too, as a channel reports every message.

use super::Group;
use super::otp_http::{BARE, Servers};
use super::traced::sends_in_turn;
use crate::Result;
use crate::report::Row;
use crate::scale::Scale;

/// The row.
pub(crate) const GROUP: Group = Group { rows: &["otp_send_http_chain"], run };

/// The maximum cost is 5 %; the goal is a cost that does not exceed the noise.
const BUDGET_AND_GOAL: (f64, f64) = (0.95, 1.0);

fn run(scale: &Scale) -> Result<Vec<Row>> {
    let (chained, plain) = (Servers::start(&BARE)?, Servers::start(&BARE)?);
    chained.set_chain()?;
    plain.set_reports()?;
    let pair = sends_in_turn(scale, &chained, &plain)?;
    chained.stop()?;
    plain.stop()?;
    let unit = format!("sends/s of {} connections, with a chain", scale.connections);
    let reference = "sends/s of a server without one";
    Ok(vec![Row::of_rates(GROUP.rows[0], unit, reference, pair, BUDGET_AND_GOAL)])
}
