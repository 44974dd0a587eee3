//! The channel's reports of a recipient's choice about marketing.
//!
//! They are stored beside the person's own messages and the decisions of callers. Each of the two
//! has its own last moment, so that reports may arrive in any order. A phone has opted out if its
//! last message says so. It has also opted out if the channel's last choice says so and no later
//! message opts in.

use postrider_domain::opt_out::OptOutSource;
use postrider_domain::{PartyId, Timestamp, WorkspaceId};
use postrider_store::StoreError;

use super::{Record, Suppression, TABLE, key, last_decision, opt_out, prefix, put, remove};
use crate::contacts::parties_of;
use crate::core::command::Context;
use crate::core::view::unreadable;
use postrider_domain::unavailable::Unavailable;

/// The reason of an opt-out that the channel reports.
pub(super) const AT_CHANNEL: &str = "stopped marketing at the channel";

/// A choice about marketing that the channel reports.
///
/// Of two with the same moment, the greater counts. The channel counts in seconds, and a person who
/// may have opted out gets no marketing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Choice {
    /// They want marketing again.
    Resumed = 0,
    /// The channel has refused marketing to them.
    Refused = 1,
    /// They have stopped marketing in the app.
    Stopped = 2,
}

impl Choice {
    const fn source(self) -> Option<OptOutSource> {
        match self {
            Self::Resumed => None,
            Self::Refused => Some(OptOutSource::Refusal),
            Self::Stopped => Some(OptOutSource::Channel),
        }
    }

    const fn of(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Resumed),
            1 => Some(Self::Refused),
            2 => Some(Self::Stopped),
            _ => None,
        }
    }
}

pub(super) fn choice_key(workspace: &WorkspaceId, party: &PartyId) -> Vec<u8> {
    [prefix(workspace).as_slice(), b"c", &party.key_bytes()].concat()
}

/// Returns the stored form of a phone's last choice: the moment (u64, big endian), then the choice.
pub(super) fn encode(at: Timestamp, choice: Choice) -> Vec<u8> {
    [&at.as_millis().to_be_bytes()[..], &[choice as u8]].concat()
}

pub(super) fn decode(bytes: &[u8]) -> Result<(Timestamp, Choice), StoreError> {
    let choice = bytes.split_first_chunk().and_then(|(at, rest)| match rest {
        [choice] => Some((Timestamp::from_millis(u64::from_be_bytes(*at)), Choice::of(*choice)?)),
        _ => None,
    });
    choice.ok_or_else(|| StoreError::Damaged("a choice about marketing".into()))
}

fn last_choice(
    context: &Context<'_>,
    party: &PartyId,
) -> Result<Option<(Timestamp, Choice)>, Unavailable> {
    let bytes = context.get(TABLE, &choice_key(&context.core.id, party))?;
    bytes.map(|bytes| decode(&bytes)).transpose().map_err(unreadable)
}

/// Stores the channel's report of a party's choice at that moment.
///
/// A later choice or decision counts, whichever is known first.
pub(crate) fn note_choice(
    context: &mut Context<'_>,
    party: &PartyId,
    choice: Choice,
    at: Timestamp,
) -> Result<(), Unavailable> {
    // The channel's clock may be ahead of ours.
    let at = at.min(context.now());
    if last_choice(context, party)?.is_some_and(|last| last >= (at, choice)) {
        return Ok(());
    }
    let last_decision = last_decision(context, party)?;
    let old: Option<Record> = context.get_json(TABLE, &key(&context.core.id, party))?;
    match (choice.source(), old) {
        (Some(source), None) if last_decision <= at.as_millis() => {
            put(context, &suppression(party, source, at), true)?;
        }
        (None, Some(old)) if old.source.is_channel() => remove(context, party)?,
        _ => {}
    }
    context.put(TABLE, choice_key(&context.core.id, party), encode(at, choice));
    Ok(())
}

/// Stores that the channel refused marketing to a party that wanted none, under all its names.
pub(crate) fn stopped_marketing(
    context: &mut Context<'_>,
    party: &PartyId,
    at: Timestamp,
) -> Result<(), Unavailable> {
    for party in parties_of(context, party)? {
        note_choice(context, &party, Choice::Refused, at)?;
    }
    Ok(())
}

/// Makes a party follow the opt-out of another one, which turns out to be the same person.
///
/// It does not if there is a later decision about it than the last one about the other.
pub(crate) fn follow(
    context: &mut Context<'_>,
    party: &PartyId,
    other: &PartyId,
) -> Result<(), Unavailable> {
    let record: Option<Record> = context.get_json(TABLE, &key(&context.core.id, other))?;
    let Some(record) = record else { return Ok(()) };
    let (source, created_at) = (record.source, record.created_at);
    let choice = match source {
        OptOutSource::Channel => Some((created_at, Choice::Stopped)),
        OptOutSource::Refusal => Some((created_at, Choice::Refused)),
        OptOutSource::Word | OptOutSource::Api => None,
    };
    // The record keeps its first moment. A person who has opted out by message may have stopped
    // marketing in the app too.
    let choice = last_choice(context, other)?.max(choice);
    if let Some((at, choice)) = choice.filter(|(_, choice)| choice.source().is_some()) {
        note_choice(context, party, choice, at)?;
    }
    let decided_at = last_decision(context, other)?.max(created_at.as_millis());
    if source.is_channel() || last_decision(context, party)? > decided_at {
        return Ok(());
    }
    let decided_at = Timestamp::from_millis(decided_at);
    opt_out(context, party, (record.reason, source), decided_at).map(drop)
}

/// Makes an opt-out of either of two names of the same person hold for both.
pub(crate) fn share(
    context: &mut Context<'_>,
    one: &PartyId,
    other: &PartyId,
) -> Result<(), Unavailable> {
    follow(context, one, other)?;
    follow(context, other, one)
}

/// Returns the opt-out of a party whose marketing was stopped after `at`, by the channel.
pub(super) fn stopped_after(
    context: &Context<'_>,
    party: &PartyId,
    at: Timestamp,
) -> Result<Option<Suppression>, Unavailable> {
    let last = last_choice(context, party)?.filter(|(chosen, _)| *chosen > at);
    let stopped = last.and_then(|(chosen, choice)| Some((chosen, choice.source()?)));
    Ok(stopped.map(|(chosen, source)| suppression(party, source, chosen)))
}

fn suppression(party: &PartyId, source: OptOutSource, created_at: Timestamp) -> Suppression {
    Suppression { party: party.clone(), reason: Some(AT_CHANNEL.to_owned()), source, created_at }
}
