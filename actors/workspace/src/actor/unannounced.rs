//! Entries of the event log whose subscribers have not been notified yet.

use postrider_store::GroupNumber;

/// The first and the last group with entries of the log whose subscribers were not notified.
#[derive(Debug, Default)]
pub(crate) struct Unannounced(Option<(GroupNumber, GroupNumber)>);

impl Unannounced {
    /// Records that entries were put into `group`.
    pub(crate) fn submitted(&mut self, group: GroupNumber) {
        self.0 = Some((self.0.map_or(group, |(first, _)| first), group));
    }

    /// Returns whether `group` made some of them durable, which are announced now.
    pub(crate) fn committed(&mut self, group: GroupNumber) -> bool {
        let Some((_, last)) = self.0.filter(|(first, _)| *first <= group) else { return false };
        self.0 = (last > group).then_some((group + 1, last));
        true
    }
}
