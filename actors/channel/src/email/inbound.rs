//! Pure: a received mail, in the form that a mail service has parsed.

use sha2::{Digest, Sha256};

use postrider_domain::{Email, MessageId, Timestamp, printable};

/// The maximum number of stored characters of a mail's text.
pub const TEXT_CHARS_MAX: usize = 10_000;
/// The maximum number of stored characters of a subject.
pub const SUBJECT_CHARS_MAX: usize = 500;
/// The maximum number of stored references to earlier mails; the newest ones are stored.
pub const REFERENCES_MAX: usize = 20;

/// A received mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboundMail {
    /// The sender's address.
    pub from: Email,
    /// The sender's display name.
    pub from_name: Option<String>,
    /// Its subject; empty if it has none.
    pub subject: String,
    /// Its plain text.
    pub text: String,
    /// Its `Message-ID`: two mails with the same one are the same mail.
    pub message_id: String,
    /// The `Message-ID`s of the earlier mails of the thread, oldest first; it answers the last one.
    pub references: Vec<String>,
    /// The time at which it was written.
    pub at: Timestamp,
}

impl InboundMail {
    /// Returns our id of the mail.
    ///
    /// It is derived from its time and its `Message-ID`, so that a mail that is posted twice has
    /// the same id.
    #[must_use]
    pub fn id(&self) -> MessageId {
        let digest: [u8; 32] = Sha256::digest(&self.message_id).into();
        let [a, b, c, d, e, f, g, h, i, j, ..] = digest;
        let unique = [0, 0, 0, 0, 0, 0, a, b, c, d, e, f, g, h, i, j];
        MessageId::from_parts(self.at, u128::from_be_bytes(unique))
    }
}

/// Parses the display name and the address in a header such as `Ana Souza <ana@example.com>`.
///
/// Returns `None` if the header has no single valid address.
#[must_use]
pub fn mailbox(text: &str) -> Option<(Option<String>, Email)> {
    let text = text.trim();
    let Some((name, rest)) = text.rsplit_once('<') else {
        return Some((None, Email::new(text).ok()?));
    };
    let address = Email::new(rest.strip_suffix('>')?.trim()).ok()?;
    let name = name.trim().trim_matches('"').trim();
    let name = printable::harmless(name);
    Some(((!name.is_empty()).then(|| name.into_owned()), address))
}

/// Returns the plain text of HTML, for mails without a plain text part, without scripts and styles.
#[must_use]
pub fn text_of_html(html: &str) -> String {
    let (mut text, mut rest) = (String::new(), html);
    while let Some((before, tag)) = rest.split_once('<') {
        text.push_str(before);
        let name: String = tag.chars().take_while(char::is_ascii_alphanumeric).collect();
        let name = name.to_ascii_lowercase();
        let end = match name.as_str() {
            // Their content is no text.
            "script" | "style" => {
                find_ignoring_case(tag, &format!("</{name}")).unwrap_or(tag.len())
            }
            _ => 0,
        };
        rest = tag[end..].split_once('>').map_or("", |(_, rest)| rest);
        if ["br", "p", "div", "tr", "li"].contains(&name.as_str()) {
            text.push('\n');
        }
    }
    text.push_str(rest);
    let text = text.replace("&nbsp;", " ").replace("&lt;", "<").replace("&gt;", ">");
    let text = text.replace("&quot;", "\"").replace("&#39;", "'").replace("&amp;", "&");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

fn find_ignoring_case(text: &str, ascii: &str) -> Option<usize> {
    let (text, ascii) = (text.as_bytes(), ascii.as_bytes());
    text.windows(ascii.len()).position(|part| part.eq_ignore_ascii_case(ascii))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_are_read() {
        let read = |text: &str| mailbox(text).map(|(name, at)| (name, at.as_str().to_owned()));
        let ana = "ana@example.com".to_owned();
        assert_eq!(read("ana@example.com"), Some((None, ana.clone())));
        assert_eq!(read(" <ana@example.com> "), Some((None, ana.clone())));
        for named in ["Ana S <ana@example.com>", "\"Ana S\" <ana@example.com>"] {
            assert_eq!(read(named), Some((Some("Ana S".to_owned()), ana.clone())));
        }
        let odd = read("A\u{1b}na\u{202e} <ana@example.com>").unwrap();
        assert_eq!(odd.0.as_deref(), Some("A\u{fffd}na"));
        for bad in ["", "Ana", "Ana <ana>", "<ana@example.com", "a@b.co, c@d.co"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn html_is_read_as_text() {
        let html = "<style>p{}</style><p>Hi <b>Ana</b>,</p>\n<div>1 &lt; 2&nbsp;&amp; 3<br>ok</div>\
                    <SCRIPT>x<y</Script> end <unclosed";
        assert_eq!(text_of_html(html), "Hi Ana,\n1 < 2 & 3\nok end");
        assert_eq!(text_of_html("plain"), "plain");
    }
}
