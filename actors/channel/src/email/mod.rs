//! E-mail: received mail in the form that mail services post, and sending mail by SMTP.

pub mod inbound;

use std::time::Duration;

use lettre::address::Envelope;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::response::Response;
use postrider_domain::Email;
use postrider_runtime::Secret;
use rustls::pki_types::CertificateDer;
use tokio::time::timeout;

/// The reason when the server does not answer in time.
const NO_ANSWER: &str = "the mail server does not answer";

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

/// The outcome of one attempt to send a mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mailed {
    /// The server accepted it.
    Sent,
    /// The server refused it permanently, with this reason.
    Failed(String),
    /// The mail certainly was not accepted, for this reason, and must be sent again after a wait.
    Retry(String),
    /// The mail may have been accepted: no answer arrived, for this reason.
    ///
    /// It must not be sent again.
    Unknown(String),
}

type SmtpError = lettre::transport::smtp::Error;

/// Sends a mail over a new connection. The caller must retry after [`Mailed::Retry`].
pub async fn hand_over(options: &MailOptions, mail: &OutgoingMail) -> Mailed {
    let message = match message(options, mail) {
        Ok(message) => message,
        Err(why) => return Mailed::Failed(why),
    };
    // Nothing of the mail is sent before the connection is ready, so a failure can be retried.
    let mut connection = match connect(options).await {
        Ok(connection) => connection,
        Err(why) => {
            tracing::warn!(%why, "the mail server cannot be used: mails wait");
            return Mailed::Retry(why);
        }
    };
    let formatted = message.formatted();
    let sending = timeout(options.timeout, connection.send(message.envelope(), &formatted));
    let mailed = sending.await.map_or_else(|_| Mailed::Unknown(NO_ANSWER.to_owned()), outcome);
    if mailed == Mailed::Sent {
        // The server has the mail, whether or not it answers `QUIT`.
        drop(timeout(options.timeout, connection.quit()).await);
    }
    mailed
}

async fn connect(options: &MailOptions) -> Result<AsyncSmtpConnection, String> {
    let MailOptions { host, port, tls, login, timeout, .. } = options;
    let hello = ClientId::default();
    let parameters = match tls {
        MailTls::None => None,
        MailTls::StartTls | MailTls::Tls => {
            Some(encryption(options).map_err(|error| error.to_string())?)
        }
    };
    let (at_once, later) = match tls {
        MailTls::StartTls => (None, parameters),
        MailTls::None | MailTls::Tls => (parameters, None),
    };
    let server = (host.as_str(), *port);
    let connecting =
        AsyncSmtpConnection::connect_tokio1(server, Some(*timeout), &hello, at_once, None);
    let mut connection = step(options, connecting).await?;
    if let Some(parameters) = later {
        step(options, connection.starttls(parameters, &hello)).await?;
    }
    if let Some((user, password)) = login {
        let credentials = Credentials::new(user.clone(), password.reveal().to_owned());
        step(options, connection.auth(DEFAULT_MECHANISMS, &credentials)).await?;
    }
    Ok(connection)
}

/// Returns the TLS parameters: the trusted certificates, and the name that the server must prove.
fn encryption(options: &MailOptions) -> Result<TlsParameters, SmtpError> {
    let mut builder = TlsParameters::builder(options.host.clone());
    for root in &options.extra_roots {
        builder = builder.add_root_certificate(Certificate::from_der(root.to_vec())?);
    }
    builder.build()
}

fn message(options: &MailOptions, mail: &OutgoingMail) -> Result<Message, String> {
    let address = |text: &str| text.parse().map_err(|_| "an address cannot be used".to_owned());
    let from = address(options.from.as_str())?;
    let to = address(mail.to.as_str())?;
    let envelope = Envelope::new(Some(Clone::clone(&from)), vec![Clone::clone(&to)]);
    let mut builder = Message::builder()
        .from(Mailbox::new(options.from_name.clone(), from))
        .to(Mailbox::new(None, to))
        .subject(mail.subject.clone())
        .message_id(Some(mail.message_id.clone()))
        .header(ContentType::TEXT_PLAIN)
        .envelope(envelope.map_err(|error| error.to_string())?);
    if mail.is_automatic {
        let name = HeaderName::new_from_ascii_str("Auto-Submitted");
        builder = builder.raw_header(HeaderValue::new(name, "auto-generated".to_owned()));
    }
    if let Some(in_reply_to) = &mail.in_reply_to {
        builder = builder.in_reply_to(in_reply_to.clone());
    }
    if !mail.references.is_empty() {
        builder = builder.references(mail.references.join(" "));
    }
    builder.body(mail.text.clone()).map_err(|error| error.to_string())
}

/// Waits for one step of the session, at most for the timeout.
async fn step<T>(
    options: &MailOptions,
    step: impl Future<Output = Result<T, SmtpError>>,
) -> Result<T, String> {
    match timeout(options.timeout, step).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(_) => Err(NO_ANSWER.to_owned()),
    }
}

fn outcome(sent: Result<Response, SmtpError>) -> Mailed {
    match sent {
        Ok(_) => Mailed::Sent,
        Err(error) if error.is_permanent() => Mailed::Failed(error.to_string()),
        Err(error) if error.is_transient() => Mailed::Retry(error.to_string()),
        Err(error) => Mailed::Unknown(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_has_its_headers_and_no_others() {
        let options = MailOptions {
            host: "h".to_owned(),
            port: 25,
            tls: MailTls::None,
            extra_roots: Vec::new(),
            login: None,
            from: Email::new("help@example.com").unwrap(),
            from_name: Some("Acme".to_owned()),
            timeout: Duration::from_secs(1),
        };
        let mail = OutgoingMail {
            to: Email::new("ana@example.com").unwrap(),
            subject: "Re: Größe\r\nBcc: eve@example.com".to_owned(),
            text: "Yes.\n.\né".to_owned(),
            message_id: "<msg_1@example.com>".to_owned(),
            in_reply_to: Some("<b@x>".to_owned()),
            references: vec!["<a@x>".to_owned(), "<b@x>".to_owned()],
            is_automatic: true,
        };
        let text = String::from_utf8(message(&options, &mail).unwrap().formatted()).unwrap();
        for line in [
            "From: Acme <help@example.com>",
            "To: ana@example.com",
            "Message-ID: <msg_1@example.com>",
            "In-Reply-To: <b@x>",
            "Auto-Submitted: auto-generated",
            "References: <a@x> <b@x>",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in {text}");
        }
        assert!(!text.lines().any(|line| line.starts_with("Bcc")), "{text}");
    }
}
