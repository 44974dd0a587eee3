//! Pure: estimates how many bytes of frames the journal holds, without reading it.

use std::collections::VecDeque;

/// The frames between two marks. They are assumed to be equally large.
const FRAMES_PER_MARK: u64 = 64;

/// The running total of bytes at some positions, called marks.
pub(super) struct JournalSize {
    /// Positions with the bytes of all frames up to them. Both ascend, and there is always one.
    marks: VecDeque<(u64, u64)>,
    total: u64,
}

impl JournalSize {
    /// The size of a journal from after `trimmed` up to `last` with about this many bytes.
    pub(super) fn new(trimmed: u64, last: u64, bytes: u64) -> Self {
        let total = if last > trimmed { bytes } else { 0 };
        Self { marks: [(trimmed, 0), (last, total)].into(), total }
    }

    /// Adds a new frame.
    pub(super) fn add(&mut self, number: u64, bytes: u64) {
        self.total += bytes;
        if self.marks.back().is_none_or(|&(at, _)| number >= at + FRAMES_PER_MARK) {
            self.marks.push_back((number, self.total));
        }
    }

    /// Removes the marks that are not needed for positions from here on.
    pub(super) fn trim(&mut self, through: u64) {
        while self.marks.get(1).is_some_and(|&(at, _)| at <= through) {
            self.marks.pop_front();
        }
    }

    /// The estimated bytes of the frames after a position, up to the last one.
    pub(super) fn bytes_after(&self, after: u64, last: u64) -> u64 {
        if after >= last {
            return 0;
        }
        let next = self.marks.partition_point(|&(at, _)| at <= after);
        let (from, before) = match next.checked_sub(1) {
            Some(at) => self.marks[at],
            None => return self.total,
        };
        let (to, through) = self.marks.get(next).copied().unwrap_or((last, self.total));
        // This interpolates between two marks. Floats are exact far beyond the size of any journal.
        let share = (after - from) as f64 / (to - from).max(1) as f64;
        self.total - before - (share * (through - before) as f64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_exact_at_marks_and_near_between_them() {
        let mut size = JournalSize::new(100, 200, 1000);
        assert_eq!(size.bytes_after(100, 200), 1000);
        assert_eq!(size.bytes_after(150, 200), 500);
        assert_eq!(size.bytes_after(200, 200), 0);
        (201..=1000).for_each(|number| size.add(number, 10));
        assert_eq!(size.bytes_after(100, 1000), 9000);
        assert_eq!(size.bytes_after(200, 1000), 8000);
        assert_eq!(size.bytes_after(570, 1000), 4300);
        assert_eq!(size.bytes_after(990, 1000), 100);
        size.trim(570);
        assert_eq!(size.bytes_after(570, 1000), 4300);
        assert!(size.marks.len() < 10);
    }
}
