//! Segments: saved filters of contacts, in [`Table::Segments`] under `workspace ‖ 0 ‖ id` as JSON.

use std::ops::ControlFlow;

use postrider_domain::unavailable::Unavailable;
use postrider_domain::{Phone, SegmentId, Timestamp, WorkspaceId};
use postrider_runtime::random;
use postrider_store::view::codec;
use postrider_store::{Direction, StoreError, Table, View};
use serde::{Deserialize, Serialize};

use crate::Workspace;
use crate::contacts::filter::{ContactFilter, Matcher};
use crate::contacts::list::ContactsPage;
use crate::contacts::occupancy::places;
use crate::contacts::record::Contact;
use crate::contacts::{list, record};
use crate::core::command::{Command, Context, Footprint};

/// A saved filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// The id that names the segment in every call.
    pub id: SegmentId,
    /// The name.
    pub name: String,
    /// The filter that its contacts match.
    pub filter: ContactFilter,
    /// The time of creation.
    pub created_at: Timestamp,
}

/// The maximum number of segments in a workspace.
pub const SEGMENTS_MAX: usize = 1000;

/// The reason why a segment was not created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateSegmentError {
    /// The workspace has the maximum number of segments.
    #[error("a workspace has at most 1000 segments")]
    TooMany,
    /// The workspace cannot accept the request now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// A page of segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentsPage {
    /// The segments of the page, newest first.
    pub segments: Vec<Segment>,
    /// The number of segments on all pages.
    pub total: usize,
}

/// The reason why a segment cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// The workspace has no such segment.
    #[error("no such segment")]
    NotFound,
    /// The workspace cannot answer or change it now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Workspace {
    /// Saves a filter.
    ///
    /// # Errors
    /// [`CreateSegmentError`]: there are too many, or the workspace is unavailable.
    pub async fn create_segment(
        &self,
        name: String,
        filter: ContactFilter,
    ) -> Result<Segment, CreateSegmentError> {
        self.perform(CreateSegment { name, filter, unique: random::unique() }).await
    }

    /// Gives a segment another name or filter; `None` leaves it unchanged.
    ///
    /// # Errors
    /// [`SegmentError`]: there is no such segment, or the workspace is unavailable.
    pub async fn update_segment(
        &self,
        id: SegmentId,
        name: Option<String>,
        filter: Option<ContactFilter>,
    ) -> Result<Segment, SegmentError> {
        self.perform(UpdateSegment { id, name, filter }).await
    }

    /// Deletes a segment; its contacts stay.
    ///
    /// # Errors
    /// [`SegmentError`]: there is no such segment, or the workspace is unavailable.
    pub async fn delete_segment(&self, id: SegmentId) -> Result<(), SegmentError> {
        self.perform(DeleteSegment { id }).await
    }

    /// Returns the segments, newest first: `limit` of them after the first `skip`.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn segments(&self, skip: usize, limit: usize) -> Result<SegmentsPage, Unavailable> {
        self.scan(move |store, workspace| page(store, workspace, skip, limit)).await
    }

    /// Returns a segment and its current number of contacts.
    ///
    /// # Errors
    /// [`SegmentError`]: there is no such segment, or the workspace is unavailable.
    pub async fn segment(&self, id: SegmentId) -> Result<(Segment, usize), SegmentError> {
        self.of_segment(id, |store, workspace, segment| {
            let count = list::page(store, workspace, &segment.filter, 0, 0)?.total;
            Ok((segment, count))
        })
        .await
    }

    /// Returns the contacts of a segment, newest first: `limit` of them after the first `skip`.
    ///
    /// # Errors
    /// [`SegmentError`]: there is no such segment, or the workspace is unavailable.
    pub async fn segment_contacts(
        &self,
        id: SegmentId,
        skip: usize,
        limit: usize,
    ) -> Result<ContactsPage, SegmentError> {
        self.of_segment(id, move |store, workspace, segment| {
            list::page(store, workspace, &segment.filter, skip, limit)
        })
        .await
    }

    /// Returns the phones of a segment's contacts, each once, newest contacts first; eight bytes
    /// each.
    ///
    /// # Errors
    /// [`SegmentError`]: there is no such segment, or the workspace is unavailable.
    pub async fn segment_phones(&self, id: SegmentId) -> Result<Vec<Phone>, SegmentError> {
        self.of_segment(id, |store, workspace, segment| {
            let mut phones = Vec::new();
            list::phones(store, workspace, &segment.filter, &mut |phone| {
                phones.push(phone);
                ControlFlow::Continue(())
            })?;
            Ok(phones)
        })
        .await
    }

    /// Returns the places of a segment's contacts, newest contacts first.
    pub(crate) async fn segment_places(&self, id: SegmentId) -> Result<Vec<u64>, SegmentError> {
        self.of_segment(id, |store, workspace, segment| {
            let mut found = Vec::new();
            Matcher::new(&segment.filter).scan(store, workspace, &mut |chunk, mask| {
                found.extend(places(chunk, mask));
                ControlFlow::Continue(())
            })?;
            Ok(found)
        })
        .await
    }

    /// Returns the contacts at these places, without removed ones.
    pub(crate) async fn contacts_at(&self, places: Vec<u64>) -> Result<Vec<Contact>, Unavailable> {
        self.scan(move |store, workspace| {
            let found = places.into_iter().map(|place| record::read_at(store, workspace, place));
            found.filter_map(Result::transpose).collect()
        })
        .await
    }

    /// Reads data of a segment.
    async fn of_segment<T: Send + 'static>(
        &self,
        id: SegmentId,
        read: impl FnOnce(&dyn View, &WorkspaceId, Segment) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, SegmentError> {
        let found = self.scan(move |store, workspace| {
            let found = store.get(Table::Segments, &key(workspace, id))?;
            found.map(|json| read(store, workspace, codec::decode(&json)?)).transpose()
        });
        found.await?.ok_or(SegmentError::NotFound)
    }
}

