//! The rates at which numbers may send, and their providers' facts about them.

use std::collections::BTreeMap;

use postrider_channel::number_facts::NumberFacts;
use postrider_domain::NumberId;

use crate::directory::Numbers;
use crate::message::NumberMessage;

impl Numbers {
    /// Records the provider's facts about a number, which are durable. Its pace follows from now
    /// on.
    pub fn learn(&self, number: NumberId, facts: NumberFacts) {
        if self.connections.learn(number, facts) {
            self.directory.cast_live(&number, NumberMessage::Reconnected);
        }
    }

    /// Returns the pace of each connected number.
    pub fn paces(&self) -> BTreeMap<NumberId, u32> {
        self.connections.paces()
    }

    /// Returns the pace of the settings, if they have one.
    pub fn pace_set(&self) -> Option<u32> {
        self.connections.pace_set()
    }
}
