//! Pure: edits of real examples, chosen by a fuzzer.
//!
//! Random bytes get no further than the first check of a parser. So a fuzzer's bytes are read as a
//! script: the example to start with, and its changes.

/// The maximum number of bytes of an input. Edits beyond it are left out.
const INPUT_BYTES_MAX: usize = 16 * 1024;
/// The bytes of one edit: its kind, its place (u16, big endian), and a value.
const EDIT_BYTES: usize = 4;
/// The maximum number of edits of one input. Later edits of a script are left out.
const EDITS_MAX: usize = 8;
/// The maximum number of bytes of a script that are read: the example, and the edits.
pub const SCRIPT_BYTES_MAX: usize = 1 + EDITS_MAX * EDIT_BYTES;

/// Texts at which parsers have failed before: lengths, escapes, numbers, and bytes that are not
/// UTF-8.
const TOKENS: [&[u8]; 24] = [
    b"\0",
    b"\"",
    b"\\",
    b"\\ud800",
    b"\\u0000",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\r\n",
    b"-",
    b"-0",
    b"1e999",
    b"18446744073709551616",
    b"0.1",
    b"null",
    b"{}",
    b"[[[[[[[[[[[[[[[[",
    b"{\"a\":",
    b"<",
    b">",
    // The lengths 2^32 - 1 and 2^64 - 1 in postcard's format, and in the format of frames.
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xff\xff\xff\xff",
    b"\x00\x00\x00\x00",
];

/// Returns the input that a script makes of the examples. One value of the first byte selects no
/// example: then the rest of the script is the input.
#[must_use]
pub fn edited(examples: &[&[u8]], script: &[u8]) -> Vec<u8> {
    let Some((first, edits)) = script.split_first() else { return Vec::new() };
    let Some(example) = examples.get(usize::from(*first) % (examples.len() + 1)) else {
        return edits.to_vec();
    };
    let mut input = example.to_vec();
    for edit in edits.chunks_exact(EDIT_BYTES).take(EDITS_MAX) {
        let at = usize::from(u16::from_be_bytes([edit[1], edit[2]])) % (input.len() + 1);
        apply(&mut input, edit[0], at, edit[3], examples);
        input.truncate(INPUT_BYTES_MAX);
    }
    input
}

/// Makes one edit at a place of the input, or at its end.
fn apply(input: &mut Vec<u8>, kind: u8, at: usize, value: u8, examples: &[&[u8]]) {
    let end = input.len().min(at + usize::from(value));
    match kind % 8 {
        0 => input.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (value % 8)),
        1 => input.iter_mut().skip(at).take(1).for_each(|byte| *byte = value),
        2 => input.insert(at, value),
        3 => drop(input.drain(at..end)),
        4 => {
            let part = input[at..end].to_vec();
            input.splice(at..at, part).for_each(drop);
        }
        5 => {
            let token = TOKENS[usize::from(value) % TOKENS.len()];
            input.splice(at..at, token.iter().copied()).for_each(drop);
        }
        6 => input.truncate(at),
        _ => {
            let other = examples[usize::from(value) % examples.len()];
            input.truncate(at);
            input.extend_from_slice(other.get(at..).unwrap_or_default());
        }
    }
}

/// Calls `read` with each input that a small fault makes of these bytes. A byte is cut off,
/// changed, or replaced by a wrong length.
pub fn each_fault(bytes: &[u8], mut read: impl FnMut(&[u8])) {
    for at in 0..bytes.len() {
        read(&bytes[..at]);
        for changed in [bytes[at] ^ 1, bytes[at] ^ 0x80, 0, u8::MAX] {
            let mut input = bytes.to_vec();
            input[at] = changed;
            read(&input);
        }
        for token in &TOKENS[TOKENS.len() - 4..] {
            read(&[&bytes[..at], token, &bytes[at + 1..]].concat());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_begins_with_an_example_and_changes_it() {
        let examples: [&[u8]; 2] = [b"one", b"three"];
        assert_eq!(edited(&examples, &[]), b"");
        assert_eq!(edited(&examples, &[0]), b"one");
        assert_eq!(edited(&examples, &[1]), b"three");
        assert_eq!(edited(&examples, b"\x02raw"), b"raw");
        for (edit, expected) in [
            ([0, 0, 0, 0], &b"nne"[..]),
            ([1, 0, 1, b'r'], b"ore"),
            ([2, 0, 3, b'!'], b"one!"),
            ([3, 0, 1, 9], b"o"),
            ([4, 0, 0, 2], b"onone"),
            ([5, 0, 3, 14], b"onenull"),
            ([6, 0, 1, 0], b"o"),
            ([7, 0, 1, 1], b"ohree"),
            // A place past the end counts from the start again.
            ([6, 0, 6, 0], b"on"),
        ] {
            assert_eq!(edited(&examples, &[&[0][..], &edit].concat()), expected, "{edit:?}");
        }
    }

    #[test]
    fn an_input_never_grows_without_bound() {
        let example = vec![b'a'; INPUT_BYTES_MAX];
        let script = [[0_u8].as_slice(), &[4, 0, 0, 255].repeat(8)].concat();
        assert_eq!(script.len(), SCRIPT_BYTES_MAX);
        assert_eq!(edited(&[&example], &script).len(), INPUT_BYTES_MAX);
    }

    #[test]
    fn each_byte_is_cut_off_and_changed() {
        let mut read = Vec::new();
        each_fault(b"ab", |input| read.push(input.to_vec()));
        assert_eq!(read.len(), 2 * 9);
        for expected in [&b""[..], b"a", b"`b", b"a\xff", b"\xff\xff\xff\xffb", b"a\0\0\0\0"] {
            assert!(read.iter().any(|input| input == expected), "{expected:?}");
        }
    }
}
