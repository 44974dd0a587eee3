//! The rule of broadcasts: a phone that has opted out gets none.
//!
//! A broadcast applies it twice. Its audience is divided when it is created or previewed, and each
//! claim leaves out those that have opted out since. The count of a filter applies it too. The
//! reads are beside the actors: they see what is committed.

use std::ops::ControlFlow;

use hashbrown::HashSet;
use postrider_domain::{Phone, WorkspaceId};
use postrider_store::{Direction, StoreError, View};

use super::record::party_of;
use super::{TABLE, count_key, key, number, phones_prefix};

/// The ratio of opt-outs to requested phones up to which all opt-outs are scanned.
const SCANNED_PER_PHONE: u64 = 8;

/// Returns the phones that get no broadcast, as they have opted out.
///
/// `requested`: all of them that are excluded are in the result, others may be. `None`: all phones
/// that have opted out.
///
/// While few phones have opted out, one scan over theirs costs less than a read for each requested
/// one.
///
/// # Errors
/// [`StoreError`]: the store cannot be read.
pub(crate) fn excluded_from_broadcasts(
    store: &dyn View,
    workspace: &WorkspaceId,
    requested: Option<&[Phone]>,
) -> Result<HashSet<Phone>, StoreError> {
    let Some(phones) = requested else { return all(store, workspace) };
    let kept = store.get(TABLE, &count_key(workspace))?;
    let count = kept.map(|kept| number(&kept)).transpose()?;
    if count.is_some_and(|count| count <= SCANNED_PER_PHONE * phones.len() as u64) {
        return all(store, workspace);
    }
    let mut excluded = HashSet::new();
    for phone in phones {
        if store.get(TABLE, &key(workspace, &(*phone).into()))?.is_some() {
            excluded.insert(*phone);
        }
    }
    Ok(excluded)
}

/// Returns whether any phone is excluded.
///
/// # Errors
/// [`StoreError`]: the store cannot be read.
pub(crate) fn excludes_any(store: &dyn View, workspace: &WorkspaceId) -> Result<bool, StoreError> {
    let (mut any, prefix) = (false, phones_prefix(workspace));
    store.scan(TABLE, &prefix, None, Direction::Forward, &mut |_, _| {
        any = true;
        ControlFlow::Break(())
    })?;
    Ok(any)
}

/// Returns the phones that have opted out.
fn all(store: &dyn View, workspace: &WorkspaceId) -> Result<HashSet<Phone>, StoreError> {
    let (mut phones, prefix) = (Vec::new(), phones_prefix(workspace));
    store.scan(TABLE, &prefix, None, Direction::Forward, &mut |key, _| {
        phones.push(party_of(&key[prefix.len() - 1..]));
        ControlFlow::Continue(())
    })?;
    phones.into_iter().filter_map(|it| it.map(|it| it.phone()).transpose()).collect()
}
