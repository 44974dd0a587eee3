//! Copies of the contents of files, by the real commands.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::copies::{Place, done, text};
use super::process::Process;
use crate::support::Api;

fn demo(process: &Process, data: &Path) -> Api {
    let key = std::fs::read_to_string(data.join("demo.key")).unwrap();
    Api::new(&Arc::new(Mutex::new(process.address())), Some(key.trim()))
}

/// Files, and their contents.
type Files = HashMap<String, Vec<u8>>;

async fn upload(api: &Api, files: &mut Files, content: Vec<u8>) -> String {
    let made = api.call("POST", "/v1/media", &[("Content-Type", "text/plain")], &content).await;
    assert_eq!(made.status, 201);
    let made = made.json();
    files.insert(made["media_id"].as_str().unwrap().to_owned(), content);
    made["sha256"].as_str().unwrap().to_owned()
}

/// Checks the files of a directory through a server on it.
async fn check(data: &Path, files: &Files, damaged: Option<&[u8]>) {
    let process = Process::start(data);
    let api = demo(&process, data);
    for (id, content) in files {
        let known = api.get(&format!("/v1/media/{id}")).await.ok();
        assert_eq!((&known["state"], &known["size"]), (&json!("ready"), &json!(content.len())));
        let got = api.get(&format!("/v1/media/{id}/content")).await;
        match damaged == Some(content) {
            true => drop(got.check(404, "NOT_FOUND")),
            false => assert!(got.body == *content, "{id} is another one"),
        }
    }
    process.kill();
}

fn place_of(dir: &Path, sha256: &str) -> PathBuf {
    dir.join("media").join(&sha256[..2]).join(sha256)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_in_a_backup_and_in_what_is_restored_of_it() {
    let place = Place::new();
    let (data, backup) = (place.at("data"), place.at("backup"));
    let process = Process::start(&data);
    let (api, mut files) = (demo(&process, &data), Files::new());
    let one = upload(&api, &mut files, b"one".to_vec()).await;
    // The same content twice is stored once.
    upload(&api, &mut files, b"one".to_vec()).await;
    upload(&api, &mut files, (0..700_000_u32).map(|at| at.to_le_bytes()[1]).collect()).await;
    let (server, token) = (format!("http://{}", process.address()), data.join("admin.token"));
    let running = ["backup", "--to", text(&backup), "--server", &server];
    let running = [&running[..], &["--token-file", text(&token)]].concat();
    let media = |files: u64, copied: u64, bytes: u64, damaged: Value| json!({"files": files, "copied": copied, "copied_bytes": bytes, "damaged": damaged});
    assert_eq!(done(&running)["media"], media(2, 2, 700_003, json!([])));
    let two = upload(&api, &mut files, b"two".to_vec()).await;
    // Damaged content is reported and left out, and everything else is copied.
    std::fs::write(place_of(&data, &two), b"tw0").unwrap();
    assert_eq!(done(&running)["media"], media(2, 0, 0, json!([two])));
    // The same holds for content that can be opened but not read.
    std::fs::remove_file(place_of(&data, &two)).unwrap();
    std::fs::create_dir(place_of(&data, &two)).unwrap();
    assert_eq!(done(&running)["media"], media(2, 0, 0, json!([two])));
    std::fs::remove_dir(place_of(&data, &two)).unwrap();
    std::fs::write(place_of(&data, &two), b"two").unwrap();
    process.kill();
    let stopped = ["backup", "--to", text(&backup), "--data-dir", text(&data)];
    assert_eq!(done(&stopped)["media"], media(3, 1, 3, json!([])));

    let restored = place.with_keys_of("restored", &data);
    let restore = ["restore", "--from", text(&backup), "--data-dir", text(&restored)];
    assert_eq!(done(&restore)["media"], media(3, 3, 700_006, json!([])));
    check(&restored, &files, None).await;
    std::fs::write(place_of(&backup, &one), b"0ne").unwrap();
    let again = place.with_keys_of("again", &data);
    let restore = ["restore", "--from", text(&backup), "--data-dir", text(&again)];
    assert_eq!(done(&restore)["media"], media(2, 2, 700_003, json!([one])));
    check(&again, &files, Some(b"one")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_says_that_files_are_not_in_it_and_where_they_are() {
    let place = Place::new();
    let (data, archive, media) = (place.at("data"), place.at("all.archive"), place.at("files"));
    let process = Process::start(&data);
    let (api, mut files) = (demo(&process, &data), Files::new());
    let export = ["export", "--to", text(&archive), "--data-dir", text(&data)];
    upload(&api, &mut files, b"one".to_vec()).await;
    process.kill();
    assert_eq!(done(&export)["media"], json!({"left_out": 1}));
    let with = done(&[&export[..], &["--media", text(&media)]].concat());
    assert_eq!((&with["media"]["files"], &with["media"]["copied_bytes"]), (&json!(1), &json!(3)));
    let target = place.with_keys_of("imported", &data);
    let import = ["import", "--from", text(&archive), "--data-dir", text(&target)];
    let import = [&import[..], &["--media", text(&media)]].concat();
    assert_eq!(done(&import)["media"]["copied"], 1);
    check(&target, &files, None).await;
    let none = place.with_keys_of("without", &data);
    let import = ["import", "--from", text(&archive), "--data-dir", text(&none)];
    assert_eq!(done(&import)["media"]["files"], 0);
    check(&none, &files, Some(b"one")).await;
}
