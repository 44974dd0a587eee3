//! The search index of contacts: names, phone and e-mail of 64 neighbours in one record.
//!
//! The names are the contact's own and those by which the channel knows the person, in one case.
//!
//! A search reads all of it, some 60 bytes a contact. That takes the same time for every word,
//! finds words of any length in any script, and counts the matches on the way. An index of words or
//! of their parts would be faster for rare words only. It would be slower for common ones and many
//! times larger.

use memchr::memmem::Finder;

use postrider_domain::fold::fold;
use postrider_domain::{Email, Phone, UserId};

use crate::contacts::chunk::Mask;
use crate::contacts::record::Contact;

/// Ends a contact's text. Neither byte is in any UTF-8.
const END: u8 = 0xfe;
/// Ends a field, so that no match reaches from one into the next.
const FIELD_END: u8 = 0xff;

/// Returns a contact's text.
pub(crate) fn text_of(contact: &Contact) -> Vec<u8> {
    let mut text = fold(contact.name.as_str()).into_bytes();
    text.push(FIELD_END);
    if let Some(phone) = contact.phone {
        text.extend_from_slice(phone.to_string().as_bytes());
    }
    text.push(FIELD_END);
    text.extend_from_slice(fold(contact.email.as_ref().map_or("", Email::as_str)).as_bytes());
    let user_id = contact.user_id.as_ref().map(UserId::as_str);
    for name in user_id.into_iter().chain(contact.username.as_deref()) {
        text.push(FIELD_END);
        text.extend_from_slice(fold(name).as_bytes());
    }
    // A search by another form of the phone also finds the contact.
    for form in contact.phone.into_iter().flat_map(other_forms) {
        text.push(FIELD_END);
        text.extend_from_slice(form.to_string().as_bytes());
    }
    text
}

/// Returns the forms of a phone in which it was not written.
fn other_forms(phone: Phone) -> impl Iterator<Item = Phone> {
    phone.forms().filter(move |form| form.as_u64() != phone.as_u64())
}

/// Returns whether a contact's text contains `needle`, which is in one case.
pub(crate) fn has(contact: &Contact, needle: &str) -> bool {
    memchr::memmem::find(&text_of(contact), needle.as_bytes()).is_some()
}

/// Returns `texts` with the text of a slot replaced or removed; `None` if no slot has one.
pub(crate) fn with(texts: Option<&[u8]>, slot: u8, text: Option<&[u8]>) -> Option<Vec<u8>> {
    let mut slots: Vec<&[u8]> = texts.map(slots).into_iter().flatten().collect();
    let slot = usize::from(slot);
    if slots.len() <= slot {
        slots.resize(slot + 1, &[]);
    }
    slots[slot] = text.unwrap_or_default();
    let used = slots.iter().rposition(|text| !text.is_empty())? + 1;
    let mut joined = Vec::with_capacity(slots.iter().map(|text| text.len() + 1).sum());
    for text in &slots[..used] {
        joined.extend_from_slice(text);
        joined.push(END);
    }
    Some(joined)
}

/// Returns the texts by slot.
fn slots(texts: &[u8]) -> impl Iterator<Item = &[u8]> {
    texts.split_inclusive(|byte| *byte == END).map(|text| &text[..text.len() - 1])
}

/// Returns the mask of the slots whose text contains the needle.
pub(crate) fn matching(texts: &[u8], needle: &Finder<'_>) -> Mask {
    let mut mask = 0;
    let (mut slot, mut seen) = (0, 0);
    while let Some(found) = needle.find(&texts[seen..]) {
        let found = seen + found;
        slot += memchr::memchr_iter(END, &texts[seen..found]).count();
        mask |= 1_u64.checked_shl(slot as u32).unwrap_or(0);
        let Some(end) = memchr::memchr(END, &texts[found..]) else { break };
        seen = found + end + 1;
        slot += 1;
    }
    mask
}

/// Returns the name in a slot, in one case.
pub(crate) fn name(texts: &[u8], slot: u64) -> &[u8] {
    let text = usize::try_from(slot).ok().and_then(|slot| slots(texts).nth(slot));
    text.and_then(|text| text.split(|byte| *byte == FIELD_END).next()).unwrap_or_default()
}

/// Returns the phones by slot, of those contacts that have one.
pub(crate) fn phones(texts: &[u8]) -> impl Iterator<Item = (u32, Phone)> {
    slots(texts).zip(0..).filter_map(|(text, slot)| {
        let phone = text.split(|byte| *byte == FIELD_END).nth(1)?;
        Some((slot, std::str::from_utf8(phone).ok()?.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matches_is_reported_by_slot() {
        let mut texts = None;
        for (slot, text) in [
            (0, &b"ana\xff+15550100\xffana@example.com"[..]),
            (3, b"bo\xff\xff"),
            (63, b"anana\xff\xff"),
        ] {
            texts = with(texts.as_deref(), slot, Some(text));
        }
        let texts = texts.unwrap();
        let find = |needle: &str| matching(&texts, &Finder::new(needle));
        assert_eq!(find("ana"), 1 | 1 << 63);
        assert_eq!(find("an"), 1 | 1 << 63);
        assert_eq!(find("bo"), 1 << 3);
        assert_eq!(find("o"), 1 | 1 << 3);
        assert_eq!(find("555"), 1);
        for none in ["ana+", "0ana", "z", "bob", "anabo"] {
            assert_eq!(find(none), 0, "{none}");
        }
        let phones: Vec<_> =
            phones(&texts).map(|(slot, phone)| (slot, phone.to_string())).collect();
        assert_eq!(phones, [(0, "+15550100".to_owned())]);
    }

    #[test]
    fn a_slot_is_emptied_and_the_last_one_takes_the_record_with_it() {
        let one = with(None, 5, Some(b"x")).unwrap();
        let two = with(Some(&one), 2, Some(b"y")).unwrap();
        assert_eq!(slots(&two).collect::<Vec<_>>(), [&b""[..], b"", b"y", b"", b"", b"x"]);
        assert_eq!(with(Some(&two), 2, None).as_ref(), Some(&one));
        assert_eq!(with(Some(&one), 5, None), None);
        assert_eq!(slots(&with(Some(&two), 5, None).unwrap()).count(), 3);
    }
}
