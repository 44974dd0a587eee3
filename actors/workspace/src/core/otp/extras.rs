//! Pure: data of few requests for one-time passwords: notes, tests, and who sends the code.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use hashbrown::HashMap;
use postrider_domain::code::CallerHash;
use postrider_domain::event::otp::{OtpNotes, OtpOwnNotes};
use postrider_domain::event::{EventDecodeError, encode};
use postrider_domain::{Event, NumberId, OtpCode, Phone, PublicEvent, RequestId};

use crate::core::Core;
use crate::core::effects::Effects;
use crate::core::otp::types::SendMore;

/// The text in the notes of a request if Postrider itself has noted something.
const OWN: &str = r#""_":"#;
/// The text in the notes of a request that leaves through one of several numbers.
const NUMBER: &str = r#""number_id":"#;

/// A workspace's test phones, to which nothing is sent, with the codes that verify there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestPhones(HashMap<Phone, OtpCode>);

impl TestPhones {
    /// The maximum of test phones of a workspace.
    pub const MAX: usize = 50;

    /// Collects these phones with their codes.
    #[must_use]
    pub fn new(phones: impl IntoIterator<Item = (Phone, OtpCode)>) -> Self {
        Self(phones.into_iter().collect())
    }

    /// Returns the phones, in order.
    #[must_use]
    pub fn phones(&self) -> Vec<Phone> {
        self.0.keys().copied().collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns the code of a phone, if it is a test phone.
    #[must_use]
    pub fn code(&self, phone: Phone) -> Option<OtpCode> {
        self.0.get(&phone).copied()
    }

    /// Returns every phone and its code, in order, to be encrypted.
    pub(crate) fn reveal(&self) -> Vec<(Phone, String)> {
        let code = |phone: Phone| self.code(phone).map(|code| (phone, code.reveal()));
        self.phones().into_iter().filter_map(code).collect()
    }
}

/// Notes and tests, by request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Extras {
    notes: BTreeMap<RequestId, Box<str>>,
    tests: BTreeSet<RequestId>,
    /// Requests whose code their person sends, with the phone of that person.
    inbound: BTreeMap<RequestId, Phone>,
    /// The same requests, by the phone that sends the code.
    senders: BTreeSet<(Phone, RequestId)>,
    /// Requests whose code any phone may send, with the hash of the code.
    open: BTreeMap<RequestId, CallerHash>,
    /// The same requests, by that hash.
    by_code: HashMap<CallerHash, RequestId>,
}

impl Extras {
    /// Returns whether the request is to a test phone.
    pub(crate) fn is_test(&self, id: RequestId) -> bool {
        self.tests.contains(&id)
    }

    /// Returns whether the request's code is sent by its person.
    pub(crate) fn is_inbound(&self, id: RequestId) -> bool {
        self.inbound.contains_key(&id) || self.is_open(id)
    }

    /// Returns whether any phone may send the request's code.
    pub(crate) fn is_open(&self, id: RequestId) -> bool {
        self.open.contains_key(&id)
    }

    /// Returns whether any phone may send the code of some request.
    pub(crate) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns the request whose code, which any phone may send, has this hash.
    pub(crate) fn of_code(&self, hash: &CallerHash) -> Option<RequestId> {
        self.by_code.get(hash).copied()
    }

    pub(crate) fn set_open(&mut self, id: RequestId, hash: CallerHash) {
        self.open.insert(id, hash);
        self.by_code.insert(hash, id);
    }

    /// Returns whether the request is in no count of sent and verified codes.
    pub(crate) fn is_uncounted(&self, id: RequestId) -> bool {
        self.is_test(id) || self.is_inbound(id)
    }

    pub(crate) fn set_inbound(&mut self, id: RequestId, phone: Phone) {
        self.inbound.insert(id, phone);
        self.senders.insert((phone, id));
    }

    /// Returns the requests whose code this phone is to send, newest first.
    pub(crate) fn inbound_of(&self, phone: Phone) -> Vec<RequestId> {
        let (first, last) = (RequestId::from_bytes([0; 16]), RequestId::from_bytes([255; 16]));
        self.senders.range((phone, first)..=(phone, last)).rev().map(|(_, id)| *id).collect()
    }

    /// Returns the requests to test phones before one, newest first.
    pub(crate) fn tests(&self, before: Option<RequestId>) -> impl Iterator<Item = RequestId> {
        let before = before.map_or(Bound::Unbounded, Bound::Excluded);
        self.tests.range((Bound::Unbounded, before)).rev().copied()
    }

    pub(crate) fn set_test(&mut self, id: RequestId) {
        self.tests.insert(id);
    }

    pub(crate) fn set_notes(&mut self, id: RequestId, notes: Box<str>) {
        self.notes.insert(id, notes);
    }

