//! Refuses request heads that another reader of HTTP may understand as another request.
//!
//! hyper accepts a bare LF as the end of a line, and a repeated equal `Content-Length` as one. A
//! proxy that reads them differently sees another request than this server does (RFC 9112, sections
//! 2.2 and 11.2). So input is checked before hyper reads it. In a head with such a line one byte is
//! replaced by a NUL, which no head may have. hyper then answers 400 and closes the connection.
//! Bodies are only counted.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use memchr::memchr;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The bytes of a line that are stored: a `Content-Length` of 20 digits fits.
const LINE_BYTES_MAX: usize = 64;
/// The maximum number of digits of a chunk's size: those of 64 bits.
///
/// With more digits, the stored part of the line might end within them.
const CHUNK_SIZE_DIGITS_MAX: usize = 16;
/// The bytes that end the head of a refused request for hyper, which may be waiting for its end.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// A connection whose request heads are checked.
pub(crate) struct HeadCheck<T> {
    io: T,
    scan: HeadScan,
    /// Set if hyper has got the end of the refused head.
    has_ended: bool,
}

impl<T> HeadCheck<T> {
    pub(crate) fn new(io: T) -> Self {
        Self { io, scan: HeadScan::default(), has_ended: false }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for HeadCheck<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.scan.part == RequestPart::Refused {
            // Nothing behind a refused head is read.
            if !this.has_ended && buffer.remaining() >= HEAD_END.len() {
                buffer.put_slice(HEAD_END);
                this.has_ended = true;
            }
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.io).poll_read(context, buffer);
        this.scan.check(&mut buffer.filled_mut()[before..]);
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for HeadCheck<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

/// The part of a request that the next byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum RequestPart {
    #[default]
    Head,
    /// A body with this number of bytes to come.
    Body(u64),
    /// The line with the size of a chunk.
    ChunkSize,
    /// A chunk with this number of bytes to come, with the line end behind it.
    Chunk(u64),
    /// The lines behind the last chunk.
    Trailers,
    /// A request that hyper refuses.
    Refused,
}

/// Follows the requests of a connection from head to head.
#[derive(Debug)]
struct HeadScan {
    part: RequestPart,
    /// The start of the current line, and its length so far.
    line: [u8; LINE_BYTES_MAX],
    line_length: usize,
    /// The byte before the next one.
    last: u8,
    /// Set if the request line of the head has been read.
    has_request_line: bool,
    content_length: Option<u64>,
    is_chunked: bool,
}

impl Default for HeadScan {
    fn default() -> Self {
        Self {
            part: RequestPart::Head,
            line: [0; LINE_BYTES_MAX],
            line_length: 0,
            last: 0,
            has_request_line: false,
            content_length: None,
            is_chunked: false,
        }
    }
}

impl HeadScan {
    /// Checks the next bytes, and spoils the head of a request that has to be refused.
    fn check(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            let passed = match self.part {
                RequestPart::Refused => return,
                RequestPart::Body(left) | RequestPart::Chunk(left) => self.pass(left, bytes.len()),
                RequestPart::Head | RequestPart::ChunkSize | RequestPart::Trailers => {
                    self.read_line(bytes)
                }
            };
            bytes = &mut bytes[passed..];
        }
    }

    /// Skips a part of a body.
    fn pass(&mut self, left: u64, length: usize) -> usize {
        let passed = usize::try_from(left).unwrap_or(usize::MAX).min(length);
        let left = left - passed as u64;
        self.part = match (self.part, left) {
            (RequestPart::Chunk(_), 0) => RequestPart::ChunkSize,
            (RequestPart::Chunk(_), left) => RequestPart::Chunk(left),
            (_, 0) => RequestPart::Head,
            (_, left) => RequestPart::Body(left),
        };
        passed
    }

    /// Reads up to the end of the line, or all bytes if it does not end in them.
    fn read_line(&mut self, bytes: &mut [u8]) -> usize {
        let end = memchr(b'\n', bytes);
        let line = &bytes[..end.unwrap_or(bytes.len())];
        let kept = self.line_length.min(LINE_BYTES_MAX);
        let stored = line.len().min(LINE_BYTES_MAX - kept);
        self.line[kept..kept + stored].copy_from_slice(&line[..stored]);
        self.line_length = self.line_length.saturating_add(line.len());
        self.last = line.last().copied().unwrap_or(self.last);
        let Some(end) = end else { return bytes.len() };
        let is_good = self.line_length > 0 && self.last == b'\r' && self.end_line();
        if !is_good {
            bytes[end] = 0;
            self.part = RequestPart::Refused;
        }
        self.line_length = 0;
        self.last = 0;
        end + 1
    }

