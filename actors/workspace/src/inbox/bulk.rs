//! Changes many contacts at once, beside the workspace's actor.
//!
//! The request fixes the set of contacts. [`Table::Contacts`] keeps it under `workspace ‖ 0 ‖ b ‖
//! moment ‖ random ‖ part` as JSON. It is split into parts, and the record of a part is deleted
//! when all of the part is done. A part that is repeated after a restart changes nothing that was
//! done.

use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::Duration;

use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{Tags, WorkspaceId};
use postrider_runtime::random;
use postrider_store::view::codec;
use postrider_store::{Direction, StoreError, Table, View};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::Workspace;
use crate::contacts::filter::{ChosenContacts, ChosenPlaces, choose, chosen_count, chosen_places};
use crate::contacts::{Contact, put_changed, record};
use crate::core::command::{Command, Context, Footprint};
use crate::core::{quota, records};
use crate::inbox::contact_changes::remove_contact;
use crate::services::Services;

/// The number of chunks of 64 contacts in a part.
const PART_CHUNKS: usize = 256;
/// The maximum number of a workspace's waiting parts: a change of a million contacts has 62.
const PARTS_MAX: usize = 500;
/// The number of contacts that are changed at a time.
const AT_ONCE: usize = 16;
/// The maximum number of tries for a contact whose record cannot be read or written.
const TRIES_MAX: u32 = 50;
/// The shortest time between two tries.
const PAUSE: Duration = Duration::from_millis(200);

/// The change to each of the contacts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContactsChange {
    /// Tags to add. A contact that would then have more than 50 stays as it is.
    pub add_tags: Tags,
    /// Tags to remove.
    pub remove_tags: Tags,
    /// Set to delete the contact.
    pub delete: bool,
}

/// The reason why contacts are not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeContactsError {
    /// Too many parts are already waiting.
    #[error("earlier changes of contacts are still under way")]
    TooMany,
    /// The workspace cannot accept the request now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// A part of a change of contacts.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ChangePart {
    change: ContactsChange,
    chosen: ChosenPlaces,
}

impl Workspace {
    /// Changes contacts soon, even if the engine restarts meanwhile. Returns the number of them.
    ///
    /// # Errors
    /// [`ChangeContactsError`]: too many parts are waiting, or the workspace is unavailable.
    pub async fn change_contacts(
        &self,
        whom: ChosenContacts,
        change: ContactsChange,
    ) -> Result<usize, ChangeContactsError> {
        let chosen = self.scan(move |store, workspace| choose(store, workspace, &whom)).await?;
        let contacts = chosen_count(&chosen);
        if contacts > 0 {
            self.perform(BeginChanges { chosen, change, unique: random::unique() }).await?;
            self.continue_changes();
        }
        Ok(contacts)
    }

    /// Carries out the waiting parts, one after the other.
    fn continue_changes(&self) {
        let turn = Arc::clone(&self.slot.watching.changes);
        let shared = Arc::downgrade(&self.shared);
        let background = ChangeWorker { shared, id: self.slot.id.clone() };
        drop(tokio::spawn(async move {
            // The task that gets the turn does all waiting parts, in the order of their arrival.
            let _turn = turn.lock().await;
            background.run().await;
        }));
    }
}

fn prefix(workspace: &WorkspaceId) -> Vec<u8> {
    record::prefix(workspace, b'b')
}

struct BeginChanges {
    chosen: ChosenPlaces,
    change: ContactsChange,
    unique: u128,
}

