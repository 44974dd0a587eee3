//! `postrider otp list` and `postrider messages list` print the rows of a workspace.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::{Api, TestServer};

fn run(server: &TestServer, api: &Api, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    command.args(line.split_whitespace()).env("POSTRIDER_API_KEY", api.token());
    command.args(["--server", &format!("http://{}", server.address())]);
    command.output().unwrap()
}

fn shown(server: &TestServer, api: &Api, line: &str) -> String {
    let output = run(server, api, line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn answer(server: &TestServer, api: &Api, line: &str) -> Value {
    serde_json::from_str(&shown(server, api, &format!("{line} --json"))).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_lists_codes_and_messages() {
    let server = TestServer::start().await;
    let (api, other) = (server.demo(), server.workspace("other").await);
    for number in 0..3 {
        let body = json!({"phone": format!("+1555012000{number}"), "reference": "order & 1"});
        api.post("/v1/otp/send", body).await.ok();
        server.advance(1).await;
        let template = json!({"name": "welcome"});
        let body = json!({"to": "+15550120000", "type": "template", "template": template});
        api.post("/v1/messaging/send", body).await.ok();
        server.advance(1).await;
    }
    for (line, path) in [("otp list", "/v1/otp"), ("messages list", "/v1/messaging/messages")] {
        let all = api.get(path).await.ok();
        assert_eq!(answer(&server, &api, line), all, "{line}");
        assert_eq!(answer(&server, &other, line)["data"], json!([]), "{line}");
        let first = answer(&server, &api, &format!("{line} --limit 2"));
        assert_eq!(first["data"].as_array().unwrap()[..], all["data"].as_array().unwrap()[..2]);
        let cursor = first["next_cursor"].as_str().unwrap();
        let rest = answer(&server, &api, &format!("{line} --cursor {cursor}"));
        assert_eq!(rest["data"].as_array().unwrap()[..], all["data"].as_array().unwrap()[2..]);
        let until = all["data"][0]["created_at"].as_str().unwrap();
        let older = answer(&server, &api, &format!("{line} --until {until}"));
        assert_eq!(older["data"].as_array().unwrap().len(), 2, "{line}");
        let wrong =
            run(&server, &api, &format!("{line} --since {until} --until 1999-01-01T00:00:00Z"));
        let message = String::from_utf8_lossy(&wrong.stderr).into_owned();
        assert!(!wrong.status.success() && message.contains("until"), "{message}");
    }
    let table = shown(&server, &api, "otp list --phone +15550120001");
    let lines: Vec<_> = table.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("ID ") && lines[1].contains("+15550120001"));
    for (line, expected) in [
        ("otp list --status active --channel messaging", 3),
        ("otp list --status verified", 0),
        ("otp list --reference order", 0),
        ("otp decisions --prefix 1 --decision would_refuse", 0),
        ("messages list --to +15550120000 --type template --template welcome", 3),
        ("messages list --type text", 0),
    ] {
        let found = answer(&server, &api, line);
        assert_eq!(found["data"].as_array().unwrap().len(), expected, "{line}");
    }
}
