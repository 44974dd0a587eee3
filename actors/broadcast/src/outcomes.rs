//! Pure: the outcomes of a broadcast's messages, one byte for each that was claimed.
//!
//! Each window of outcomes is written as a whole.

use serde::{Deserialize, Serialize};

use postrider_channel::Failure;
use postrider_store::StoreError;

/// The maximum number of characters stored of the channel's explanation of a failure.
const DETAILS_CHARS_MAX: usize = 120;

/// The state of a claimed message, as one byte on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mark {
    /// It is in flight: the channel may have received it.
    Claimed = 0,
    /// The channel certainly did not accept it, and it must be sent again.
    Retry = 1,
    /// The channel accepted it.
    Sent = 2,
    /// The channel certainly did not accept it, and it is not sent again.
    Failed = 3,
    /// It is unknown whether the channel accepted it.
    Unknown = 4,
    /// The recipient opted out before it was sent.
    OptedOut = 5,
    /// The channel accepted it and holds it back.
    Held = 6,
}

impl Mark {
    const ALL: [Self; 7] = [
        Self::Claimed,
        Self::Retry,
        Self::Sent,
        Self::Failed,
        Self::Unknown,
        Self::OptedOut,
        Self::Held,
    ];

    /// Returns whether the mark does not change any more.
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::Claimed | Self::Retry)
    }
}

/// The reason for which a message failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// Set if the channel refused the message. Otherwise the channel did not accept it in time.
    pub refused: bool,
    /// The channel's own error code.
    pub code: Option<u32>,
    /// The channel's explanation, or an empty text.
    pub details: Box<str>,
}

impl Failed {
    /// Returns the failure of a message that the channel refused.
    pub fn of(failure: &Failure) -> Self {
        let details = failure.details.chars().take(DETAILS_CHARS_MAX).collect::<String>().into();
        Self { refused: true, code: failure.code, details }
    }
}

/// The outcomes of one window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    marks: Vec<u8>,
    /// Failures, by index in the window.
    failures: Vec<(u16, Failed)>,
}

impl Window {
    /// Creates a window whose first `length` messages are claimed.
    pub fn claimed(length: u32) -> Self {
        let mut window = Self { marks: Vec::new(), failures: Vec::new() };
        window.claim(length);
        window
    }

    /// Claims the next `length` messages.
    pub fn claim(&mut self, length: u32) {
        self.marks.resize(self.marks.len() + length as usize, Mark::Claimed as u8);
    }

    /// Decodes the output of [`encode`](Self::encode).
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if the bytes are something else.
    pub fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let damaged = || StoreError::Damaged("a broadcast's outcomes cannot be read".to_owned());
        let window: Self = postcard::from_bytes(bytes).map_err(|_| damaged())?;
        let known = window.marks.iter().all(|mark| usize::from(*mark) < Mark::ALL.len());
        if known { Ok(window) } else { Err(damaged()) }
    }

    /// Returns the window in postcard's format.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.marks.len() + 8);
        postrider_domain::event::encode(self, &mut bytes);
        bytes
    }

    /// Returns the marks in order.
    pub fn marks(&self) -> impl Iterator<Item = Mark> {
        self.marks.iter().map(|mark| Mark::ALL[usize::from(*mark)])
    }

    /// Returns the mark of the message at this index of the window, if it was claimed.
    pub fn mark(&self, at: usize) -> Option<Mark> {
        self.marks.get(at).map(|mark| Mark::ALL[usize::from(*mark)])
    }

    /// Changes the mark of the message at this index of the window, if it was claimed.
    pub fn set(&mut self, at: usize, mark: Mark) {
        if let Some(place) = self.marks.get_mut(at) {
            *place = mark as u8;
        }
    }

    /// Marks the message at this index of the window as failed, with the reason.
    pub fn set_failed(&mut self, at: usize, failed: Failed) {
        self.set(at, Mark::Failed);
        if let Ok(at) = u16::try_from(at) {
            self.failures.push((at, failed));
        }
    }

    /// Returns the reason for which the message at this index of the window failed.
    pub fn failure(&self, at: usize) -> Option<&Failed> {
        let mut of = self.failures.iter().rev().filter(|(place, _)| usize::from(*place) == at);
        of.next().map(|(_, failed)| failed)
    }

    /// Returns whether every claimed message has a final mark.
    pub fn is_final(&self) -> bool {
        self.marks().all(Mark::is_final)
    }
}

/// The number of messages with each mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally([u32; Mark::ALL.len()]);

impl Tally {
    /// Counts a message with this mark.
    pub fn add(&mut self, mark: Mark) {
        self.0[mark as usize] += 1;
    }

    /// Moves a message from one mark to another. A message must have been counted under `from`.
    pub fn change(&mut self, from: Mark, to: Mark) {
        self.0[from as usize] -= 1;
        self.0[to as usize] += 1;
    }

    /// Returns the number of messages with this mark.
    pub const fn of(&self, mark: Mark) -> u32 {
        self.0[mark as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_read_as_it_was_written() {
        let mut window = Window::claimed(5);
        window.set(1, Mark::Sent);
        window.set_failed(2, Failed { refused: true, code: Some(131_026), details: "no".into() });
        window.set(9, Mark::Sent);
        let read = Window::decode(&window.encode()).unwrap();
        assert_eq!(read, window);
        let marks: Vec<_> = read.marks().collect();
        let claimed = Mark::Claimed;
        assert_eq!(marks, [claimed, Mark::Sent, Mark::Failed, claimed, claimed]);
        assert_eq!(read.failure(2).unwrap().code, Some(131_026));
        assert!(read.failure(1).is_none() && !read.is_final());
        assert!(Window::decode(&[1, 9, 0]).is_err() && Window::decode(b"").is_err());
    }
}
