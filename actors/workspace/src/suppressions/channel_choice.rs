//! What the channel reports of a recipient's choice about marketing.
//!
//! It stands beside what the person writes and what callers decide: each of the two has its own
//! last moment, so that news may come in any order. A phone has opted out if its last word says so,
//! or if the channel's last choice does and no later word opts in.

use postrider_domain::opt_out::OptOutSource;
use postrider_domain::{PartyId, Timestamp, WorkspaceId};
use postrider_store::StoreError;

use super::{Record, Suppression, TABLE, key, last_decision, opt_out, prefix, put, remove};
use crate::contacts::parties_of;
use crate::core::command::Context;
use crate::core::view::unreadable;
use postrider_domain::unavailable::Unavailable;

/// Why a phone is there that the channel says has opted out.
pub(super) const AT_CHANNEL: &str = "stopped marketing at the channel";

/// A choice about marketing that the channel reports. Of two with the same moment, the greater
/// counts: the channel counts in seconds, and who may have opted out gets no marketing.
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

/// The last choice of a phone, as it is stored: the moment (u64, big endian), then the choice.
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

/// The channel reports a phone's choice at that moment; what was chosen or decided later counts,
/// whichever is known first.
pub(crate) fn chose(
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
        (None, Some(old)) if old.source().is_channel() => remove(context, party)?,
        _ => {}
    }
    context.put(TABLE, choice_key(&context.core.id, party), encode(at, choice));
    Ok(())
}

/// The channel has refused marketing to somebody who wanted none at that moment, by whatever names
/// they are known.
pub(crate) fn stopped_marketing(
    context: &mut Context<'_>,
    party: &PartyId,
    at: Timestamp,
) -> Result<(), Unavailable> {
    for party in parties_of(context, party)? {
        chose(context, &party, Choice::Refused, at)?;
    }
    Ok(())
}

/// A phone turns out to be of the same person as another: if the other has opted out, it has too,
/// unless something later was decided about it than last about the other.
pub(crate) fn follow(
    context: &mut Context<'_>,
    party: &PartyId,
    other: &PartyId,
) -> Result<(), Unavailable> {
    let record: Option<Record> = context.get_json(TABLE, &key(&context.core.id, other))?;
    let Some(record) = record else { return Ok(()) };
    let (source, created_at) = (record.source(), record.created_at);
    let choice = match source {
        OptOutSource::Channel => Some((created_at, Choice::Stopped)),
        OptOutSource::Refusal => Some((created_at, Choice::Refused)),
        OptOutSource::Word | OptOutSource::Api => None,
    };
    // The record keeps its first moment. Who has opted out by word may have stopped marketing in
    // the app too.
    let choice = last_choice(context, other)?.max(choice);
    if let Some((at, choice)) = choice.filter(|(_, choice)| choice.source().is_some()) {
        chose(context, party, choice, at)?;
    }
    let decided_at = last_decision(context, other)?.max(created_at.as_millis());
    if source.is_channel() || last_decision(context, party)? > decided_at {
        return Ok(());
    }
    let decided_at = Timestamp::from_millis(decided_at);
    opt_out(context, party, (record.reason, source), decided_at).map(drop)
}

/// Two names turn out to be of the same person: an opt-out of either holds for both.
pub(crate) fn share(
    context: &mut Context<'_>,
    one: &PartyId,
    other: &PartyId,
) -> Result<(), Unavailable> {
    follow(context, one, other)?;
    follow(context, other, one)
}

/// What is kept of a phone whose marketing the channel says was stopped after `at`.
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
