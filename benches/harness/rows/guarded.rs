//! `otp_send_http_guarded` measures the cost of judging the destination of each code.
//!
//! One server refuses codes to destinations where few are verified, and another judges none. Both
//! get the same sends in turn. No code has ended in the region that these go to, and some have in
//! others of its country. So each send adds up the figures of the whole country.

use postrider_actors::domain::{AdaptiveMode, Phone};

use super::Group;
use super::otp_http::{BARE, Servers};
use super::traced::sends_in_turn;
use crate::Result;
use crate::report::Row;
use crate::scale::Scale;

/// The row.
pub(crate) const GROUP: Group = Group { rows: &["otp_send_http_guarded"], run };

/// The maximum cost is 3 %; the goal is a cost that does not exceed the noise.
const BUDGET_AND_GOAL: (f64, f64) = (0.97, 1.0);

/// The number of regions of the country with verified codes, and of codes in each.
const REGIONS: u64 = 20;
const VERIFIED: u64 = 50;
/// The first phone of the first of these regions, and the number of phones in each region.
const FIRST: u64 = 491_600_000_000;
const PHONES_OF_REGION: u64 = 10_000_000;

/// Returns the phones whose codes are verified.
fn phones() -> Result<Vec<Phone>> {
    let of = |region: u64| (0..VERIFIED).map(move |at| FIRST + region * PHONES_OF_REGION + at);
    let phones = (0..REGIONS).flat_map(of).map(|phone| Ok(format!("+{phone}").parse()?));
    phones.collect()
}

fn run(scale: &Scale) -> Result<Vec<Row>> {
    let guarded = Servers::start_with(&BARE, |settings| {
        settings.guard.adaptive = AdaptiveMode::Refuse;
    })?;
    let plain = Servers::start(&BARE)?;
    let phones = phones()?;
    guarded.verify_all(&phones)?;
    plain.verify_all(&phones)?;
    let pair = sends_in_turn(scale, &guarded, &plain)?;
    guarded.stop()?;
    plain.stop()?;
    let unit = format!("sends/s of {} connections, each destination judged", scale.connections);
    let reference = "sends/s of a server that judges none";
    Ok(vec![Row::of_rates(GROUP.rows[0], unit, reference, pair, BUDGET_AND_GOAL)])
}