struct CreateSegment {
    name: String,
    filter: ContactFilter,
    unique: u128,
}

impl Command for CreateSegment {
    type Answer = Segment;
    type Error = CreateSegmentError;

    const FOOTPRINT: Footprint = Footprint::Grows;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Segment, CreateSegmentError> {
        let Self { name, filter, unique } = self;
        let mut count = 0;
        // The count misses segments that are created at the same moment: the bound is a sanity
        // check.
        context.scan(Table::Segments, &prefix(&context.core.id), &mut |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })?;
        if count >= SEGMENTS_MAX {
            return Err(CreateSegmentError::TooMany);
        }
        let now = context.now();
        let id = SegmentId::from_parts(now, unique);
        let segment = Segment { id, name, filter, created_at: now };
        context.put_json(Table::Segments, key(&context.core.id, id), &segment);
        Ok(segment)
    }
}

struct UpdateSegment {
    id: SegmentId,
    name: Option<String>,
    filter: Option<ContactFilter>,
}

impl Command for UpdateSegment {
    type Answer = Segment;
    type Error = SegmentError;

    const FOOTPRINT: Footprint = Footprint::Grows;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Segment, SegmentError> {
        let Self { id, name, filter } = self;
        let key = key(&context.core.id, id);
        let known: Option<Segment> = context.get_json(Table::Segments, &key)?;
        let mut segment = known.ok_or(SegmentError::NotFound)?;
        segment.name = name.unwrap_or(segment.name);
        segment.filter = filter.unwrap_or(segment.filter);
        context.put_json(Table::Segments, key, &segment);
        Ok(segment)
    }
}

struct DeleteSegment {
    id: SegmentId,
}

impl Command for DeleteSegment {
    type Answer = ();
    type Error = SegmentError;

    const FOOTPRINT: Footprint = Footprint::Ends;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), SegmentError> {
        let key = key(&context.core.id, self.id);
        context.get(Table::Segments, &key)?.ok_or(SegmentError::NotFound)?;
        context.delete(Table::Segments, key);
        Ok(())
    }
}

fn prefix(workspace: &WorkspaceId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0]].concat()
}

fn key(workspace: &WorkspaceId, id: SegmentId) -> Vec<u8> {
    [prefix(workspace).as_slice(), id.as_bytes()].concat()
}

fn page(
    store: &dyn View,
    workspace: &WorkspaceId,
    skip: usize,
    limit: usize,
) -> Result<SegmentsPage, StoreError> {
    let (mut total, mut segments) = (0, Vec::new());
    let prefix = prefix(workspace);
    store.scan(Table::Segments, &prefix, None, Direction::Backward, &mut |_, value| {
        total += 1;
        if total > skip && segments.len() < limit {
            segments.push(codec::decode(value));
        }
        ControlFlow::Continue(())
    })?;
    Ok(SegmentsPage { segments: segments.into_iter().collect::<Result<_, _>>()?, total })
}

#[cfg(test)]
mod golden;
