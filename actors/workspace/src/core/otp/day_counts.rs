//! Pure: counts of the events of one-time passwords, by day and country.
//!
//! The counts of the running day are in memory, and each commit that changes one writes it, as it
//! does the balance. So a group of commits writes one small record, however many codes are in it. A
//! refusal changes nothing durable, so it is written with the next change, and at the latest by a
//! tick.
//!
//! [`Table::Analytics`](postrider_store::Table::Analytics) has the counts under
//! `workspace ‖ 0 ‖ o ‖ day ‖ calling code`: the version (1) and seven numbers of eight bytes.

use hashbrown::HashMap;

use postrider_domain::day::Day;
use postrider_domain::{Timestamp, WorkspaceId};
use postrider_store::StoreError;

/// The letter of the keys.
pub(crate) const LETTER: u8 = b'o';
const VERSION: u8 = 1;
const COUNTS: usize = 7;
/// Bytes of encoded counts.
pub(crate) const BYTES: usize = 1 + COUNTS * 8;

/// A counted event of a one-time password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountedEvent {
    Sent,
    Delivered,
    Verified,
    Wrong,
    Expired,
    Failed,
    Refused,
}

/// The counts of the events of one-time passwords.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OtpCounts {
    /// Requests that were accepted, without the resends.
    pub sent: u64,
    /// Messages that arrived on a device.
    pub delivered: u64,
    /// Codes that were entered in time.
    pub verified: u64,
    /// Wrong codes.
    pub wrong: u64,
    /// Codes that nobody entered in time.
    pub expired: u64,
    /// Requests that came to nothing, as the event `otp.failed` reports.
    pub failed: u64,
    /// Requests that a limit, the balance or the workspace's rules refused.
    pub refused: u64,
}

impl OtpCounts {
    fn count(&mut self, what: CountedEvent) -> &mut u64 {
        match what {
            CountedEvent::Sent => &mut self.sent,
            CountedEvent::Delivered => &mut self.delivered,
            CountedEvent::Verified => &mut self.verified,
            CountedEvent::Wrong => &mut self.wrong,
            CountedEvent::Expired => &mut self.expired,
            CountedEvent::Failed => &mut self.failed,
            CountedEvent::Refused => &mut self.refused,
        }
    }

    /// Adds others to these.
    pub(crate) fn add(&mut self, other: &Self) {
        let own = self.numbers();
        let mut sums = own.iter().zip(other.numbers()).map(|(one, two)| one.saturating_add(two));
        *self = Self::of_numbers(std::array::from_fn(|_| sums.next().unwrap_or_default()));
    }

    const fn numbers(&self) -> [u64; COUNTS] {
        let Self { sent, delivered, verified, wrong, expired, failed, refused } = *self;
        [sent, delivered, verified, wrong, expired, failed, refused]
    }

    const fn of_numbers(numbers: [u64; COUNTS]) -> Self {
        let [sent, delivered, verified, wrong, expired, failed, refused] = numbers;
        Self { sent, delivered, verified, wrong, expired, failed, refused }
    }

    pub(crate) fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [VERSION; BYTES];
        let (places, _) = bytes[1..].as_chunks_mut();
        for (place, number) in places.iter_mut().zip(self.numbers()) {
            *place = number.to_be_bytes();
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let damaged = || StoreError::Damaged("counts of one-time passwords".into());
        let bytes: [u8; BYTES] = bytes.try_into().map_err(|_| damaged())?;
        let (numbers, _) = bytes[1..].as_chunks();
        let numbers = std::array::from_fn(|at| u64::from_be_bytes(numbers[at]));
        (bytes[0] == VERSION).then_some(Self::of_numbers(numbers)).ok_or_else(damaged)
    }
}

/// The counts of a country on a day, to be written.
pub(crate) type CountRow = (Day, u16, OtpCounts);

/// The counts of the running day, by calling code.
#[derive(Debug, Default)]
pub struct TodayCounts {
    day: Option<Day>,
    counts: HashMap<u16, OtpCounts>,
    /// Calling codes whose counts are not written yet.
    unwritten: Vec<u16>,
}

impl TodayCounts {
    /// Restores the stored counts of a day.
    pub(crate) fn stored(day: Day, counts: impl Iterator<Item = (u16, OtpCounts)>) -> Self {
        Self { day: Some(day), counts: counts.collect(), unwritten: Vec::new() }
    }

