//! Detects a subscriber that alone has batches, so that its bulk delays no other.

use std::collections::VecDeque;
use std::sync::Arc;

use super::section::StagedSection;
use super::{Owner, Staged};

/// The number of groups without others' batches after which a subscriber is alone.
const GROUPS_MIN: u32 = 8;

/// The sole subscriber in the last taken groups.
#[derive(Default)]
pub(super) struct Lone {
    /// Its address, 0 for none.
    owner: usize,
    /// The number of these groups.
    groups: u32,
}

impl Lone {
    /// Records a taken group. One with changes of no subscriber changes nothing.
    pub(super) fn note(&mut self, sections: &[StagedSection]) {
        match sections {
            [] => {}
            [section] => {
                let owner = Arc::as_ptr(&section.owner).addr();
                let before = if owner == self.owner { self.groups } else { 0 };
                *self = Self { owner, groups: before.saturating_add(1) };
            }
            _ => *self = Self::default(),
        }
    }

    /// Returns whether no other subscriber had a batch recently, or has a queued one.
    pub(super) fn is(&self, owner: &Arc<Owner>, queued: &VecDeque<Staged>) -> bool {
        let is_own = |section: &StagedSection| Arc::ptr_eq(&section.owner, owner);
        self.groups >= GROUPS_MIN
            && self.owner == Arc::as_ptr(owner).addr()
            && queued.iter().all(|group| group.sections.iter().all(is_own))
    }
}
