//! Pure: what others can send of a number that is down.

use postrider_domain::NumberId;
use postrider_number::Wanted;

use super::Core;
use super::otp::languages;

/// What the numbers that are `up` can send of one that is down: a message made of a template moves
/// to a number of the same account only, and a code to any whose account has the template of codes.
pub(crate) fn takes_over(core: &Core, down: NumberId, up: &[NumberId]) -> Wanted {
    let pool = &core.pool;
    let accounts = || up.iter().filter_map(|number| pool.account(*number));
    Wanted {
        codes: accounts().any(|account| languages::carries_some(core, account)),
        templates: accounts().any(|account| Some(account) == pool.account(down)),
    }
}