impl Command for BeginChanges {
    type Answer = ();
    type Error = ChangeContactsError;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), ChangeContactsError> {
        let Self { chosen, change, unique } = self;
        if !change.delete && change.add_tags.iter().len() > 0 {
            quota::check_bytes(context)?;
        }
        let prefix = prefix(&context.core.id);
        let mut waiting = 0;
        context.scan(Table::Contacts, &prefix, &mut |_, _| {
            waiting += 1;
            ControlFlow::Continue(())
        })?;
        let parts = chosen.chunks(PART_CHUNKS);
        // A large change is accepted if no part waits.
        if waiting > 0 && waiting + parts.len() > PARTS_MAX {
            return Err(ChangeContactsError::TooMany);
        }
        let moment = context.now().as_millis().to_be_bytes();
        for (number, chosen) in parts.enumerate() {
            let key = [&*prefix, &moment, &unique.to_be_bytes(), &(number as u64).to_be_bytes()];
            let part = ChangePart { change: change.clone(), chosen: chosen.to_vec() };
            context.put_json(Table::Contacts, key.concat(), &part);
        }
        Ok(())
    }
}

/// Deletes the record of a part that is done.
struct EndPart(Vec<u8>);

impl Command for EndPart {
    type Answer = ();
    type Error = Unavailable;

    const FOOTPRINT: Footprint = Footprint::Ends;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        context.delete(Table::Contacts, self.0);
        Ok(())
    }
}

/// Adds and removes tags of the contact at a place.
struct Retag {
    place: u64,
    change: Arc<ContactsChange>,
}

impl Command for Retag {
    type Answer = ();
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        let Some(old) = at_place(context, self.place)? else { return Ok(()) };
        let kept =
            old.tags.iter().filter(|tag| !self.change.remove_tags.iter().any(|it| it == *tag));
        let tags: Vec<_> = kept.chain(self.change.add_tags.iter()).collect();
        // A tag that is given twice counts once.
        let mut tags_once: Vec<&str> = Vec::new();
        tags.into_iter().for_each(|tag| {
            if !tags_once.contains(&tag) {
                tags_once.push(tag);
            }
        });
        match Tags::new(tags_once.iter()) {
            Ok(tags) if tags != old.tags => {
                let new = Contact { tags, updated_at: context.now(), ..old.clone() };
                put_changed(context, &old, &new)
            }
            _ => Ok(()),
        }
    }
}

/// Deletes the contact at a place.
struct DeleteAt(u64);

impl Command for DeleteAt {
    type Answer = ();
    type Error = Unavailable;

    const FOOTPRINT: Footprint = Footprint::Ends;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        at_place(context, self.0)?.map_or(Ok(()), |contact| remove_contact(context, &contact))
    }
}

fn at_place(context: &Context<'_>, place: u64) -> Result<Option<Contact>, Unavailable> {
    context.get_json(Table::Contacts, &record::contact_key(&context.core.id, place))
}

/// The work in the background. It does not keep the engine running.
#[derive(Clone)]
struct ChangeWorker {
    shared: Weak<Services>,
    id: WorkspaceId,
}

/// The engine or the workspace has stopped, or is stopping.
struct EngineStopped;

impl ChangeWorker {
    async fn run(&self) {
        while let Ok(Some((key, part))) = self.first_part().await {
            let change = Arc::new(part.change);
            let mut under_way = JoinSet::new();
            for place in chosen_places(&part.chosen) {
                if under_way.len() == AT_ONCE && !can_continue(under_way.join_next().await) {
                    return;
                }
                let (background, change) = (self.clone(), Arc::clone(&change));
                under_way.spawn(async move { background.change(place, change).await });
            }
            while let Some(ended) = under_way.join_next().await {
                if !can_continue(Some(ended)) {
                    return;
                }
            }
            let end = |workspace: Workspace| {
                let key = key.clone();
                async move { workspace.perform(EndPart(key)).await }
            };
            if self.insist("a part", end).await.is_err() {
                return;
            }
        }
    }

    async fn first_part(&self) -> Result<Option<(Vec<u8>, ChangePart)>, EngineStopped> {
        let read = |workspace: Workspace| async move { workspace.read(first_part).await };
        Ok(self.insist("what is to be changed", read).await?.flatten())
    }

    async fn change(&self, place: u64, change: Arc<ContactsChange>) -> Result<(), EngineStopped> {
        let step = |workspace: Workspace| {
            let change = Arc::clone(&change);
            async move {
                match change.delete {
                    true => workspace.perform(DeleteAt(place)).await,
                    false => workspace.perform(Retag { place, change }).await,
                }
            }
        };
        self.insist("a contact", step).await.map(drop)
    }

