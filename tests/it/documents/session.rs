//! Runs the blocks of each document, one after the other, against a server of their own.

use super::markdown::{Fence, fences};
use super::shell::Shell;
use super::{document, documents, shape};
use crate::fake::FakeCloudApi;
use crate::support::TestServer;

/// Where the documents' server and fake listen.
const SERVER: &str = "http://127.0.0.1:8080";
const FAKE: &str = "http://127.0.0.1:9090";

/// Most times that a block which only reads is run: what is sent arrives after its answer.
const READS_MAX: usize = 200;

/// Blocks that are not run: the document, and how the block begins.
const NOT_RUN: [(&str, &str); 26] = [
    ("README.md", "cargo run --release"),
    ("docs/administration.md", "cargo build --release"),
    ("docs/administration.md", "cargo run --example fake_cloud_api"),
    ("docs/administration.md", "export POSTRIDER_CHANNEL_TOKEN=t"),
    ("docs/cloud-api.md", "cargo run --example fake_cloud_api"),
    ("docs/cloud-api.md", "export POSTRIDER_CHANNEL_TOKEN=…"),
    ("docs/cluster.md", "packaging/cluster-example cluster"),
    ("docs/cluster.md", ". cluster/environment"),
    ("docs/cluster.md", "systemctl stop postrider"),
    ("docs/cluster.md", "kubectl create secret"),
    ("docs/cluster.md", "postrider import --cluster"),
    ("docs/cluster.md", "postrider cluster backup"),
    ("docs/cluster.md", "postrider cluster repair"),
    ("docs/cluster.md", "postrider cluster drain"),
    ("docs/cluster.md", "cargo bench --profile dist -- cluster_"),
    ("docs/comparisons.md", "benches/compare/run"),
    ("docs/email.md", "POSTRIDER__EMAIL__HOST="),
    ("docs/embedding.md", "cargo run -p postrider-actors"),
    ("docs/installing.md", "packaging/build --all dist"),
    ("docs/installing.md", "apt install"),
    ("docs/installing.md", "docker load"),
    ("docs/installing.md", "helm install"),
    ("docs/measurements.md", "cargo bench"),
    ("docs/performance.md", "cargo bench -- --quick otp_send_http"),
    ("docs/settings.md", "POSTRIDER__LIMITS__KEY_REQUESTS_PER_HOUR=0"),
    ("docs/testing.md", "tests/run"),
];

/// A block, and the one after it that shows what it prints.
struct Step {
    block: Fence,
    shown: Option<Fence>,
}

impl Step {
    /// Whether it changes nothing, so that it may be run again.
    fn only_reads(&self) -> bool {
        let writes = ["--json", "--data", " -d", " -X", "postrider", "cargo"];
        !writes.iter().any(|word| self.block.text.contains(word))
    }

    fn run(&self, shell: &mut Shell, replaced: &[(&str, &str)]) -> Result<(), String> {
        let mut script = self.block.text.clone();
        for (from, to) in replaced {
            script = script.replace(from, to);
        }
        let tries = if self.only_reads() { READS_MAX } else { 1 };
        let shown = self.shown.as_ref();
        let shows_error = shown.is_some_and(|shown| shown.text.contains("\"error\": \""));
        let mut once = || {
            let came = shell.run(&script, shows_error)?;
            shown.map_or(Ok(()), |shown| shape::compare(shown, &came))
        };
        let mut outcome = once();
        for _ in 1..tries {
            if outcome.is_ok() {
                break;
            }
            outcome = once();
        }
        outcome
    }
}

/// The blocks of a document that are run.
fn steps(text: &str) -> Vec<Step> {
    let fences = fences(text);
    let is_run = |block: &Fence| block.language == "sh" && block.not_run.is_none();
    let runs = fences.iter().enumerate().filter(|(_, block)| is_run(block));
    let shown = |at: usize| {
        let next = fences.get(at + 1).filter(|next| next.follows);
        next.filter(|next| matches!(next.language.as_str(), "json" | "text")).cloned()
    };
    runs.map(|(at, block)| Step { block: block.clone(), shown: shown(at) }).collect()
}