    /// Returns the notes of a request, as JSON.
    pub(crate) fn json(&self, id: RequestId) -> Option<&str> {
        self.notes.get(&id).map(|json| &**json)
    }

    /// Returns the notes of a request.
    pub(crate) fn notes(&self, id: RequestId) -> OtpNotes {
        self.json(id).map(OtpNotes::from_json).unwrap_or_default()
    }

    /// Returns the number of a request, if there was a choice.
    pub(crate) fn number(&self, id: RequestId) -> Option<NumberId> {
        // Few requests have one.
        let json = self.json(id).filter(|json| json.contains(NUMBER))?;
        OtpNotes::from_json(json).number_id
    }

    /// Returns Postrider's own notes of a request.
    pub(crate) fn own(&self, id: RequestId) -> Option<OtpOwnNotes> {
        // Few requests have any.
        let json = self.json(id).filter(|json| json.contains(OWN))?;
        OtpNotes::from_json(json).own.map(|own| *own)
    }

    /// Adds the shown notes of a request to an event.
    pub(crate) fn with_notes(&self, id: RequestId, event: PublicEvent) -> PublicEvent {
        let shown = match self.notes.get(&id) {
            Some(notes) if notes.contains(OWN) => OtpNotes::from_json(notes).shown(),
            shown => shown.cloned(),
        };
        match shown {
            Some(notes) => PublicEvent::Noted { event: Box::new(event), notes },
            None => event,
        }
    }

    /// Forgets the data of the request.
    pub(crate) fn forget(&mut self, id: RequestId) {
        self.notes.remove(&id);
        self.tests.remove(&id);
        if let Some(phone) = self.inbound.remove(&id) {
            self.senders.remove(&(phone, id));
        }
        if let Some(hash) = self.open.remove(&id) {
            self.by_code.remove(&hash);
        }
    }

    pub(crate) fn encode_inbound_into(&self, out: &mut Vec<u8>) {
        encode(&self.inbound.iter().collect::<Vec<_>>(), out);
    }

    pub(crate) fn take_inbound_from(&mut self, bytes: &mut &[u8]) -> Result<(), EventDecodeError> {
        let (all, rest) = postcard::take_from_bytes::<Vec<(RequestId, Phone)>>(bytes)
            .map_err(|_| EventDecodeError)?;
        *bytes = rest;
        all.into_iter().for_each(|(id, phone)| self.set_inbound(id, phone));
        Ok(())
    }

    pub(crate) fn encode_open_into(&self, out: &mut Vec<u8>) {
        encode(&self.open.iter().collect::<Vec<_>>(), out);
    }

    pub(crate) fn take_open_from(&mut self, bytes: &mut &[u8]) -> Result<(), EventDecodeError> {
        let (all, rest) = postcard::take_from_bytes::<Vec<(RequestId, CallerHash)>>(bytes)
            .map_err(|_| EventDecodeError)?;
        *bytes = rest;
        all.into_iter().for_each(|(id, hash)| self.set_open(id, hash));
        Ok(())
    }

    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        encode(&(self.notes.iter().collect::<Vec<_>>(), &self.tests), out);
    }

    pub(crate) fn take_from(bytes: &mut &[u8]) -> Result<Self, EventDecodeError> {
        type Stored = (Vec<(RequestId, Box<str>)>, Vec<RequestId>);
        let ((notes, tests), rest) =
            postcard::take_from_bytes::<Stored>(bytes).map_err(|_| EventDecodeError)?;
        *bytes = rest;
        let (notes, tests) = (notes.into_iter().collect(), tests.into_iter().collect());
        Ok(Self { notes, tests, ..Self::default() })
    }
}

/// Stores the notes that are shown with a request.
pub(super) fn note_send(
    core: &mut Core,
    id: RequestId,
    more: Option<&SendMore>,
    test: bool,
    effects: &mut Effects,
) {
    let notes = match more {
        Some(more) => OtpNotes {
            test,
            reference: more.reference.clone(),
            metadata: more.metadata.clone(),
            number_id: more.through,
            contact_id: None,
            own: own_notes(more),
        },
        None if !test => return,
        None => OtpNotes { test, ..OtpNotes::default() },
    };
    if let Some(notes) = notes.to_json() {
        core.perform(Event::OtpNoted { id, notes }, effects);
    }
}

fn own_notes(more: &SendMore) -> Option<Box<OtpOwnNotes>> {
    let own = OtpOwnNotes {
        languages: more.languages.clone(),
        inbound: more.inbound,
        pinned: more.from.is_some(),
        sender: None,
        decision: None,
        tries: Vec::new(),
    };
    (own != OtpOwnNotes::default()).then(|| Box::new(own))
}
