//! Pure: the number that was last used between the workspace and a contact, either way.
//!
//! [`Table::Windows`] has it under `workspace ‖ 0 ‖ 16 zero bytes ‖ party`: the moment (u64, big
//! endian) and the number's line. No number has that line.
//!
//! It is noted only while the pool offers a choice, so that a workspace with one number pays
//! nothing for it. Use before others joined the only number is found in the contact's own records.
//! They are its newest message, its conversation, and the codes of the last hour.

use std::time::Duration;

use postrider_domain::unavailable::Unavailable;
use postrider_domain::{NumberId, PartyId, Timestamp, WorkspaceId};
use postrider_store::{StoreError, Table, View};

use crate::core::command::Context;
use crate::core::senders::pool::{self, LastSender};

/// The time for which a noted moment is not updated: only its order counts.
const NOTED_FOR: Duration = Duration::from_secs(24 * 3600);

/// Returns the key of the note of a contact.
pub(crate) fn key(workspace: &WorkspaceId, contact: &PartyId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0], &[0; 16], &contact.key_bytes()].concat()
}

/// Encodes the value of a note.
pub(crate) fn encode((at, line): LastSender) -> Vec<u8> {
    [&at.as_millis().to_be_bytes()[..], line.as_bytes()].concat()
}

fn decode(value: &[u8]) -> Option<LastSender> {
    let (at, line) = value.split_first_chunk()?;
    let line = NumberId::from_bytes(line.try_into().ok()?);
    Some((Timestamp::from_millis(u64::from_be_bytes(*at)), line))
}

fn noted(context: &Context<'_>, contact: &PartyId) -> Result<Option<LastSender>, Unavailable> {
    let value = context.get(Table::Windows, &key(&context.core.id, contact))?;
    Ok(value.and_then(|value| decode(&value)))
}

/// Returns the committed note of a contact.
pub(crate) fn stored(
    store: &dyn View,
    workspace: &WorkspaceId,
    contact: &PartyId,
) -> Result<Option<LastSender>, StoreError> {
    let value = store.get(Table::Windows, &key(workspace, contact))?;
    Ok(value.and_then(|value| decode(&value)))
}

/// Returns whether others have joined the only number of the pool since this moment.
fn is_from_before(context: &Context<'_>, at: Timestamp) -> bool {
    context.core.pool.alone().is_some_and(|alone| at < alone.until)
}

/// Returns the line of the number that was last used with a contact.
fn last(context: &Context<'_>, contact: &PartyId) -> Result<Option<NumberId>, Unavailable> {
    let noted = noted(context, contact)?;
    if noted.is_some_and(|(at, _)| !is_from_before(context, at)) {
        return Ok(noted.map(|(_, line)| line));
    }
    let only = context.core.pool.alone().map(|alone| (alone.until, alone.line));
    let had_code = contact.phone().is_some_and(|phone| context.core.hot.had_code(phone));
    let used = (context.last_sender)(context, contact)?.max(noted).max(only.filter(|_| had_code));
    Ok(used.map(|(_, line)| line))
}

/// Chooses the number for a template to a contact.
///
/// It is the contact's own, unless that has been down for `patience` and another is not. `None` if
/// no number is of an account that has the template.
pub(crate) fn choose(
    context: &Context<'_>,
    contact: &PartyId,
    patience: Duration,
    has_template: impl Fn(Option<&str>) -> bool,
) -> Result<Option<NumberId>, Unavailable> {
    let pool = &context.core.pool;
    if !pool.is_choice() {
        let has = |number: &NumberId| has_template(pool.account(*number).flatten());
        return Ok(pool.first().filter(has));
    }
    let is_free = |number| context.down_since(number).is_none_or(|since| since < patience);
    Ok(pool.choose(contact, last(context, contact)?, has_template, is_free))
}

/// Returns the connected number with this id or phone.
pub(crate) fn named(context: &Context<'_>, name: &str) -> Option<NumberId> {
    pool::find_by_name(context.connected, name)
}

/// Notes that a number was used with a contact at this moment, if the pool offers a choice.
pub(crate) fn note(
    context: &mut Context<'_>,
    contact: &PartyId,
    number: NumberId,
    at: Timestamp,
) -> Result<(), Unavailable> {
    let value = to_note(context, contact, number, at)?;
    put(context, contact, value);
    Ok(())
}

/// Writes the note of a contact, if there is one.
pub(crate) fn put(context: &mut Context<'_>, contact: &PartyId, value: Option<Vec<u8>>) {
    if let Some(value) = value {
        context.put(Table::Windows, key(&context.core.id, contact), value);
    }
}

/// Returns the note to write if a number is used with a contact at this moment.
///
/// It is read before the effects of the use, because those are carried out even if this fails.
pub(crate) fn to_note(
    context: &Context<'_>,
    contact: &PartyId,
    number: NumberId,
    at: Timestamp,
) -> Result<Option<Vec<u8>>, Unavailable> {
    if !context.core.pool.is_choice() {
        return Ok(None);
    }
    let line = context.line(number);
    let is_known = noted(context, contact)?.is_some_and(|(before, known)| match known == line {
        true => at < before.plus(NOTED_FOR) && !is_from_before(context, before),
        // A late report is of an earlier use; the channel reports seconds.
        false => at.as_secs() < before.as_secs(),
    });
    Ok((!is_known).then(|| encode((at, line))))
}

/// Forgets which number was used with a contact.
pub(crate) fn forget(context: &mut Context<'_>, contact: &PartyId) {
    context.delete(Table::Windows, key(&context.core.id, contact));
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use postrider_domain::golden::{AT, Sheet, UNIQUE};

    use super::*;

    #[test]
    fn what_is_noted_of_a_contact_is_stored_as_ever() {
        let line = NumberId::from_parts(AT, UNIQUE);
        let value = encode((AT, line));
        assert_eq!(decode(&value), Some((AT, line)));
        assert_eq!(decode(&value[..23]), None);
        let contact = "+15550123456".parse::<postrider_domain::Phone>().unwrap().into();
        let mut sheet = Sheet::default();
        sheet.text("key", &key(&"acme".parse().unwrap(), &contact));
        sheet.text("value", &value);
        sheet.is(expect![[r#"
            key: acme\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\x9e\xdc\r\xc0
            value: \x00\x00\x01\x8b\xcf\xe5h{\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        "#]]);
    }
}
