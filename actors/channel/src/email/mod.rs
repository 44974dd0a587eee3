//! E-mail: what mail services post of received mail, and handing mail over by SMTP.

pub mod inbound;
mod smtp;

use std::time::Duration;

use rustls::pki_types::CertificateDer;

use postrider_domain::Email;
use postrider_runtime::Secret;

pub use smtp::{Mailed, hand_over};

/// How the connection to the mail server is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailTls {
    /// Not at all: for a server on this machine.
    None,
    /// After `STARTTLS`, which the server must offer.
    StartTls,
    /// From the first byte.
    Tls,
}

/// The mail server that mail leaves through.
#[derive(Debug, Clone)]
pub struct MailOptions {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the connection is encrypted.
    pub tls: MailTls,
    /// Certificates that are trusted beside those of the system.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// User and password, if it wants them.
    pub login: Option<(String, Secret)>,
    /// Where mail comes from.
    pub from: Email,
    /// The name beside that address.
    pub from_name: Option<String>,
    /// Longest wait for each step.
    pub timeout: Duration,
}

/// A mail on its way out.
#[derive(Clone)]
pub struct OutgoingMail {
    /// Who gets it.
    pub to: Email,
    /// Its subject.
    pub subject: String,
    /// Its plain text.
    pub text: String,
    /// Its `Message-ID`, in angle brackets.
    pub message_id: String,
    /// The `Message-ID` of what it answers.
    pub in_reply_to: Option<String>,
    /// Those of the mails before it, oldest first.
    pub references: Vec<String>,
}
