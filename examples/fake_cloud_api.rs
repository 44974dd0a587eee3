//! A fake of the Cloud API lets you try `cloud_api` numbers without an account.
//!
//! It stands for the chat-app channel's API: `cargo run --example fake_cloud_api`. It takes
//! everything that is sent and prints it.

#![allow(clippy::print_stdout, reason = "it talks to a person")]

#[path = "../tests/fake/cloud_api/mod.rs"]
mod cloud_api;

use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;
use cloud_api::FakeCloudApi;

/// Listens on 127.0.0.1, takes every message that is sent, and prints it.
#[derive(Parser)]
struct Arguments {
    /// The port to listen on; 0 for any that is free.
    #[arg(default_value_t = 9090)]
    port: u16,
}

const HELP: &str = r#"A fake of the Cloud API listens on {url}; Ctrl-C ends it.

1. Start a server that uses it:

     POSTRIDER__CLOUD_API__BASE_URL={url} cargo run

2. Connect a number to the workspace `demo`. Messages leave through the oldest number, so take
   the sandbox number away (`postrider numbers list -w demo`, `postrider numbers disconnect …`):

     curl -X POST http://127.0.0.1:8080/admin/v1/workspaces/demo/numbers \
       -H "Authorization: Bearer $(cat data/admin.token)" -H 'Content-Type: application/json' \
       -d '{"kind": "cloud_api", "phone": "+15550001111", "phone_number_id": "106",
            "account_id": "107", "token": "t", "app_secret": "s", "verify_token": "v"}'

3. Send a code:

     curl -X POST http://127.0.0.1:8080/v1/otp/send \
       -H "Authorization: Bearer $(cat data/demo.key)" -H 'Content-Type: application/json' \
       -d '{"phone": "+15550123456"}'
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let Arguments { port } = Arguments::parse();
    let fake = FakeCloudApi::listen(SocketAddr::from(([127, 0, 0, 1], port)));
    println!("{}", HELP.replace("{url}", &fake.base_url()));
    let mut shown = 0;
    loop {
        let new = usize::try_from(fake.accepted_count() - shown).unwrap_or(usize::MAX);
        shown = fake.accepted_count();
        let accepted = fake.accepted();
        for message in &accepted[accepted.len().saturating_sub(new)..] {
            println!("{}", message.body);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
