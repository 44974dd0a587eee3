//! What the provider reports of a broadcast's messages after it took them: a byte for each, in
//! windows. The fan-out writes the outcomes, the workspace the reports, so neither waits for the
//! other.

use serde::{Deserialize, Serialize};

use postrider_store::StoreError;

use super::outcomes::Failed;
use super::record::WINDOW;

/// The most that was reported of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Report {
    /// The provider has sent it.
    Sent = 1,
    /// It is on the recipient's device.
    Delivered = 2,
    /// The recipient has opened it.
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

/// Set where the recipient has replied.
const REPLIED: u8 = 0x80;

/// The reports of one window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reports {
    bytes: Vec<u8>,
    /// By place in the window.
    failures: Vec<(u16, Failed)>,
}

impl Default for Reports {
    fn default() -> Self {
        Self { bytes: vec![0; WINDOW as usize], failures: Vec::new() }
    }
}

impl Reports {
    pub fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let damaged = |_| StoreError::Damaged("a broadcast's reports cannot be read".to_owned());
        postcard::from_bytes(bytes).map_err(damaged)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes.len() + 8);
        postrider_domain::event::encode(self, &mut bytes);
        bytes
    }

    /// The most that was reported of the message at this place.
    pub fn of(&self, at: usize) -> Option<Report> {
        self.bytes.get(at).and_then(|byte| Report::of(byte & !REPLIED))
    }

    /// Why the message at this place failed.
    pub fn failure(&self, at: usize) -> Option<&Failed> {
        let mut of = self.failures.iter().filter(|(place, _)| usize::from(*place) == at);
        of.next().map(|(_, failed)| failed)
    }

    /// The recipient at this place has replied. Returns whether that is new.
    pub fn reply(&mut self, at: usize) -> bool {
        match self.bytes.get_mut(at) {
            Some(byte) if *byte & REPLIED == 0 => {
                *byte |= REPLIED;
                true
            }
            _ => false,
        }
    }

    /// Takes a report. Reports come in any order and more than once: what was delivered or has
    /// failed stays so. Returns whether it told something new.
    pub fn take(&mut self, at: usize, report: Report, failed: Option<Failed>) -> bool {
        let known = self.of(at);
        let news = match (known, report) {
            (Some(Report::Failed), _) => false,
            (known, Report::Failed) => known < Some(Report::Delivered),
            (known, report) => known < Some(report),
        };
        if let (true, Some(byte)) = (news, self.bytes.get_mut(at)) {
            *byte = (*byte & REPLIED) | report as u8;
            if let (Some(failed), Ok(at)) = (failed, u16::try_from(at)) {
                self.failures.push((at, failed));
            }
        }
        news
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
            let mut news = 0;
            for report in order {
                news += usize::from(reports.take(7, *report, None));
            }
            assert_eq!(reports.of(7), Some(last), "{order:?}");
            assert!(news >= 1 && !reports.take(7, last, None));
            assert!(reports.reply(7) && !reports.reply(7) && reports.of(7) == Some(last));
            assert!(!reports.take(7, last, None) && reports.reply(8) && reports.of(8).is_none());
            assert_eq!(Reports::decode(&reports.encode()), Ok(reports));
        }
    }
}
