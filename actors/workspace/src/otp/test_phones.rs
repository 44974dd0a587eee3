//! The test phones of a workspace: nothing is sent to them, and a chosen code verifies there.
//!
//! [`Table::Workspaces`] has them under `workspace ‖ 0 ‖ test-phones`, with their codes encrypted.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use postrider_domain::keys::MasterKeys;
use postrider_domain::{AuditEntry, OtpCode, Phone, Unavailable, WorkspaceId};
use postrider_runtime::sealed::Sealed;
use postrider_store::view::codec;
use postrider_store::{Change, StoreError, Table, View};

use crate::Workspace;
use crate::core::command::{Command, Context};
pub use crate::core::otp::extras::TestPhones;
use crate::core::records::test_phones_key;

#[derive(Serialize, Deserialize)]
struct TestPhonesRecord {
    /// The phones and their codes as JSON.
    sealed: Sealed,
}

fn place(workspace: &WorkspaceId) -> Vec<u8> {
    [b"test phones/", workspace.as_str().as_bytes()].concat()
}

impl Workspace {
    /// Sets the test phones, in place of those before.
    ///
    /// # Errors
    /// [`Unavailable`] when it cannot be taken now.
    pub async fn set_test_phones(&self, phones: TestPhones) -> Result<(), Unavailable> {
        let entry = AuditEntry::new("test_phones.set")
            .change("phones", texts(&phones))
            .change_concealed("codes", true);
        let record = (!phones.phones().is_empty()).then(|| {
            let texts = codec::encode(&phones.reveal());
            TestPhonesRecord {
                sealed: Sealed::seal(&self.shared.master_keys, &place(self.id()), &texts),
            }
        });
        let record = record.map(|record| codec::encode(&record));
        let command = SetTestPhones { phones: Arc::new(phones), record };
        self.perform_audited(command, entry).await
    }

    /// Returns the test phones, in order.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn test_phones(&self) -> Result<Vec<Phone>, Unavailable> {
        let keys = self.shared.master_keys.clone();
        let read = self.read(move |store, workspace| load(store, workspace, &keys));
        Ok(read.await?.phones())
    }
}

fn texts(phones: &TestPhones) -> Vec<String> {
    phones.phones().iter().map(Phone::to_string).collect()
}

/// Reads the test phones of a workspace.
pub(crate) fn load(
    store: &dyn View,
    workspace: &WorkspaceId,
    keys: &MasterKeys,
) -> Result<TestPhones, StoreError> {
    let Some(record) = read(store, workspace)? else { return Ok(TestPhones::default()) };
    let opened = record.sealed.open(keys, &place(workspace));
    let texts = opened.map_err(|error| StoreError::Damaged(format!("the test phones: {error}")))?;
    let phones: Vec<(Phone, String)> = codec::decode(&texts)?;
    let chosen = |(phone, text): (Phone, String)| Some((phone, OtpCode::chosen(&text).ok()?));
    Ok(TestPhones::new(phones.into_iter().filter_map(chosen)))
}

fn read(store: &dyn View, workspace: &WorkspaceId) -> Result<Option<TestPhonesRecord>, StoreError> {
    let found = store.get(Table::Workspaces, &test_phones_key(workspace))?;
    found.map(|json| codec::decode(&json)).transpose()
}

/// Returns the change that seals the codes under the current master key, if they are not.
pub fn resealed(
    store: &dyn View,
    workspace: &WorkspaceId,
    keys: &MasterKeys,
) -> Result<Option<Change>, StoreError> {
    let Some(TestPhonesRecord { sealed }) = read(store, workspace)? else { return Ok(None) };
    Ok(sealed.resealed(keys, &place(workspace)).map(|sealed| {
        let record = codec::encode(&TestPhonesRecord { sealed });
        Change::put(Table::Workspaces, test_phones_key(workspace), record)
    }))
}

/// The command to set the test phones, or to remove them.
struct SetTestPhones {
    phones: Arc<TestPhones>,
    record: Option<Vec<u8>>,
}

impl Command for SetTestPhones {
    type Answer = ();
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        context.effects.replaces("phones", texts(&context.core.test_phones));
        let key = test_phones_key(&context.core.id);
        match self.record {
            Some(record) => context.put(Table::Workspaces, key, record),
            None => context.delete(Table::Workspaces, key),
        }
        context.core.test_phones = self.phones;
        Ok(())
    }
}