    /// Counts an event. Returns the counts to write with the commit of that event.
    pub(crate) fn note(&mut self, at: Timestamp, code: u16, what: CountedEvent) -> CountRow {
        let day = Day::of(at);
        if self.day != Some(day) {
            *self = Self { day: Some(day), ..Self::default() };
        }
        let counts = self.counts.entry(code).or_default();
        *counts.count(what) += 1;
        (day, code, *counts)
    }

    /// Counts a refusal, which makes nothing durable.
    pub(crate) fn note_refused(&mut self, at: Timestamp, code: u16) {
        self.note(at, code, CountedEvent::Refused);
        if !self.unwritten.contains(&code) {
            self.unwritten.push(code);
        }
    }

    /// Returns the counts of refusals that are not written yet, and marks them as written.
    pub(crate) fn take_refused(&mut self) -> Vec<CountRow> {
        let Some(day) = self.day else { return Vec::new() };
        let counts = &self.counts;
        let row = |code: u16| (day, code, counts.get(&code).copied().unwrap_or_default());
        self.unwritten.drain(..).map(row).collect()
    }
}

/// Returns the key prefix of a workspace's counts.
pub(crate) fn prefix(workspace: &WorkspaceId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0, LETTER]].concat()
}

/// Writes the key of a country's counts on a day into a buffer.
pub(crate) fn key_into(prefix: &[u8], day: Day, code: u16, key: &mut Vec<u8>) {
    key.clear();
    key.extend_from_slice(prefix);
    key.extend_from_slice(&day.number().to_be_bytes());
    key.extend_from_slice(&code.to_be_bytes());
}

/// Reads the day and the calling code of a key, without its prefix.
pub(crate) fn read_key(key: &[u8]) -> Option<(Day, u16)> {
    let (day, code) = key.split_first_chunk()?;
    let code = u16::from_be_bytes(code.try_into().ok()?);
    Some((Day::from_number(u32::from_be_bytes(*day)), code))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use postrider_domain::golden::{AT, Sheet};

    #[test]
    fn counts_are_stored_as_ever() {
        let prefix = prefix(&"acme".parse().unwrap());
        let counts = OtpCounts::of_numbers([1, 2, 3, 4, 5, 6, 0x0102_0304]);
        let (mut sheet, mut key) = (Sheet::default(), Vec::new());
        key_into(&prefix, Day::of(AT), 55, &mut key);
        sheet.text("key", &key);
        sheet.bytes("counts", &counts.encode());
        sheet.is(expect![[r#"
            key: acme\x00o\x00\x00L\xdb\x007
            counts:
                01000000000000000100000000000000020000000000000003000000000000000400000000000000
                0500000000000000060000000001020304
        "#]]);
        assert_eq!(OtpCounts::decode(&counts.encode()), Ok(counts));
        assert_eq!(read_key(&key[prefix.len()..]), Some((Day::of(AT), 55)));
        let mut other_version = counts.encode();
        other_version[0] = 2;
        for damaged in [&[][..], &other_version, &counts.encode()[1..]] {
            assert!(OtpCounts::decode(damaged).is_err());
        }
    }

    #[test]
    fn a_new_day_begins_at_nothing_and_refusals_are_written_later() {
        let mut days = TodayCounts::default();
        let next = Timestamp::from_millis(AT.as_millis() + 86_400_000);
        days.note_refused(AT, 1);
        days.note_refused(AT, 1);
        let one = OtpCounts { sent: 1, ..OtpCounts::default() };
        let sent = days.note(AT, 1, CountedEvent::Sent);
        assert_eq!(sent, (Day::of(AT), 1, OtpCounts { refused: 2, ..one }));
        assert_eq!(days.note(AT, 55, CountedEvent::Sent), (Day::of(AT), 55, one));
        assert_eq!(days.take_refused(), [sent]);
        assert_eq!(days.take_refused(), []);
        assert_eq!(days.note(next, 1, CountedEvent::Sent), (Day::of(next), 1, one));
        let stored = TodayCounts::stored(Day::of(AT), [(1, one)].into_iter()).note(
            AT,
            1,
            CountedEvent::Sent,
        );
        assert_eq!(stored.2.sent, 2);
    }
}
