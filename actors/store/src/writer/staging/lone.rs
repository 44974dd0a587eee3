//! Notes whether one subscriber alone has batches, so that its bulk holds up nobody.

use std::collections::VecDeque;
use std::sync::Arc;

use super::section::StagedSection;
use super::{Owner, Staged};

/// After so many groups with nobody else's batches a subscriber is alone.
const GROUPS_MIN: u32 = 8;

/// Whose batches alone were in the groups that were taken last.
#[derive(Default)]
pub(super) struct Lone {
    /// Its address, 0 for nobody's.
    owner: usize,
    /// In how many groups.
    groups: u32,
}

impl Lone {
    /// Takes notice of a group that is taken. One with changes of no subscriber changes nothing.
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

    /// Whether nobody else has had a batch of late, or has one that is queued.
    pub(super) fn is(&self, owner: &Arc<Owner>, queued: &VecDeque<Staged>) -> bool {
        let is_own = |section: &StagedSection| Arc::ptr_eq(&section.owner, owner);
        self.groups >= GROUPS_MIN
            && self.owner == Arc::as_ptr(owner).addr()
            && queued.iter().all(|group| group.sections.iter().all(is_own))
    }
}
