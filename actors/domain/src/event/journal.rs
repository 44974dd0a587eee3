//! What rebuilds a workspace's memory.

use serde::{Deserialize, Serialize};

use crate::code::{CodeLength, Expiry};
use crate::{MessageId, Phone, RequestId, Timestamp};

use super::{Delivery, EventDecodeError, decode_all, encode};

/// Something that happened to what a workspace keeps in memory. Replaying a workspace's events in
/// order gives that state again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A one-time password was accepted, at the moment in its id, for `price` credits.
    OtpSent {
        /// The request; its timestamp is the moment of sending.
        id: RequestId,
        /// Where it goes.
        phone: Phone,
        /// How long it is valid.
        expiry: Expiry,
        /// How many digits it has.
        length: CodeLength,
        /// The version of the master key that its code is derived with.
        key_version: u8,
    },
    /// The same code goes out again.
    OtpResent {
        /// The request.
        id: RequestId,
        /// When.
        at: Timestamp,
    },
    /// A wrong code was submitted; `attempts` of them so far, of which the fifth invalidates.
    OtpMissed {
        /// The request.
        id: RequestId,
        /// Wrong codes so far: 1 to 5.
        attempts: u8,
    },
    /// The code was submitted.
    OtpVerified {
        /// The request.
        id: RequestId,
    },
    /// The request's time passed while it was active.
    OtpExpired {
        /// The request.
        id: RequestId,
    },
    /// The channel has answered for the request's newest message.
    OtpDelivery {
        /// The request.
        id: RequestId,
        /// What it answered.
        delivery: Delivery,
    },
    /// The provider has reported on the request's newest message, after or without the channel's answer.
    OtpReported {
        /// The request.
        id: RequestId,
        /// What it reported.
        delivery: Delivery,
    },
    /// Suspiciously many one-time passwords to one country were not verified in this hour.
    PumpingSuspected {
        /// The country calling code.
        calling_code: u16,
        /// When it was noticed.
        at: Timestamp,
    },
    /// A message was accepted; what it says is in its record.
    MessageQueued {
        /// The message.
        id: MessageId,
        /// After this it is not worth sending.
        give_up_at: Timestamp,
    },
    /// It is known what became of the message: it is not handed over again.
    MessageSettled {
        /// The message.
        id: MessageId,
    },
    /// The message is about to be handed over: from now on it may have been.
    MessageClaimed {
        /// The message.
        id: MessageId,
    },
    /// It was claimed and surely not taken: it waits as before.
    MessageReleased {
        /// The message.
        id: MessageId,
    },
    /// The request's message had no answer: the same code goes out again, or nothing more is done.
    OtpRepeat {
        /// The request.
        id: RequestId,
        /// What comes; `None` when that is over.
        repeat: Option<Repeat>,
    },
    /// Something became known of a message of the request that is not its newest.
    OtpEarlier {
        /// The request.
        id: RequestId,
        /// Which of its messages: 1 is the first.
        number: u8,
        /// What became of it.
        delivery: Delivery,
        /// How often it was paid for without an answer of the channel.
        unsettled: u8,
    },
}

/// A code that goes out again because its message had no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeat {
    /// How often it has gone out again.
    pub count: u8,
    /// When it does the next time; `None` while it is under way.
    pub due: Option<Timestamp>,
}

impl Event {
    /// Appends the event in postcard's format.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        encode(self, out);
    }

    /// Reads events that were encoded one after the other.
    pub fn decode_all(bytes: &[u8]) -> impl Iterator<Item = Result<Self, EventDecodeError>> {
        decode_all(bytes)
    }
}
