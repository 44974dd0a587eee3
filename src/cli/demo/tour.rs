//! The tour: a code and a broadcast, with their durations.

use std::path::Path;
use std::time::Duration;

use postrider::RunningServer;
use postrider_actors::clock::Stopwatch;
use serde_json::json;

use super::client::{DemoClient, print, text};
use crate::cli::error::CliError;
use crate::cli::output::CommandProgress;

/// The interval between two polls of the server.
const POLL_EVERY: Duration = Duration::from_millis(50);
const PHONE: &str = "+15550123456";

/// Shows a code and a broadcast.
pub(super) async fn show_tour(
    server: &RunningServer,
    directory: &Path,
    recipients: u32,
) -> Result<(), CliError> {
    let api = DemoClient::of(server)?;
    print(&format!(
        "Postrider {} listens on http://{} and stores its data in {}.\nIf this directory is in \
         memory, syncing costs nothing. Every number below is measured now.\n",
        env!("CARGO_PKG_VERSION"),
        server.address(),
        directory.display(),
    ))?;
    if cfg!(debug_assertions) {
        print("This is a debug build: `cargo run --release -- demo` is many times faster.\n")?;
    }
    show_password(&api).await?;
    show_broadcast(&api, recipients).await
}

/// Sends a one-time password, reads it in the sandbox, and verifies it.
async fn show_password(api: &DemoClient) -> Result<(), CliError> {
    print("\nA one-time password\n")?;
    let watch = Stopwatch::start();
    let sent = api.post("/otp/send", &json!({ "phone": PHONE })).await?;
    print(&format!("   sent to {PHONE}: durable and answered in {}\n", milliseconds(&watch)))?;
    let path = format!("/sandbox/messages?to=%2B{}&limit=1", &PHONE[1..]);
    let delivered = api.wait(&path, |found| found.pointer("/data/0").cloned()).await?;
    print(&format!("   the phone shows: {}\n", text(&delivered["text"])))?;
    let verify = json!({ "request_id": sent["request_id"], "otp": delivered["code"] });
    let watch = Stopwatch::start();
    api.post("/otp/verify", &verify).await?;
    print(&format!("   verified, durably, in {}\n", milliseconds(&watch)))?;
    match api.post("/otp/verify", &verify).await {
        Err(CliError::Refused { message, .. }) => {
            print(&format!("   the same code a second time is refused: {message}\n"))
        }
        Err(error) => Err(error),
        Ok(_) => Err(api.unexpected("a code was accepted twice")),
    }
}

/// Sends a broadcast and shows its progress.
async fn show_broadcast(api: &DemoClient, recipients: u32) -> Result<(), CliError> {
    print(&format!("\nA broadcast to {} recipients\n", with_commas(recipients.into())))?;
    let phones: Vec<_> = (0..recipients).map(|number| format!("+1555{number:07}")).collect();
    let new = json!({
        "name": "Demo", "template_name": "spring_sale", "recipients": phones,
    });
    let watch = Stopwatch::start();
    let made = api.post("/messaging/broadcasts", &new).await?;
    let seconds = watch.elapsed().as_secs_f64();
    print(&format!("   checked, stored durably and answered in {seconds:.2} s\n"))?;
    let path = format!("/messaging/broadcasts/{}", text(&made["broadcast_id"]));
    let mut progress = CommandProgress::items(recipients.into());
    let done = loop {
        let now = api.get(&path).await?;
        let pending = now["counts"]["pending"].as_u64().unwrap_or_default();
        let handed_over = u64::from(recipients).saturating_sub(pending);
        progress.at(handed_over, "handed over");
        match text(&now["status"]) {
            "queued" | "sending" => tokio::time::sleep(POLL_EVERY).await,
            _ => break now,
        }
    };
    progress.end();
    let mut counts = String::new();
    for (name, count) in done["counts"].as_object().into_iter().flatten() {
        if let Some(count) = count.as_u64().filter(|count| *count > 0) {
            counts.push_str(&format!(" {} {name}", with_commas(count)));
        }
    }
    let rate = done["rate_per_second"].as_f64().unwrap_or_default();
    print(&format!(
        "   {}:{counts}\n   {:.2} s from its beginning to its end, {} messages a second, each \
         claimed on disk before it left\n",
        text(&done["status"]),
        f64::from(recipients) / rate.max(f64::MIN_POSITIVE),
        with_commas(rate as u64),
    ))?;
    print(
        "   The sandbox runs in this process and answers immediately. A real channel is slower,\n\
         \x20  and by default a number of the Cloud API sends 80 messages a second.\n\
         \nThe demo is over: it stops the server and deletes its directory.\n",
    )
}

fn milliseconds(watch: &Stopwatch) -> String {
    format!("{:.1} ms", watch.elapsed().as_secs_f64() * 1000.0)
}

/// Formats a number with commas between thousands.
fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_have_commas() {
        for (number, shown) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(with_commas(number), shown);
        }
    }
}
