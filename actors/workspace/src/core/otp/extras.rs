//! Pure: what is held of few requests for one-time passwords: notes, and which are tests.

use std::collections::{BTreeMap, BTreeSet};

use postrider_domain::event::otp::OtpNotes;
use postrider_domain::event::{EventDecodeError, encode};
use postrider_domain::{OtpCode, Phone, PublicEvent, RequestId};

use hashbrown::HashMap;

/// The phones of a workspace that nothing is sent to, with the codes that verify there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestPhones(HashMap<Phone, OtpCode>);

impl TestPhones {
    /// Most of a workspace.
    pub const MAX: usize = 50;

    /// These phones with their codes.
    #[must_use]
    pub fn new(phones: impl IntoIterator<Item = (Phone, OtpCode)>) -> Self {
        Self(phones.into_iter().collect())
    }

    /// The phones, in order.
    #[must_use]
    pub fn phones(&self) -> Vec<Phone> {
        self.0.keys().copied().collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The code of a phone, if it is one of them.
    #[must_use]
    pub fn code(&self, phone: Phone) -> Option<OtpCode> {
        self.0.get(&phone).copied()
    }

    /// Every phone and its code, in order, to be encrypted.
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
}

impl Extras {
    /// Whether the request is to a test phone.
    pub(crate) fn is_test(&self, id: RequestId) -> bool {
        self.tests.contains(&id)
    }

    pub(crate) fn set_test(&mut self, id: RequestId) {
        self.tests.insert(id);
    }

    pub(crate) fn set_notes(&mut self, id: RequestId, notes: Box<str>) {
        self.notes.insert(id, notes);
    }

    /// What is noted of a request, as JSON.
    pub(crate) fn json(&self, id: RequestId) -> Option<&str> {
        self.notes.get(&id).map(|json| &**json)
    }

    /// What is noted of a request.
    pub(crate) fn notes(&self, id: RequestId) -> OtpNotes {
        self.json(id).map(OtpNotes::from_json).unwrap_or_default()
    }

    /// An event of a request, with what is noted of that.
    pub(crate) fn with_notes(&self, id: RequestId, event: PublicEvent) -> PublicEvent {
        match self.notes.get(&id) {
            Some(notes) => PublicEvent::Noted { event: Box::new(event), notes: notes.clone() },
            None => event,
        }
    }

    /// Forgets the request's.
    pub(crate) fn forget(&mut self, id: RequestId) {
        self.notes.remove(&id);
        self.tests.remove(&id);
    }

    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        encode(&(self.notes.iter().collect::<Vec<_>>(), &self.tests), out);
    }

    pub(crate) fn take_from(bytes: &mut &[u8]) -> Result<Self, EventDecodeError> {
        type Stored = (Vec<(RequestId, Box<str>)>, Vec<RequestId>);
        let ((notes, tests), rest) =
            postcard::take_from_bytes::<Stored>(bytes).map_err(|_| EventDecodeError)?;
        *bytes = rest;
        Ok(Self { notes: notes.into_iter().collect(), tests: tests.into_iter().collect() })
    }
}
