//! The channel's reports about the workspace's numbers: facts, errors and ignored items.

use postrider_channel::Failure;
use postrider_channel::callback::{ChannelFault, IgnoredItems};
use postrider_channel::number_facts::{FactChange, NumberFacts};
use postrider_domain::event::number::{ChannelErrorData, ChannelIgnoredData, NumberChangedData};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{EventData, NumberId};
use postrider_number::record::NumberInfo;
use postrider_store::Table;
use postrider_store::view::codec;

use crate::core::command::Context;
use crate::core::effects::Effects;
use crate::core::portfolio::portfolio_of;
use crate::core::records::facts_key;

/// Stores the facts that the channel reports about a number.
///
/// A limit is one of all numbers of its account and of its portfolio. The numbers apply the facts
/// once they are durable, even if they are not new. So a repeated report corrects a number that
/// applied something else.
///
/// # Errors
/// [`Unavailable`]: the store cannot be read.
pub(crate) fn learn(
    context: &mut Context<'_>,
    number: NumberId,
    said: &NumberFacts,
    pace_set: Option<u32>,
) -> Result<(), Unavailable> {
    let account = |it: &NumberInfo| it.account.as_ref().map(|account| account.account_id.clone());
    let Some(named) = context.connected.iter().find(|it| it.id == number) else { return Ok(()) };
    if said.limit.is_some() {
        context.portfolios.look_again(&context.core.id);
    }
    let shares = |info: &NumberInfo| {
        account(info) == account(named) || portfolio_of(info) == portfolio_of(named)
    };
    for info in context.connected {
        let said = match info.id == number {
            true => said.clone(),
            false if said.limit.is_some() && shares(info) => {
                NumberFacts { limit: said.limit, ..NumberFacts::default() }
            }
            false => continue,
        };
        let key = facts_key(&context.core.id, info.id);
        let known = stored_facts(context, &key)?;
        let mut facts = known.clone();
        let changes = facts.learn(said);
        if facts != known {
            let paces = [&known, &facts].map(|facts| info.pace(pace_set, facts));
            let changes = changes.into_iter().chain(pace_change(paces));
            changes.for_each(|change| emit_change(context, info.id, change));
            context.put_json(Table::Workspaces, key, &facts);
        }
        context.effects.facts.push((info.id, facts));
    }
    Ok(())
}

/// Returns the facts of a number's record.
///
/// An unreadable record counts as none: the channel will report the facts again, and its callbacks
/// must not wait for that.
fn stored_facts(context: &Context<'_>, key: &[u8]) -> Result<NumberFacts, Unavailable> {
    let Some(record) = context.get(Table::Workspaces, key)? else {
        return Ok(NumberFacts::default());
    };
    Ok(codec::decode(&record).unwrap_or_else(|error| {
        let workspace = &context.core.id;
        tracing::warn!(%workspace, %error, "what is known of a number cannot be read");
        NumberFacts::default()
    }))
}

/// Returns the change of a number's pace; `None` if it is the same.
pub(crate) fn pace_change([before, now]: [u32; 2]) -> Option<FactChange> {
    let word = |pace: u32| pace.to_string().into();
    (before != now).then(|| FactChange {
        field: "pace",
        previous: Some(word(before)),
        value: word(now),
    })
}

fn emit_change(context: &mut Context<'_>, number: NumberId, change: FactChange) {
    let now = context.now();
    emit(context.effects, now, number, change);
}

/// Emits a change of a number's facts.
pub(crate) fn emit(
    effects: &mut Effects,
    now: postrider_domain::Timestamp,
    number_id: NumberId,
    FactChange { field, previous, value }: FactChange,
) {
    let data = NumberChangedData { number_id, field, previous, value };
    effects.emit(now, EventData::NumberChanged(data));
}

/// Emits an error of a number without a message. Returns the failure.
pub(super) fn emit_fault(
    context: &mut Context<'_>,
    number_id: NumberId,
    fault: ChannelFault,
) -> Failure {
    let ChannelFault { failure, title, .. } = fault;
    let (error_code, details) = (failure.code, failure.details.clone());
    tracing::warn!(
        workspace = %context.core.id, number = %number_id, code = error_code,
        "the channel reports an error of a number"
    );
    let data = ChannelErrorData { number_id, error_code, title, details };
    context.effects.emit(context.now(), EventData::ChannelError(data));
    failure
}

/// Returns the other numbers of a number's account.
pub(super) fn others_of_account(context: &Context<'_>, number: NumberId) -> Vec<NumberId> {
    let account = |it: &NumberInfo| it.account.as_ref().map(|it| it.account_id.clone());
    let own = context.connected.iter().find(|it| it.id == number).and_then(account);
    let others = context.connected.iter().filter(|it| it.id != number);
    others.filter(|it| own.is_some() && account(it) == own).map(|it| it.id).collect()
}

/// Emits the items that were ignored.
pub(super) fn emit_ignored(context: &mut Context<'_>, number_id: NumberId, items: IgnoredItems) {
    let IgnoredItems { field, reason, count } = items;
    let data = ChannelIgnoredData { number_id, field, reason: reason.as_str(), count };
    context.effects.emit(context.now(), EventData::ChannelIgnored(data));
}
