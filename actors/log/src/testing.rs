//! The tests of this crate share an id and a way to show bytes.

use crate::LogId;

pub(crate) const ID: LogId = LogId(*b"0123456789abcdef");

/// The bytes in hexadecimal, 32 in a line.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    bytes.chunks(32).map(|bytes| line(bytes) + "\n").collect()
}
