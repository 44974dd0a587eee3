//! The engine without HTTP: sends a one-time password through the sandbox, verifies it, stops.
//!
//! `cargo run -p postrider-actors --example embed`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::time::Duration;

use postrider_actors::{Engine, EngineOptions, MasterKeys, SendOtp, Verification, random};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Keep the master key somewhere safe: codes on their way are derived with it.
    let master_keys = MasterKeys::single(random::bytes());
    // `EngineOptions::on_disk(dir, …)` is the durable one.
    let engine = Engine::start(EngineOptions::in_memory(master_keys)).await?;

    let id = "acme".parse()?;
    engine.admin().create_workspace(id, "Acme".to_owned()).await?;
    let id = "acme".parse()?;
    engine.admin().set_credits(&id, 100).await?;
    engine.admin().connect_sandbox_number(&id).await?;
    let acme = engine.workspace(&id).ok_or("the workspace was just made")?;

    let phone = "+15550123456".parse()?;
    let sent = acme.send_otp(SendOtp::to(phone)).await?;
    println!("sent {}, valid until {}", sent.request_id, sent.expires_at);

    // A user reads the code on the phone; here the sandbox shows it.
    let code = loop {
        let messages = engine.sandbox().messages(&id, Some(phone), 1);
        match messages.into_iter().next().and_then(|message| message.code) {
            Some(code) => break code,
            None => tokio::task::yield_now().await,
        }
    };
    let verification = acme.verify_otp(sent.request_id, &code).await?;
    assert_eq!(verification, Verification::Verified);
    println!("verified");

    for entry in acme.events(0, 10, None).await?.entries {
        println!("{} {} {}", entry.sequence, entry.event.kind(), entry.event.data());
    }
    engine.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
