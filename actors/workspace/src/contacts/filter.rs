//! Filters of contacts, the search by them, and the contacts that are chosen for one change.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use memchr::memmem::Finder;
use postrider_domain::fold::fold;
use postrider_domain::{ContactId, WorkspaceId};
use postrider_store::{Direction, StoreError, Table, View};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::contacts::index::{Facet, FacetHash, field_hash, name_hash, tag_hash};
use crate::contacts::occupancy::{Mask, chunk_of, places, slot_of};
use crate::contacts::{index, merge, occupancy, record};

/// The conditions that a contact must meet; the default matches every contact.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ContactFilter {
    /// A part of its name, phone or e-mail; case is ignored.
    pub search: Option<String>,
    /// It has one of these tags; an empty list matches every contact.
    pub tags_any: Vec<String>,
    /// It has all of these tags.
    pub tags_all: Vec<String>,
    /// It has none of these tags.
    pub tags_none: Vec<String>,
    /// It has these custom fields with these values, each as JSON.
    ///
    /// A text also matches the value that the text has as JSON: `"3"` and `3` find both, since a
    /// form and a query can only write texts.
    pub fields: Vec<(String, String)>,
    /// It has these custom fields, whatever their values.
    pub fields_exist: Vec<String>,
}

impl ContactFilter {
    /// Returns a filter of the contacts that have this text in their name, phone or e-mail.
    #[must_use]
    pub fn search(text: Option<&str>) -> Self {
        Self { search: text.map(str::to_owned), ..Self::default() }
    }
}

/// The contacts that a change applies to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChosenContacts {
    /// The contacts with these ids; unknown ids are ignored.
    Ids(Vec<ContactId>),
    /// The contacts that match the filter.
    Filter(ContactFilter),
}

/// A filter prepared for use.
pub(crate) struct Matcher {
    needle: Option<Finder<'static>>,
    tags_any: Vec<FacetHash>,
    tags_all: Vec<FacetHash>,
    tags_none: Vec<FacetHash>,
    /// For each field a contact must have one of the two hashes.
    fields: Vec<[FacetHash; 2]>,
    names: Vec<FacetHash>,
}

/// Receives a chunk's number and the mask of its matching contacts, which is never empty.
pub(crate) type VisitMatches<'a> = &'a mut dyn FnMut(u64, Mask) -> ControlFlow<()>;

impl Matcher {
    pub(crate) fn new(filter: &ContactFilter) -> Self {
        let hashes = |tags: &[String]| tags.iter().map(|tag| tag_hash(tag)).collect();
        let search = filter.search.as_deref().map(fold);
        let search = search.filter(|search| !search.is_empty());
        Self {
            needle: search.map(|search| Finder::new(&search).into_owned()),
            tags_any: hashes(&filter.tags_any),
            tags_all: hashes(&filter.tags_all),
            tags_none: hashes(&filter.tags_none),
            fields: filter.fields.iter().map(|(name, json)| value_hashes(name, json)).collect(),
            names: filter.fields_exist.iter().map(|name| name_hash(name)).collect(),
        }
    }

    /// Visits the matches, newest chunks first.
    pub(crate) fn scan(
        &self,
        store: &dyn View,
        workspace: &WorkspaceId,
        visit: VisitMatches<'_>,
    ) -> Result<(), StoreError> {
        let kind = match (&self.needle, self.asks_facets()) {
            (Some(_), _) => b't',
            (None, true) => b'f',
            (None, false) => b'l',
        };
        let prefix = record::prefix(workspace, kind);
        let mut outcome = Ok(());
        store.scan(
            Table::ContactIndex,
            &prefix,
            None,
            Direction::Backward,
            &mut |key, value| {
                let visited = record::number_of(key).and_then(|number| match kind {
                    b'l' => {
                        let mut chunks = occupancy::chunks(number, value);
                        Ok(chunks.try_for_each(|(chunk, mask)| visit(chunk, mask)))
                    }
                    _ => {
                        let mask = self.mask(store, workspace, number, value)?;
                        Ok(if mask == 0 { ControlFlow::Continue(()) } else { visit(number, mask) })
                    }
                });
                visited.unwrap_or_else(|error| {
                    outcome = Err(error);
                    ControlFlow::Break(())
                })
            },
        )?;
        outcome
    }

