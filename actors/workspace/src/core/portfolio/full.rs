//! Pure: the numbers whose portfolio has used its budget up, for the checks of codes.

use std::sync::Arc;

use postrider_domain::{NumberId, Phone, Timestamp};

/// Returns whether a recipient may be written to through a number without a place.
///
/// It may if it counts already, or has an open window.
type NeedsNone = Arc<dyn Fn(NumberId, Phone, Timestamp) -> bool + Send + Sync>;

/// Numbers that have no place for new recipients.
#[derive(Default)]
pub(crate) struct FullNumbers {
    numbers: Vec<NumberId>,
    needs_none: Option<NeedsNone>,
}

impl FullNumbers {
    pub(crate) fn new(numbers: Vec<NumberId>, needs_none: NeedsNone) -> Self {
        Self { numbers, needs_none: Some(needs_none) }
    }

    /// Returns whether there is no place for this recipient, who needs one.
    pub(crate) fn has_no_place(&self, number: NumberId, to: Phone, now: Timestamp) -> bool {
        let needs_none = || self.needs_none.as_ref().is_some_and(|it| it(number, to, now));
        self.numbers.contains(&number) && !needs_none()
    }
}

impl std::fmt::Debug for FullNumbers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FullNumbers").field(&self.numbers).finish()
    }
}