    /// Processes the line that ends here. Returns whether a request may have it.
    fn end_line(&mut self) -> bool {
        let length = self.line_length - 1;
        match self.part {
            RequestPart::Head if length > 0 => return self.read_header(length),
            // An empty line before a request line is skipped, as hyper does.
            RequestPart::Head if !self.has_request_line => {}
            RequestPart::Head => self.end_head(),
            RequestPart::Trailers if length == 0 => self.part = RequestPart::Head,
            RequestPart::ChunkSize => {
                let Some(size) = chunk_size(&self.line[..length.min(LINE_BYTES_MAX)]) else {
                    return false;
                };
                // The line end behind a chunk is counted with it.
                self.part = if size == 0 {
                    RequestPart::Trailers
                } else {
                    RequestPart::Chunk(size.saturating_add(2))
                };
            }
            _ => {}
        }
        true
    }

    /// Reads a line of a head for the length of the body.
    fn read_header(&mut self, length: usize) -> bool {
        if !self.has_request_line {
            self.has_request_line = true;
            return true;
        }
        let line = &self.line[..length.min(LINE_BYTES_MAX)];
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return true };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.is_chunked = true;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let is_whole = length <= LINE_BYTES_MAX && value.iter().all(u8::is_ascii_digit);
            let value = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
            if !is_whole || value.is_none() || self.content_length.is_some() {
                return false;
            }
            self.content_length = value;
        }
        true
    }

    fn end_head(&mut self) {
        self.part = match (self.is_chunked, self.content_length) {
            (true, _) => RequestPart::ChunkSize,
            (false, Some(length)) if length > 0 => RequestPart::Body(length),
            _ => RequestPart::Head,
        };
        self.has_request_line = false;
        self.content_length = None;
        self.is_chunked = false;
    }
}

/// Parses the size of a chunk from its line: hexadecimal digits, then perhaps an extension.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    if digits > CHUNK_SIZE_DIGITS_MAX {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(&line[..digits]).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

    /// Makes a request up to the size of its first chunk.
    fn chunk_of(size: &str) -> String {
        format!("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{size}\r\n")
    }

    /// Returns whether a request of these bytes is refused, in pieces of any size.
    fn is_refused(text: &str) -> bool {
        let in_pieces = |size: usize| {
            let mut scan = HeadScan::default();
            let mut seen = text.as_bytes().to_vec();
            seen.chunks_mut(size).for_each(|piece| scan.check(piece));
            let refused = scan.part == RequestPart::Refused;
            assert_eq!(seen != text.as_bytes(), refused, "{text:?}: only what is refused changes");
            assert!(refused || scan.part == RequestPart::Head, "{text:?}: {:?}", scan.part);
            refused
        };
        let refused = in_pieces(text.len());
        for size in 1..text.len() {
            assert_eq!(in_pieces(size), refused, "{text:?} in pieces of {size}");
        }
        refused
    }

    #[test]
    fn good_requests_pass_unchanged_whatever_their_bodies_hold() {
        for body in ["", "Content-Length: 3\r\n\r\n\n\n\n", "content-length:2\r\n\r\n\n\n"] {
            let post = format!("POST / HTTP/1.1\r\n{body}");
            let post = if body.is_empty() { format!("{post}\r\n") } else { post };
            assert!(!is_refused(&format!("{post}{GET}\r\n{GET}")), "{post:?}");
        }
        let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
                       3;x=y\r\n\n\n\n\r\nA\r\n0123456\n\r\n\r\n0\r\nX: y\r\n\r\n";
        assert!(!is_refused(&format!("{chunked}{GET}{chunked}")));
        assert!(!is_refused(&format!("{}x\r\n0\r\n\r\n{GET}", chunk_of("0000000000000001"))));
        let both = "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n\
                    0\r\n\r\n";
        assert!(!is_refused(&format!("{both}{GET}")));
        let long = format!("GET / HTTP/1.1\r\nX-Long: {}\r\n\r\n", "y".repeat(300));
        assert!(!is_refused(&format!("{long}{GET}")));
    }

    #[test]
    fn a_bare_line_feed_and_a_second_length_are_refused() {
        for bad in [
            "GET / HTTP/1.1\nHost: x\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\n\n",
            "\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
            "POST / HTTP/1.1\r\nContent-Length: 1\r\nX: y\r\ncontent-length: 2\r\n\r\nx",
            "POST / HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\nx",
            "POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\nx",
            &chunk_of("00000000000000001"),
            &chunk_of(&format!("{}A", "0".repeat(LINE_BYTES_MAX))),
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\n\r\n",
        ] {
            assert!(is_refused(bad), "{bad:?}");
            assert!(is_refused(&format!("{GET}{bad}")), "{bad:?}");
            let body = "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n\r\n";
            assert!(is_refused(&format!("{body}{bad}")), "{bad:?}");
        }
    }
}
