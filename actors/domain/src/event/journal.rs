//! Pure: journal events, whose replay rebuilds the state of a workspace.

use serde::{Deserialize, Serialize};

use crate::code::{CallerHash, CodeLength, Expiry};
use crate::{MessageId, Phone, RequestId, Timestamp};

use super::chain::{ChainPlan, ChainStep, TryStatus};
use super::{Delivery, EventDecodeError, decode_all, encode};

/// A change of the state that a workspace keeps in memory. Replaying a workspace's events in order
/// rebuilds that state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A one-time password was accepted, at the time in its id.
    OtpSent {
        /// The request; its timestamp is the time of sending.
        id: RequestId,
        /// The recipient.
        phone: Phone,
        /// The validity of the code.
        expiry: Expiry,
        /// The number of digits.
        length: CodeLength,
        /// The version of the master key that its code is derived with.
        key_version: u8,
    },
    /// The same code is sent again.
    OtpResent {
        /// The request.
        id: RequestId,
        /// The time of the resend.
        at: Timestamp,
    },
    /// A wrong code was submitted. The fifth invalidates the request.
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
    /// The request expired while it was active.
    OtpExpired {
        /// The request.
        id: RequestId,
    },
    /// The channel answered for the request's newest message.
    OtpDelivery {
        /// The request.
        id: RequestId,
        /// The answer.
        delivery: Delivery,
    },
    /// The provider reported on the request's newest message, after or without the channel's
    /// answer.
    OtpReported {
        /// The request.
        id: RequestId,
        /// The report.
        delivery: Delivery,
    },
    /// Suspiciously many one-time passwords to one country were not verified in this hour.
    PumpingSuspected {
        /// The country calling code.
        calling_code: u16,
        /// The time of the detection.
        at: Timestamp,
    },
    /// A message was accepted.
    MessageQueued {
        /// The message.
        id: MessageId,
        /// The time after which the message must not be sent.
        give_up_at: Timestamp,
        /// Set if it is claimed for sending too: see [`MessageClaimed`](Self::MessageClaimed).
        claimed: bool,
        /// The message and its content, in a format of the workspace's own, while it has no
        /// records; empty if it has them.
        #[serde(with = "raw_bytes")]
        unwritten: Box<[u8]>,
    },
    /// The message has a final outcome. It must not be sent again.
    MessageSettled {
        /// The message.
        id: MessageId,
    },
    /// The message is claimed for sending. From now on the channel may have received it.
    MessageClaimed {
        /// The message.
        id: MessageId,
    },
    /// The claim of the message was released, because the channel certainly did not accept it. It
    /// is queued again.
    MessageReleased {
        /// The message.
        id: MessageId,
    },
    /// The request's message had no answer. The same code is retried, or retries end.
    OtpRepeat {
        /// The request.
        id: RequestId,
        /// The next retry, or `None` when there is no further one.
        repeat: Option<Repeat>,
    },
    /// The status of an earlier message of the request changed.
    OtpEarlier {
        /// The request.
        id: RequestId,
        /// The message's number within the request, from 1.
        number: u8,
        /// The message's delivery status.
        delivery: Delivery,
        /// The number of charges without an answer of the channel.
        unsettled: u8,
    },
    /// The workspace was deleted, and its id may be used again. Nothing before this counts.
    WorkspaceDeleted,
    /// The request was cancelled. Its code verifies nothing any more.
    OtpCancelled {
        /// The request.
        id: RequestId,
    },
    /// A one-time password to a test phone was accepted: nothing is sent, and no limit counts it.
    OtpTest {
        /// The request; its timestamp is the time of sending.
        id: RequestId,
        /// The test phone.
        phone: Phone,
        /// The validity of the code.
        expiry: Expiry,
        /// The version of the master key at that time.
        key_version: u8,
    },
    /// The notes of the request, which was just accepted.
    OtpNoted {
        /// The request.
        id: RequestId,
        /// A JSON object, [`OtpNotes`](super::otp::OtpNotes).
        notes: Box<str>,
    },
    /// A send counts for its origin: the hash of an address or of a session.
    OtpCaller {
        /// The keyed hash.
        caller: CallerHash,
        /// The time of the send.
        at: Timestamp,
    },
    /// The request's code is to arrive over these steps, starting with the first.
    OtpChain {
        /// The request.
        id: RequestId,
        /// The steps.
        plan: Box<ChainPlan>,
    },
    /// The next step of the request is claimed and paid, or skipped.
    OtpTry {
        /// The request.
        id: RequestId,
        /// The step.
        step: ChainStep,
        /// The price paid.
        price: u64,
        /// Set if the step was not started.
        skipped: bool,
        /// The time of the step.
        at: Timestamp,
    },
    /// The status of a try of the request changed.
    OtpTryChanged {
        /// The request.
        id: RequestId,
        /// The try's number within the request, from 1.
        number: u8,
        /// The new status.
        status: TryStatus,
        /// The channel's error code, if it gave one.
        error: Option<u32>,
        /// The time of the change.
        at: Timestamp,
        /// Set if the chain goes on from the try, or is at its end.
        ended: bool,
    },
    /// A one-time password was made that its person sends to a number of the workspace.
    OtpInbound {
        /// The request; its ULID carries the time.
        id: RequestId,
        /// The person's phone.
        phone: Phone,
        /// The validity of the code.
        expiry: Expiry,
        /// The number of digits.
        length: CodeLength,
        /// The version of the master key that derives it.
        key_version: u8,
    },
    /// A code was made that any phone may send to a number of the workspace.
    OtpOpen {
        /// The request; its ULID carries the time.
        id: RequestId,
        /// The validity of the code.
        expiry: Expiry,
        /// The version of the master key that derives it.
        key_version: u8,
        /// The keyed hash by which the request of a code is found.
        hash: CallerHash,
    },
    /// The records of an unsettled message are written, so that the journal is not needed for them.
    MessageWritten {
        /// The message.
        id: MessageId,
    },
}

/// Retries of a code whose message had no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeat {
    /// The number of retries.
    pub count: u8,
    /// The time of the next retry, or `None` while one is in flight.
    pub due: Option<Timestamp>,
}

/// Bytes that are written and read as a whole, and not one by one.
mod raw_bytes {
    use serde::de::{Deserializer, Error, Visitor};
    use serde::ser::Serializer;

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Box<[u8]>, D::Error> {
        from.deserialize_bytes(Bytes)
    }

    struct Bytes;

    impl Visitor<'_> for Bytes {
        type Value = Box<[u8]>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("bytes")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
            Ok(bytes.into())
        }
    }
}

impl Event {
    /// Appends the event in postcard's format.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        encode(self, out);
    }

    /// Decodes concatenated events. The iterator ends after the first error.
    pub fn decode_all(bytes: &[u8]) -> impl Iterator<Item = Result<Self, EventDecodeError>> {
        decode_all(bytes)
    }
}
