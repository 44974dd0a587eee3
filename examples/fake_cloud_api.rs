//! A fake of the Cloud API lets you try `cloud_api` numbers without an account.
//!
//! It stands for the chat-app channel's API: `cargo run --example fake_cloud_api`. It prints
//! everything that it takes, and behaves as it is configured to.

#![allow(clippy::print_stdout, reason = "it talks to a person")]

#[path = "../tests/fake/cloud_api/mod.rs"]
mod cloud_api;

use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;
use cloud_api::{Callbacks, FakeCloudApi, Scripted};

/// Listens on 127.0.0.1, takes every message that is sent, and prints it.
///
/// Without --callback nothing is reported of what it takes.
#[derive(Parser)]
struct Arguments {
    /// The port to listen on; 0 for any that is free.
    #[arg(default_value_t = 9090)]
    port: u16,
    /// Refuse each message with this error code, such as 131026.
    #[arg(long, value_name = "CODE", group = "behaviour")]
    refuse: Option<u32>,
    /// Take each message, and answer that it is held back to assess its quality.
    #[arg(long, group = "behaviour")]
    hold: bool,
    /// Take each message, and drop the connection without an answer.
    #[arg(long, group = "behaviour")]
    lose: bool,
    /// Take each message, and report with this error code that it failed.
    #[arg(long, value_name = "CODE", group = "behaviour", requires = "callback")]
    fail: Option<u32>,
    /// Take each message, and report nothing of it, not even to --callback.
    #[arg(long, group = "behaviour")]
    silent: bool,
    /// Report what becomes of messages to this path, which `numbers connect` shows as CALLBACK.
    #[arg(long, value_name = "PATH")]
    callback: Option<String>,
    /// Where the server listens.
    #[arg(long, default_value = "127.0.0.1:8080")]
    server: SocketAddr,
    /// What callbacks are signed with: the number's app secret.
    #[arg(long, default_value = "s")]
    app_secret: String,
}

impl Arguments {
    /// What becomes of each message, if it is not just taken.
    fn scripted(&self) -> Option<Scripted> {
        match (self.refuse, self.hold, self.lose) {
            (Some(code), ..) => Some(Scripted::Error { status: 400, code }),
            (None, true, _) => Some(Scripted::Held("held_for_quality_assessment")),
            (None, false, true) => Some(Scripted::Lost),
            (None, false, false) => None,
        }
    }

    /// What is reported of each.
    fn callbacks(&self) -> Option<Callbacks> {
        let path = self.callback.clone().filter(|_| !self.silent)?;
        let statuses = match self.fail {
            Some(code) => vec![format!("failed {code}")],
            None => vec!["sent".to_owned(), "delivered".to_owned()],
        };
        Some(Callbacks {
            server: self.server,
            path,
            app_secret: self.app_secret.clone(),
            statuses,
            delay: Duration::from_secs(1),
            times: 1,
        })
    }
}

const HELP: &str = r#"A fake of the Cloud API listens on {url}; Ctrl-C ends it.

1. Start a server that uses it:

     POSTRIDER__CLOUD_API__BASE_URL={url} cargo run

2. Connect a number to the workspace `demo`. Once it is in the pool, messages leave through it and
   not through the sandbox number:

     export POSTRIDER_CHANNEL_TOKEN=t POSTRIDER_CHANNEL_VERIFY_TOKEN=v
     POSTRIDER_CHANNEL_APP_SECRET={secret} postrider numbers connect --workspace demo \
       --kind cloud_api --phone +15550001111 --phone-number-id 106 --account-id 107

   With its callback path, `--callback PATH` has the fake report that messages are delivered;
   `--help` lists what else it does.

3. Send a code:

     curl -X POST http://{server}/v1/otp/send \
       -H "Authorization: Bearer $(cat data/demo.key)" -H 'Content-Type: application/json' \
       -d '{"phone": "+15550123456"}'
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments = Arguments::parse();
    let fake = FakeCloudApi::listen(SocketAddr::from(([127, 0, 0, 1], arguments.port)));
    if let Some(scripted) = arguments.scripted() {
        fake.script(None, scripted, None);
    }
    fake.call_back(arguments.callbacks());
    let help = HELP.replace("{url}", &fake.base_url()).replace("{secret}", &arguments.app_secret);
    println!("{}", help.replace("{server}", &arguments.server.to_string()));
    let (mut shown, mut refused, mut reported) = (0, 0, 0);
    loop {
        let new = usize::try_from(fake.accepted_count() - shown).unwrap_or(usize::MAX);
        shown = fake.accepted_count();
        let accepted = fake.accepted();
        for message in &accepted[accepted.len().saturating_sub(new)..] {
            println!("{}", message.body);
        }
        let requests = fake.requests();
        for request in requests.iter().skip(refused).filter(|_| arguments.refuse.is_some()) {
            println!("refused: {}", String::from_utf8_lossy(&request.body));
        }
        refused = requests.len();
        for status in fake.callback_answers().into_iter().skip(reported) {
            reported += 1;
            println!("a callback was answered {status}");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
