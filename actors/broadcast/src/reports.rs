//! Pure: the provider's later reports on a broadcast's messages, one byte for each.
//!
//! They are written in windows. The fan-out writes outcomes and the workspace writes reports, so
//! neither waits for the other.

use serde::{Deserialize, Serialize};

use postrider_store::StoreError;

use super::outcomes::Failed;
use super::record::WINDOW;

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
