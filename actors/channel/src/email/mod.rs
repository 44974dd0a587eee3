//! E-mail: received mail in the form that mail services post, and sending mail by SMTP.

pub mod inbound;
mod smtp;

use std::time::Duration;

use rustls::pki_types::CertificateDer;

use postrider_domain::Email;
use postrider_runtime::Secret;

pub use smtp::{Mailed, hand_over};

/// The encryption of the connection to the mail server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailTls {
    /// Not encrypted: for a server on this machine.
    None,
    /// Encrypted after `STARTTLS`, which the server must offer.
    StartTls,
    /// Encrypted from the first byte.
    Tls,
}

/// The mail server through which mail is sent.
#[derive(Debug, Clone)]
pub struct MailOptions {
    /// The server's name or address.
    pub host: String,
    /// The server's port.
    pub port: u16,
    /// The encryption of the connection.
    pub tls: MailTls,
    /// Root certificates that are trusted besides those of the system.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// User and password, if the server requires them.
    pub login: Option<(String, Secret)>,
    /// The sender's address.
    pub from: Email,
    /// The sender's display name.
    pub from_name: Option<String>,
    /// The longest wait for each step of the SMTP session.
    pub timeout: Duration,
}

/// A mail that is ready to be sent.
#[derive(Clone)]
pub struct OutgoingMail {
    /// The recipient.
    pub to: Email,
    /// Its subject.
    pub subject: String,
    /// Its plain text.
    pub text: String,
    /// Its `Message-ID`, in angle brackets.
    pub message_id: String,
    /// The `Message-ID` of the mail that it answers.
    pub in_reply_to: Option<String>,
    /// The `Message-ID`s of the earlier mails of the thread, oldest first.
    pub references: Vec<String>,
    /// Set if no person wrote it (RFC 3834).
    pub is_automatic: bool,
}
