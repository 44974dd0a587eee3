//! A fake SMS gateway lets you try codes that go over several channels.
//!
//! `cargo run --example sms_gateway`. It checks what signs each request, prints the text, and
//! answers and reports as it is configured to.

#![allow(clippy::print_stdout, reason = "it talks to a person")]

#[path = "../tests/fake/sms_gateway/mod.rs"]
mod sms_gateway;

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use sms_gateway::{Answer, Receipts, SmsGateway};

/// Listens on 127.0.0.1, and prints every SMS.
#[derive(Parser)]
struct Arguments {
    /// The port to listen on.
    #[arg(long, default_value_t = 9095)]
    port: u16,
    /// The secret that `sms set` showed. It signs receipts; without it no signature is checked.
    #[arg(long, required_if_eq_any([("receipt", "delivered"), ("receipt", "failed")]))]
    secret: Option<String>,
    /// How each SMS is answered.
    #[arg(long, value_enum, default_value = "delivered")]
    answer: Kind,
    /// The error code of SMS that are refused, or reported as failed.
    #[arg(long, default_value_t = 30007)]
    code: u32,
    /// What a receipt says of SMS that are answered with `sent`, `lost` or `hang`.
    #[arg(long, value_enum)]
    receipt: Option<Receipt>,
    /// How long after its SMS a receipt comes.
    #[arg(long, default_value_t = 2, value_name = "SECONDS")]
    delay: u64,
    /// Where the server listens.
    #[arg(long, default_value = "127.0.0.1:8080")]
    server: SocketAddr,
    /// Whose gateway it is.
    #[arg(long, default_value = "demo")]
    workspace: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// It was taken, and has arrived.
    Delivered,
    /// It was taken.
    Sent,
    /// It is refused.
    Refused,
    /// It cannot be taken now.
    Unavailable,
    /// It is taken, and the connection is dropped without an answer.
    Lost,
    /// It is taken, and no answer ever comes.
    Hang,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Receipt {
    /// It has arrived.
    Delivered,
    /// It could not be delivered.
    Failed,
}

impl Arguments {
    fn answer(&self) -> Answer {
        match self.answer {
            Kind::Delivered => Answer::Delivered,
            Kind::Sent => Answer::Sent,
            Kind::Refused => Answer::Refused(self.code),
            Kind::Unavailable => Answer::Unavailable,
            Kind::Lost => Answer::Lost,
            Kind::Hang => Answer::Hang,
        }
    }

    fn receipts(&self) -> Option<Receipts> {
        Some(Receipts {
            server: self.server,
            path: format!("/channels/sms/{}", self.workspace),
            secret: self.secret.clone()?,
            failed: (self.receipt? == Receipt::Failed).then_some(self.code),
            delay: Duration::from_secs(self.delay),
            times: 1,
        })
    }
}

const HELP: &str = r#"An SMS gateway listens on {url}; Ctrl-C ends it. Have the workspace `{workspace}` use it:

     postrider sms set --workspace {workspace} --url {url} --sender Demo

and send a code over it:

     curl -X POST http://{server}/v1/otp/send \
       -H "Authorization: Bearer $(cat data/demo.key)" -H 'Content-Type: application/json' \
       -d '{"phone": "+15550123456", "channels": ["sms", "messaging"]}'
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments = Arguments::parse();
    let gateway = SmsGateway::listen(SocketAddr::from(([127, 0, 0, 1], arguments.port)));
    if let Some(secret) = &arguments.secret {
        gateway.verify_with(secret);
    }
    gateway.answer(None, arguments.answer());
    gateway.report(arguments.receipts());
    let help = HELP.replace("{url}", &gateway.url()).replace("{workspace}", &arguments.workspace);
    println!("{}", help.replace("{server}", &arguments.server.to_string()));
    let (mut sms, mut receipts) = (0, 0);
    loop {
        for it in gateway.received().into_iter().skip(sms) {
            sms += 1;
            match it.is_signed {
                true => println!("{} to {}, time {}: {}", it.id, it.to, it.time, it.text),
                false => println!("{}: wrongly signed", it.id),
            }
        }
        for status in gateway.receipt_answers().into_iter().skip(receipts) {
            receipts += 1;
            println!("a receipt was answered {status}");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
