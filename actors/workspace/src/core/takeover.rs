//! Pure: the messages that others can send for a number that is down.

use postrider_domain::NumberId;
use postrider_number::Wanted;

use super::Core;
use super::otp::languages;

/// Returns the messages that the numbers `up` can send for one that is down.
///
/// A message made of a template moves only to a number of the same account. A code moves to any
/// number whose account has the template of codes.
pub(crate) fn takes_over(core: &Core, down: NumberId, up: &[NumberId]) -> Wanted {
    let pool = &core.pool;
    let accounts = || up.iter().filter_map(|number| pool.account(*number));
    Wanted {
        codes: accounts().any(|account| languages::carries_some(core, account)),
        templates: accounts().any(|account| Some(account) == pool.account(down)),
    }
}
