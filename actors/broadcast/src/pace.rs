//! Pure: the pace of a broadcast: how many recipients one claim takes.
//!
//! A claim takes as many as the numbers send in a second. A larger one would leave more outcomes
//! unknown after a crash.

use crate::record::WINDOW;

/// The smallest claim, so that a few messages in flight do not block the others.
const CLAIMED_MIN: u32 = 50;

/// Returns the pace of one number by its maximum messages per second, 0 for no limit. `None`: it is
/// not connected.
pub(crate) fn of_number(messages_per_second: Option<u32>) -> u32 {
    let limit = messages_per_second.filter(|limit| *limit > 0);
    limit.unwrap_or(WINDOW).clamp(CLAIMED_MIN, WINDOW)
}

/// Returns the number of recipients of one claim for numbers of these paces.
pub(crate) fn claim_size(paces: impl Iterator<Item = u32>) -> u32 {
    paces.fold(0, u32::saturating_add).min(WINDOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_a_second_of_all_numbers_and_at_most_a_window() {
        let paces = [None, Some(0), Some(1), Some(80), Some(10_000)].map(of_number);
        assert_eq!(paces, [WINDOW, WINDOW, CLAIMED_MIN, 80, WINDOW]);
        assert_eq!(claim_size([80, 80].into_iter()), 160);
        assert_eq!(claim_size([400, 400].into_iter()), WINDOW);
    }
}
