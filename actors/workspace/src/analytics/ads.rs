//! Counts of contacts that wrote because of an advertisement, by day.
//!
//! [`Table::Analytics`] has the counts under `workspace ‖ 0 ‖ a ‖ day ‖ source`. Under
//! `workspace ‖ 0 ‖ s ‖ day ‖ source ‖ phone` it has the contacts that have been counted. A source
//! is known by a hash.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Workspace;
use crate::core::command::Context;
use crate::core::view::unreadable;
use postrider_channel::callback::{Inbound, Referral};
use postrider_domain::day::Day;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{PartyId, WorkspaceId};
use postrider_store::{Direction, StoreError, Table};

use crate::analytics::DayRange;

/// The maximum of characters that are stored of a provider's fields of a source.
const CHARS_MAX: usize = 200;
/// The bytes of a source's hash.
const SOURCE_BYTES: usize = 16;

/// The counts of an advertisement on one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdDay {
    /// The day.
    pub day: Day,
    /// The kind of the source: `ad` or `post`.
    pub source_type: Box<str>,
    /// The provider's id of the source.
    pub source_id: Box<str>,
    /// The headline, if the provider reported one.
    pub headline: Option<Box<str>>,
    /// The number of contacts that wrote because of it that day.
    pub conversations: u64,
    /// The number of their messages that came from it.
    pub messages: u64,
}

/// The stored form.
#[derive(Serialize, Deserialize)]
struct StoredAdDay {
    source_type: Box<str>,
    source_id: Box<str>,
    headline: Option<Box<str>>,
    conversations: u64,
    messages: u64,
}

fn key(workspace: &WorkspaceId, kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut key = [workspace.as_str().as_bytes(), &[0, kind]].concat();
    parts.iter().for_each(|part| key.extend_from_slice(part));
    key
}

fn cut(text: &str) -> Box<str> {
    text.chars().take(CHARS_MAX).collect::<String>().into()
}

fn decode(bytes: &[u8]) -> Result<StoredAdDay, StoreError> {
    let damaged = |_| StoreError::Damaged("an advertisement's counts cannot be read".to_owned());
    postcard::from_bytes(bytes).map_err(damaged)
}

/// Counts a message to which an advertisement led.
pub(crate) fn note_referral(
    context: &mut Context<'_>,
    inbound: &Inbound,
    writer: &PartyId,
) -> Result<(), Unavailable> {
    let named = inbound.referral.as_ref().filter(|referral| !referral.source_id.is_empty());
    let Some(Referral { source_type, source_id, headline, .. }) = named else { return Ok(()) };
    let digest = Sha256::new().chain_update(source_type.as_bytes()).chain_update([0]);
    let digest = digest.chain_update(source_id.as_bytes()).finalize();
    let source = &digest[..SOURCE_BYTES];
    let day = Day::of(context.now()).number().to_be_bytes();
    let counts = key(&context.core.id, b'a', &[&day, source]);
    let counted = key(&context.core.id, b's', &[&day, source, &writer.key_bytes()]);
    let stored = context.get(Table::Analytics, &counts)?;
    let stored = stored.map(|bytes| decode(&bytes)).transpose().map_err(unreadable)?;
    let mut stored = stored.unwrap_or_else(|| StoredAdDay {
        source_type: cut(source_type),
        source_id: cut(source_id),
        headline: None,
        conversations: 0,
        messages: 0,
    });
    if let Some(headline) = headline {
        stored.headline = Some(cut(headline));
    }
    stored.messages += 1;
    if context.get(Table::Analytics, &counted)?.is_none() {
        stored.conversations += 1;
        context.put(Table::Analytics, counted, Vec::new());
    }
    let mut value = Vec::new();
    postrider_domain::event::encode(&stored, &mut value);
    context.put(Table::Analytics, counts, value);
    Ok(())
}

impl Workspace {
    /// Returns the counts of advertisements on these days, the newest day first, and the number of
    /// all.
    ///
    /// They are those after the first `skip`, at most `limit`.
    ///
    /// # Errors
    /// [`Unavailable`]: the store cannot be read.
    pub async fn ad_days(
        &self,
        range: DayRange,
        skip: usize,
        limit: usize,
    ) -> Result<(Vec<AdDay>, usize), Unavailable> {
        self.scan(move |store, workspace| {
            let prefix = key(workspace, b'a', &[]);
            let last = range.to.number().to_be_bytes();
            let from = key(workspace, b'a', &[&last, &[0xff; SOURCE_BYTES]]);
            let (mut rows, mut total, mut damage) = (Vec::new(), 0, None);
            let direction = Direction::Backward;
            store.scan(Table::Analytics, &prefix, Some(&from), direction, &mut |key, value| {
                let Some(day) = key[prefix.len()..].first_chunk() else {
                    return ControlFlow::Continue(());
                };
                let day = Day::from_number(u32::from_be_bytes(*day));
                if day < range.from {
                    return ControlFlow::Break(());
                }
                if total >= skip && rows.len() < limit {
                    match decode(value) {
                        Ok(stored) => rows.push(stored.on(day)),
                        Err(error) => damage = Some(error),
                    }
                }
                total += 1;
                ControlFlow::Continue(())
            })?;
            damage.map_or(Ok((rows, total)), Err)
        })
        .await
    }
}

impl StoredAdDay {
    fn on(self, day: Day) -> AdDay {
        let Self { source_type, source_id, headline, conversations, messages } = self;
        AdDay { day, source_type, source_id, headline, conversations, messages }
    }
}

#[cfg(test)]
mod golden;
