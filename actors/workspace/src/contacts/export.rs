//! Reading every contact, a part at a time.

use postrider_store::view::codec;
use std::ops::ControlFlow;

use crate::Workspace;
use postrider_domain::ContactId;
use postrider_domain::unavailable::Unavailable;
use postrider_store::{Direction, Table};

use crate::contacts::record;
use crate::contacts::record::Contact;

/// The position of a walk through a workspace's contacts, oldest first.
///
/// Contacts that are created meanwhile are not visited, so the walk ends. It visits each of the
/// others once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContactsWalk {
    /// The place at which the walk continues.
    next: u64,
    /// The place that was free when the walk started.
    end: u64,
}

impl Workspace {
    /// Starts a walk through the contacts after this one, or through all.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn walk_contacts(
        &self,
        after: Option<ContactId>,
    ) -> Result<ContactsWalk, Unavailable> {
        self.read(move |store, workspace| {
            let end = store.get(Table::Contacts, &record::next_key(workspace))?;
            let end = end.map_or(Ok(0), |end| record::number_of(&end))?;
            let next = after.map_or(0, |after| record::place_of(after) + 1);
            Ok(ContactsWalk { next, end })
        })
        .await
    }

    /// Returns the next contacts, at most `limit` (which is above zero); none at the end.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn next_contacts(
        &self,
        walk: &mut ContactsWalk,
        limit: usize,
    ) -> Result<Vec<Contact>, Unavailable> {
        let ContactsWalk { next, end } = *walk;
        let found: Vec<Contact> = self
            .scan(move |store, workspace| {
                let mut found = Vec::new();
                let prefix = record::prefix(workspace, b'c');
                let from = record::contact_key(workspace, next);
                let (table, way) = (Table::Contacts, Direction::Forward);
                store.scan(table, &prefix, Some(&from), way, &mut |key, json| {
                    if found.len() == limit || record::number_of(key).is_ok_and(|at| at >= end) {
                        return ControlFlow::Break(());
                    }
                    found.push(codec::decode(json));
                    ControlFlow::Continue(())
                })?;
                found.into_iter().collect()
            })
            .await?;
        walk.next = found.last().map_or(end, |last| last.place() + 1);
        Ok(found)
    }
}