    /// Runs a step, and again while the workspace is unavailable. `None`: the step was given up.
    async fn insist<T, F>(
        &self,
        what: &str,
        step: impl Fn(Workspace) -> F,
    ) -> Result<Option<T>, EngineStopped>
    where
        F: Future<Output = Result<T, Unavailable>>,
    {
        let mut tries = 0;
        loop {
            let why = match step(self.workspace()?).await {
                Ok(done) => return Ok(Some(done)),
                Err(why) => why,
            };
            if why.reason == UnavailableReason::Draining {
                return Err(EngineStopped);
            }
            // Only a failure of the records themselves may be permanent.
            tries += u32::from(why.reason == UnavailableReason::Storage);
            if tries == TRIES_MAX {
                let workspace = &self.id;
                tracing::error!(%workspace, what, %why, "left out of a change of many contacts");
                return Ok(None);
            }
            tokio::time::sleep(why.retry_after.max(PAUSE)).await;
        }
    }

    fn workspace(&self) -> Result<Workspace, EngineStopped> {
        let shared = self.shared.upgrade().ok_or(EngineStopped)?;
        let slot = shared.workspaces.slot(&self.id).ok_or(EngineStopped)?;
        Ok(Workspace::new(shared, slot))
    }
}

/// Returns whether the work can continue after a task has ended this way.
fn can_continue(ended: Option<Result<Result<(), EngineStopped>, tokio::task::JoinError>>) -> bool {
    !matches!(ended, Some(Ok(Err(EngineStopped)) | Err(_)))
}

/// Returns the first part.
fn first_part(
    store: &dyn View,
    workspace: &WorkspaceId,
) -> Result<Option<(Vec<u8>, ChangePart)>, StoreError> {
    let mut found = None;
    let (prefix, way) = (prefix(workspace), Direction::Forward);
    store.scan(Table::Contacts, &prefix, None, way, &mut |key, value| {
        found = Some(codec::decode(value).map(|part| (key.to_vec(), part)));
        ControlFlow::Break(())
    })?;
    found.transpose()
}

/// Continues the parts that the previous process left.
pub fn resume(shared: &Arc<Services>) {
    let shared = Arc::downgrade(shared);
    drop(tokio::spawn(async move {
        let Some(store) = shared.upgrade().map(|shared| Arc::clone(&shared.store)) else { return };
        let waiting = tokio::task::spawn_blocking(move || {
            let mut ids = records::all_ids(store.as_ref())?;
            // A workspace with unreadable records is skipped; its readers get the error.
            ids.retain(|id| first_part(store.as_ref(), id).is_ok_and(|part| part.is_some()));
            Ok::<_, StoreError>(ids)
        });
        match waiting.await {
            Ok(Ok(ids)) => {
                for id in ids {
                    if let Ok(workspace) =
                        (ChangeWorker { shared: Weak::clone(&shared), id }).workspace()
                    {
                        workspace.continue_changes();
                    }
                }
            }
            Ok(Err(error)) => tracing::warn!(%error, "changes of contacts do not go on"),
            Err(_) => {}
        }
    }));
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use postrider_domain::golden::Sheet;

    use super::*;

    #[test]
    fn a_part_is_stored_as_ever() {
        let tags = |texts: &[&str]| Tags::new(texts.iter()).unwrap();
        let change =
            ContactsChange { add_tags: tags(&["vip"]), remove_tags: tags(&[]), delete: false };
        let part = ChangePart { change, chosen: vec![(0, 5), (7, u64::MAX)] };
        let mut sheet = Sheet::default();
        sheet.text("prefix", &prefix(&"acme".parse().unwrap()));
        sheet.json("part", &part);
        sheet.is(expect![[r#"
            prefix: acme\x00b
            part: {"change":{"add_tags":["vip"],"remove_tags":[],"delete":false},"chosen":[[0,5],[7,18446744073709551615]]}
        "#]]);
    }
}
