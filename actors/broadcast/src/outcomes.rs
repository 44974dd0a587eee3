//! Pure: the outcomes of a broadcast's messages and the later reports on them, a byte for each.
//!
//! Each window is written as a whole. The fan-out writes outcomes and the workspace writes reports,
//! so neither waits for the other.

use postrider_channel::Failure;
use postrider_store::StoreError;
use serde::{Deserialize, Serialize};

use crate::record::WINDOW;

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

/// The furthest status that the provider reported of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Report {
    /// The provider sent it.
    Sent = 1,
    /// It is on the recipient's device.
    Delivered = 2,
    /// The recipient opened it.
    Read = 3,
    /// It was not delivered.
    Failed = 4,
}

impl Report {
    const fn of(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Sent),
            2 => Some(Self::Delivered),
            3 => Some(Self::Read),
            4 => Some(Self::Failed),
            _ => None,
        }
    }
}

/// The bit of a message's byte that says that the recipient replied.
const REPLIED: u8 = 0x80;

/// The reports of one window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reports {
    bytes: Vec<u8>,
    /// Failures, by index in the window.
    failures: Vec<(u16, Failed)>,
}

impl Default for Reports {
    fn default() -> Self {
        Self { bytes: vec![0; WINDOW as usize], failures: Vec::new() }
    }
}

impl Reports {
    /// Decodes the output of [`encode`](Self::encode).
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if the bytes are something else.
    pub fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let damaged = |_| StoreError::Damaged("a broadcast's reports cannot be read".to_owned());
        postcard::from_bytes(bytes).map_err(damaged)
    }

    /// Returns the reports in postcard's format.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes.len() + 8);
        postrider_domain::event::encode(self, &mut bytes);
        bytes
    }

    /// Returns the furthest status that was reported of the message at this index of the window.
    pub fn of(&self, at: usize) -> Option<Report> {
        self.bytes.get(at).and_then(|byte| Report::of(byte & !REPLIED))
    }

    /// Returns the reason for which the message at this index of the window failed.
    pub fn failure(&self, at: usize) -> Option<&Failed> {
        let mut of = self.failures.iter().filter(|(place, _)| usize::from(*place) == at);
        of.next().map(|(_, failed)| failed)
    }

    /// Records that the recipient at this index replied. Returns whether that is new.
    pub fn reply(&mut self, at: usize) -> bool {
        match self.bytes.get_mut(at) {
            Some(byte) if *byte & REPLIED == 0 => {
                *byte |= REPLIED;
                true
            }
            _ => false,
        }
    }

    /// Records a report. Reports may be repeated and arrive in any order, so a delivered message
    /// never fails later and a failed one stays failed. Returns whether the report is new.
    pub fn take(&mut self, at: usize, report: Report, failed: Option<Failed>) -> bool {
        let known = self.of(at);
        let is_new = match (known, report) {
            (Some(Report::Failed), _) => false,
            (known, Report::Failed) => known < Some(Report::Delivered),
            (known, report) => known < Some(report),
        };
        if let (true, Some(byte)) = (is_new, self.bytes.get_mut(at)) {
            *byte = (*byte & REPLIED) | report as u8;
            if let (Some(failed), Ok(at)) = (failed, u16::try_from(at)) {
                self.failures.push((at, failed));
            }
        }
        is_new
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

    #[test]
    fn reports_only_go_forward() {
        use Report::{Delivered, Failed, Read, Sent};
        for (order, last) in [
            (&[Sent, Delivered, Read][..], Read),
            (&[Read, Delivered, Sent], Read),
            (&[Read, Failed], Read),
            (&[Delivered, Failed, Delivered], Delivered),
            (&[Sent, Failed, Read], Failed),
            (&[Failed, Failed], Failed),
        ] {
            let mut reports = Reports::default();
            let mut changes = 0;
            for report in order {
                changes += usize::from(reports.take(7, *report, None));
            }
            assert_eq!(reports.of(7), Some(last), "{order:?}");
            assert!(changes >= 1 && !reports.take(7, last, None));
            assert!(reports.reply(7) && !reports.reply(7) && reports.of(7) == Some(last));
            assert!(!reports.take(7, last, None) && reports.reply(8) && reports.of(8).is_none());
            assert_eq!(Reports::decode(&reports.encode()), Ok(reports));
        }
    }
}