    /// Returns the mask of a chunk's matching contacts; `value` is the record that is scanned.
    fn mask(
        &self,
        store: &dyn View,
        workspace: &WorkspaceId,
        chunk: u64,
        value: &[u8],
    ) -> Result<Mask, StoreError> {
        let Some(needle) = &self.needle else {
            return Ok(self.facets_mask(value));
        };
        let mask = index::matching(value, needle);
        if mask == 0 || !self.asks_facets() {
            return Ok(mask);
        }
        let facets = store.get(Table::ContactIndex, &record::key(workspace, b'f', chunk))?;
        Ok(mask & self.facets_mask(&facets.unwrap_or_default()))
    }

    fn asks_facets(&self) -> bool {
        let asked = [&self.tags_any, &self.tags_all, &self.tags_none, &self.names];
        asked.iter().any(|hashes| !hashes.is_empty()) || !self.fields.is_empty()
    }

    fn facets_mask(&self, facets: &[u8]) -> Mask {
        let matches = |facet: &Facet<'_>| {
            self.tags_match(facet)
                && self.fields.iter().all(|either| either.iter().any(|it| facet.has_field(it)))
                && self.names.iter().all(|name| facet.has_name(name))
        };
        Facet::all(facets).filter(matches).fold(0, |mask, facet| mask | 1 << facet.slot)
    }

    fn tags_match(&self, facet: &Facet<'_>) -> bool {
        let has = |tag: &FacetHash| facet.has_tag(tag);
        (self.tags_any.is_empty() || self.tags_any.iter().any(has))
            && self.tags_all.iter().all(has)
            && !self.tags_none.iter().any(has)
    }
}

/// Returns the hashes of a field with this value as a text, and as the JSON that the text is.
fn value_hashes(name: &str, json: &str) -> [FacetHash; 2] {
    // A value that is not JSON did not come from a filter.
    let text = match serde_json::from_str(json).unwrap_or_default() {
        Value::String(text) => text,
        value => value.to_string(),
    };
    let value = serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text.as_str()));
    [field_hash(name, &Value::String(text)), field_hash(name, &value)]
}

/// The chosen contacts by the places that they have at that moment: chunks, each with a mask.
pub(crate) type ChosenPlaces = Vec<(u64, Mask)>;

/// Finds the contacts that a change applies to.
pub(crate) fn choose(
    store: &dyn View,
    workspace: &WorkspaceId,
    whom: &ChosenContacts,
) -> Result<ChosenPlaces, StoreError> {
    match whom {
        ChosenContacts::Filter(filter) => {
            let mut found = Vec::new();
            Matcher::new(filter).scan(store, workspace, &mut |chunk, mask| {
                found.push((chunk, mask));
                ControlFlow::Continue(())
            })?;
            Ok(found)
        }
        ChosenContacts::Ids(ids) => {
            let mut found = BTreeMap::new();
            for id in ids {
                if let Some(contact) = merge::read_contact(store, workspace, *id)? {
                    let place = contact.place();
                    *found.entry(chunk_of(place)).or_default() |= 1 << slot_of(place);
                }
            }
            Ok(found.into_iter().collect())
        }
    }
}

/// Returns the number of chosen contacts.
pub(crate) fn chosen_count(chosen: &ChosenPlaces) -> usize {
    chosen.iter().map(|(_, mask)| mask.count_ones() as usize).sum()
}

/// Returns the places of the chosen contacts.
pub(crate) fn chosen_places(chosen: &ChosenPlaces) -> impl Iterator<Item = u64> {
    chosen.iter().flat_map(|(chunk, mask)| places(*chunk, *mask))
}
