//! Pure: the credits of a workspace: its balance, the charge for a message, and its refund.
//!
//! A message is charged in the commit that accepts it, and each step of a failover when it starts.
//! A broadcast reserves the price of all of its messages. The price is refunded once the message
//! has failed: the channel refused it, or it was not sent in time. A message whose outcome is
//! unknown stays charged, because it may have arrived. The owner of a message refunds it once, at
//! the change of its state to failed. The end of a broadcast refunds all messages that surely were
//! not sent, and later reports move the price of their own message.

use postrider_domain::prices::CREDITS_MAX;

use crate::core::Core;
use crate::core::effects::Effects;
use crate::core::settings::{ChangeError, CreditsChange};

/// Sets the balance, or adds to it, as an operator asks. Returns the new balance.
///
/// # Errors
/// [`ChangeError::TooManyCredits`]: the balance would be more than [`CREDITS_MAX`].
pub(crate) fn change(
    core: &mut Core,
    change: CreditsChange,
    effects: &mut Effects,
) -> Result<u64, ChangeError> {
    let credits = match change {
        CreditsChange::Set(credits) => credits,
        CreditsChange::Add(add) => {
            let sum = core.credits.checked_add(add).filter(|sum| *sum <= CREDITS_MAX);
            sum.ok_or(ChangeError::TooManyCredits)?
        }
    };
    set(core, credits, effects);
    Ok(credits)
}

/// Charges a price that the caller has compared with the balance.
pub(crate) fn charge(core: &mut Core, price: u64, effects: &mut Effects) {
    set(core, core.credits.saturating_sub(price), effects);
}

/// Refunds the price of messages that have failed.
pub(crate) fn refund(core: &mut Core, price: u64, effects: &mut Effects) {
    set(core, core.credits.saturating_add(price), effects);
}

/// Returns the balance after a price that was charged, or not, is charged now, or not.
pub(crate) const fn balance_after(
    credits: u64,
    price: u64,
    (was_charged, is_charged): (bool, bool),
) -> u64 {
    match (was_charged, is_charged) {
        (true, false) => credits.saturating_add(price),
        (false, true) => credits.saturating_sub(price),
        (true, true) | (false, false) => credits,
    }
}

/// Sets the balance, which is stored if it changes.
pub(crate) fn set(core: &mut Core, credits: u64, effects: &mut Effects) {
    if core.credits != credits {
        core.credits = credits;
        effects.credits = Some(credits);
    }
}
