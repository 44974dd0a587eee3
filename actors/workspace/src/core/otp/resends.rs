//! Pure: the messages of one request: the first, and one for each resend of its code.
//!
//! The outcome of the newest is stored with the request. Here are the outcomes of the earlier ones,
//! so that a report about one of them is not taken for another's.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use postrider_domain::RequestId;
use postrider_domain::event::{Delivery, EventDecodeError, encode};

use crate::core::otp::requests::Otp;

/// The greatest number of a message; all messages from there on share it.
const NUMBER_MAX: u8 = u8::MAX;

/// One of a request's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OtpMessage {
    /// The number of the message: 1 is the first.
    pub(crate) number: u8,
    /// Set if no message came after it.
    pub(crate) is_newest: bool,
    pub(crate) is: Standing,
}

/// The standing of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Standing {
    /// The delivery of the message.
    pub(crate) delivery: Delivery,
    /// The number of payments for it without an answer of the channel.
    pub(crate) unsettled: u8,
}

impl Standing {
    /// Returns whether the message was neither handed over nor given up.
    pub(crate) fn is_unsent(self) -> bool {
        self.unsettled > 0 && self.delivery == Delivery::Queued
    }
}

/// The messages that have a newer one, by request, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct EarlierMessages(BTreeMap<RequestId, Vec<Standing>>);

impl EarlierMessages {
    fn of(&self, id: RequestId) -> &[Standing] {
        self.0.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of the request's newest message.
    pub(crate) fn newest(&self, id: RequestId) -> u8 {
        u8::try_from(self.of(id).len() + 1).unwrap_or(NUMBER_MAX)
    }

    /// Returns the request's message of this number, or the newest if there is none of it.
    pub(crate) fn message(&self, otp: &Otp, number: u8) -> OtpMessage {
        let place = usize::from(number).checked_sub(1);
        match place.and_then(|place| self.of(otp.id).get(place)) {
            Some(is) => OtpMessage { number, is_newest: false, is: *is },
            None => OtpMessage { number: self.newest(otp.id), is_newest: true, is: otp.standing() },
        }
    }

    /// Returns whether an earlier message of the request was neither handed over nor given up.
    pub(crate) fn any_unsent(&self, id: RequestId) -> bool {
        self.of(id).iter().any(|it| it.is_unsent())
    }

    /// Adds the replaced newest message; returns whether there was room.
    pub(crate) fn push(&mut self, id: RequestId, newest: Standing) -> bool {
        let room = self.newest(id) < NUMBER_MAX;
        if room {
            self.0.entry(id).or_default().push(newest);
        }
        room
    }

    /// Sets the standing of a message.
    pub(crate) fn set(&mut self, id: RequestId, number: u8, standing: Standing) {
        let all = self.0.get_mut(&id);
        let place = usize::from(number).checked_sub(1);
        if let Some(it) = all.zip(place).and_then(|(all, place)| all.get_mut(place)) {
            *it = standing;
        }
    }

    /// Forgets the request's.
    pub(crate) fn forget(&mut self, id: RequestId) {
        self.0.remove(&id);
    }

    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        let all: Vec<_> = self.0.iter().collect();
        encode(&all, out);
    }

    pub(crate) fn take_from(bytes: &mut &[u8]) -> Result<Self, EventDecodeError> {
        let (all, rest) = postcard::take_from_bytes::<Vec<(RequestId, Vec<Standing>)>>(bytes)
            .map_err(|_| EventDecodeError)?;
        *bytes = rest;
        Ok(Self(all.into_iter().collect()))
    }
}
