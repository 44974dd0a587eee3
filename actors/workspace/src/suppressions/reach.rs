//! Counts the contacts of a filter, and whom of them a broadcast would reach.

use std::ops::ControlFlow;

use postrider_domain::WorkspaceId;
use postrider_domain::unavailable::Unavailable;
use postrider_store::{StoreError, View};

use super::opted_out;
use crate::Workspace;
use crate::contacts::{ContactFilter, list};

/// How many contacts a filter matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContactsCount {
    /// All of them.
    pub contacts: usize,
    /// Those of them that have a phone.
    pub with_phone: usize,
    /// Those of these whose phone has opted out.
    pub suppressed: usize,
}

impl Workspace {
    /// How many contacts match now.
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
