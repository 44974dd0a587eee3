//! Pure: the messages of a number that is down which other numbers take over.

use postrider_domain::NumberId;
use postrider_number::Wanted;

use crate::core::Core;
use crate::core::otp::languages;

/// The outcome for a message whose number is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MoveOutcome {
    /// The message leaves through this number from now on.
    To(NumberId),
    /// The message waits for its own number.
    Stays,
    /// The message is not to be sent any more.
    Over,
}

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
