//! Counts the contacts of a filter, and those that a broadcast would reach.

use std::ops::ControlFlow;

use postrider_domain::WorkspaceId;
use postrider_domain::unavailable::Unavailable;
use postrider_store::{StoreError, View};

use super::opted_out;
use crate::Workspace;
use crate::contacts::{ContactFilter, list};

/// The number of contacts that match a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContactsCount {
    /// The number of all matching contacts.
    pub contacts: usize,
    /// The number of those with a phone.
    pub with_phone: usize,
    /// The number of those whose phone has opted out.
    pub suppressed: usize,
}

impl Workspace {
    /// Returns the current number of matching contacts.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn count_contacts(
        &self,
        filter: ContactFilter,
    ) -> Result<ContactsCount, Unavailable> {
        self.scan(move |store, workspace| count(store, workspace, &filter)).await
    }
}

fn count(
    store: &dyn View,
    workspace: &WorkspaceId,
    filter: &ContactFilter,
) -> Result<ContactsCount, StoreError> {
    let contacts = list::page(store, workspace, filter, 0, 0)?.total;
    let mut phones = Vec::new();
    list::phones(store, workspace, filter, &mut |phone| {
        phones.push(phone);
        ControlFlow::Continue(())
    })?;
    let out = opted_out(store, workspace, &phones)?;
    let suppressed = out.into_iter().filter(|is_out| *is_out).count();
    Ok(ContactsCount { contacts, with_phone: phones.len(), suppressed })
}
