//! Encrypts stored secrets again under the current master key, so that earlier ones can be dropped.

use postrider_domain::WorkspaceId;
use postrider_domain::keys::MasterKeys;
use postrider_number::record::Stored;
use postrider_store::view::codec;
use postrider_store::{Change, StoreError, Table, View};
use postrider_webhook::records::{endpoints, endpoints_key};
use postrider_workspace::core::records;
use postrider_workspace::email;
use postrider_workspace::otp::{sms, test_phones};

/// Returns the changes of records with secrets under earlier master keys. A secret that cannot be
/// read stays unchanged: the code that needs it reports it.
pub(super) fn changes(
    store: &dyn View,
    workspaces: &[WorkspaceId],
    numbers: &[Stored],
    keys: &MasterKeys,
) -> Result<Vec<Change>, StoreError> {
    let mut changes = Vec::new();
    if !keys.has_earlier() {
        return Ok(changes);
    }
    for (workspace, record) in numbers {
        if let Some(record) = record.resealed(keys) {
            let key = records::number_key(workspace, record.info.id);
            changes.push(Change::put(Table::Workspaces, key, codec::encode(&record)));
        }
    }
    for workspace in workspaces {
        let mut endpoints = endpoints(store, workspace)?;
        // All endpoints, not up to the first.
        if endpoints.iter_mut().filter_map(|endpoint| endpoint.reseal(keys)).count() > 0 {
            let key = endpoints_key(workspace);
            changes.push(Change::put(Table::Webhooks, key, codec::encode(&endpoints)));
        }
        changes.extend(email::resealed(store, workspace, keys)?);
        changes.extend(test_phones::resealed(store, workspace, keys)?);
        changes.extend(sms::resealed(store, workspace, keys)?);
    }
    Ok(changes)
}