/// Runs a document on a sandbox with these settings beside.
async fn run(name: &str, settings: &[(&str, &str)], replaced: &[(&str, &str)]) {
    let steps = steps(&document(name).text);
    assert!(!steps.is_empty(), "{name} shows nothing that can be run");
    // Blocks that wait for something ask more often than a person.
    let unlimited = [("LIMITS__KEY_REQUESTS_PER_HOUR", "0")];
    let server = TestServer::with(&[&unlimited[..], settings].concat()).await;
    let directory = server.data_dir().parent().unwrap().to_owned();
    let address = format!("http://{}", server.address());
    let mut shell = Shell::start(&directory, &address);
    let replaced = [&[(SERVER, address.as_str())][..], replaced].concat();
    for step in steps {
        if let Err(why) = step.run(&mut shell, &replaced) {
            panic!("{name}:{}: {why}", step.block.line);
        }
    }
}

#[tokio::test]
async fn the_readme_does_what_it_shows() {
    let replaced = [("cargo run --release -- demo", "postrider demo --recipients 1500")];
    run("README.md", &[], &replaced).await;
}

#[tokio::test]
async fn the_tour_of_the_api_does_what_it_shows() {
    run("docs/api-tour.md", &[], &[]).await;
}

#[tokio::test]
async fn the_first_steps_do_what_they_show() {
    run("docs/first-steps.md", &[], &[]).await;
}

#[tokio::test]
async fn administration_does_what_it_shows() {
    run("docs/administration.md", &[], &[]).await;
}

#[tokio::test]
async fn a_number_of_the_cloud_api_does_what_is_shown() {
    let fake = FakeCloudApi::start();
    let url = fake.base_url();
    run("docs/cloud-api.md", &[("CLOUD_API__BASE_URL", &url)], &[(FAKE, &url)]).await;
}

#[tokio::test]
async fn mail_does_what_is_shown() {
    // A reply is answered before the mail server is asked; nobody listens there.
    let settings = [
        ("EMAIL__HOST", "127.0.0.1"),
        ("EMAIL__PORT", "9"),
        ("EMAIL__TLS", "none"),
        ("EMAIL__FROM", "help@example.com"),
    ];
    run("docs/email.md", &settings, &[]).await;
}

#[tokio::test]
async fn backups_do_what_they_show() {
    run("docs/backups.md", &[], &[]).await;
}

#[test]
fn what_is_not_run_is_listed_here_and_says_why() {
    let mut found = Vec::new();
    let mut count = 0;
    for document in documents() {
        for block in fences(&document.text).into_iter().filter(|it| it.language == "sh") {
            count += 1;
            if let Some(reason) = block.not_run {
                assert!(reason.len() > 10, "{}:{} says not why", document.name, block.line);
                found.push((document.name.clone(), block.text));
            }
        }
    }
    assert!(count > 40, "only {count} blocks were found");
    assert_eq!(found.len(), NOT_RUN.len(), "{found:#?}");
    for ((name, text), (listed, begins)) in found.iter().zip(NOT_RUN) {
        assert!(name == listed && text.starts_with(begins), "{name} does not run:\n{text}");
    }
}

#[test]
fn every_document_with_blocks_to_run_is_run_here() {
    let run = [
        "README.md",
        "api-tour.md",
        "first-steps.md",
        "administration.md",
        "backups.md",
        "cloud-api.md",
        "email.md",
    ];
    for document in documents() {
        let is_run = run.iter().any(|name| document.name.ends_with(name));
        assert_eq!(!steps(&document.text).is_empty(), is_run, "{}", document.name);
    }
}

#[test]
fn every_output_belongs_to_a_block_that_is_run() {
    for document in documents() {
        let fences = fences(&document.text);
        let outputs = fences.iter().enumerate().filter(|(_, it)| it.language == "json");
        for (at, output) in outputs {
            let before = at.checked_sub(1).map(|before| &fences[before]);
            let is_run = before.is_some_and(|it| it.language == "sh" && it.not_run.is_none());
            assert!(output.follows && is_run, "{}:{}", document.name, output.line);
        }
    }
}
