//! `postrider contacts import` and `export`, run as commands.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use postrider_actors::clock::Stopwatch;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::contacts::{UNLIMITED, make, path};
use crate::support::{Api, TestServer, eventually};

/// A directory for files, and the command.
pub(super) struct Desk {
    dir: TempDir,
    server: String,
    key: String,
}

impl Desk {
    pub(super) fn new(server: String, api: &Api) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), server, key: api.token().to_owned() }
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(self.file(name), content).unwrap();
        self.file(name)
    }

    fn start(&self, args: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
        command.arg("contacts").args(args).args(["--server", &self.server]);
        command.env("POSTRIDER_API_KEY", &self.key).current_dir(self.dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Runs the command to its end.
    pub(super) async fn run(&self, args: &[&str]) -> Ran {
        ended(self.start(args)).await
    }
}

/// The result of a command.
pub(super) struct Ran {
    pub(super) good: bool,
    stdout: String,
    stderr: String,
}

impl Ran {
    #[track_caller]
    fn ok(self) -> Self {
        assert!(self.good, "{}", self.stderr);
        self
    }

    #[track_caller]
    pub(super) fn says(&self, what: &str) {
        assert!(self.stderr.contains(what), "{what} is not in: {}", self.stderr);
    }
}

async fn ended(child: Child) -> Ran {
    let waiting = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap());
    let Output { status, stdout, stderr } = waiting.await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { good: status.success(), stdout: text(stdout), stderr: text(stderr) }
}

/// Returns lines of contacts, of which each second one has a phone.
fn lines(count: usize) -> String {
    let mut text = "name,phone,email,tags,custom.plan\n".to_owned();
    for number in 0..count {
        let phone = if number % 2 == 0 { format!("+1555{number:07}") } else { String::new() };
        writeln!(text, "n{number},{phone},n{number}@example.com,a;b,gold").unwrap();
    }
    text
}

pub(super) async fn total(api: &Api) -> u64 {
    api.get("/v1/contacts?limit=1").await.ok()["total"].as_u64().unwrap()
}

/// Returns every contact, oldest first.
pub(super) async fn all(api: &Api) -> Vec<Value> {
    let mut all = Vec::new();
    for page in 1.. {
        let listed = api.get(&format!("/v1/contacts?limit=200&page={page}")).await.ok();
        let rows = listed["data"].as_array().unwrap();
        all.extend(rows.iter().cloned());
        if rows.len() < 200 {
            break;
        }
    }
    all.reverse();
    all
}

/// Checks that each line became one contact, in order.
async fn check_all_once(api: &Api, count: usize) {
    let all = all(api).await;
    let names: Vec<_> = all.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect();
    assert!(names == (0..count).map(|number| format!("n{number}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_file_is_imported_and_its_bad_lines_are_reported() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    make(&api, json!({"name": "there", "phone": "+15550000001"})).await;
    let desk = Desk::new(format!("http://{}", server.address()), &api);
    let file = "\u{feff}Name,phone,email,tags,custom_fields,custom.plan\r\n\
                \"Souza, \"\"Ana\"\"\",+15550123456,ana@example.com,vip;b2b,\"{\"\"n\"\":[1]}\",gold\r\n\
                Bo,,,,,\r\n\
                taken,+15550000001,,,,\r\n\
                Cy,0049,,,,\r\n\
                ,+15550123457,,,,\r\n\
                Di,+15550123458,di,,,\r\n\
                Ed,+15550123459,,,[],\r\n\
                short,+15550123459\r\n\
                \r\n\
                Fe,+15550123459,,,,\r\n";
    desk.write("people.csv", file);
    let ran = desk.run(&["import", "people.csv", "--refused", "bad.csv"]).await;
    assert!(!ran.good);
    for said in [
        "line 4: phone: another contact has this phone",
        "line 5: phone: must be",
        "line 6: name: is missing",
        "line 7: email: must be an e-mail address",
        "line 8: custom_fields: must be a JSON object",
        "line 9: it has 2 cells, and the first line has 6",
        "3 contacts created, 6 lines refused",
        "postrider: 6 lines were refused",
    ] {
        ran.says(said);
    }
    let bad = std::fs::read_to_string(desk.file("bad.csv")).unwrap();
    let bad: Vec<_> = bad.lines().collect();
    assert_eq!(bad[0], "line,field,reason");
    let numbers: Vec<_> = bad[1..].iter().map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(numbers, ["4", "5", "6", "7", "8", "9"]);
    let made = all(&api).await;
    assert_eq!(made.len(), 4);
    assert_eq!(made[1]["name"], "Souza, \"Ana\"");
    assert_eq!(made[1]["tags"], json!(["vip", "b2b"]));
    assert_eq!(made[1]["custom_fields"], json!({"n": [1], "plan": "gold"}));
    assert_eq!(made[2]["phone"], Value::Null);
    let again = desk.run(&["import", "people.csv"]).await;
    again.says("was imported before; remove people.csv.import");
    assert_eq!(total(&api).await, 4, "a second import of the same file adds nothing");
    for (content, said) in [
        ("phone\n+15550000009\n", "`name` must be one of them"),
        ("name,telefon\nA,1\n", "unknown column `telefon`"),
        ("", "must name the columns"),
    ] {
        desk.write("odd.csv", content);
        let ran = desk.run(&["import", "odd.csv"]).await;
        assert!(!ran.good);
        ran.says(said);
        assert!(!desk.file("odd.csv.import").exists(), "it was not begun");
    }
    desk.run(&["import", "none.csv"]).await.says("none.csv: No such file");
}

#[tokio::test]
async fn a_file_is_never_written_over_by_its_report() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    let desk = Desk::new(format!("http://{}", server.address()), &api);
    let content = "name,phone\nA,+15559990021\n,+15559990022\nC,+15559990023\n";
    desk.write("same.csv", content);
    std::os::unix::fs::symlink(desk.file("same.csv"), desk.file("link.csv")).unwrap();
    for refused in ["same.csv", "./same.csv", "link.csv", "same.csv.import", "same.csv.import.new"]
    {
        let ran = desk.run(&["import", "same.csv", "--refused", refused]).await;
        assert!(!ran.good);
        ran.says("must name another file");
        assert_eq!(std::fs::read_to_string(desk.file("same.csv")).unwrap(), content);
    }
    // A file that cannot be imported does not overwrite the report of another import either.
    desk.write("report.csv", "line,field,reason\n3,name,is missing\n");
    desk.write("odd.csv", "name,telefon\nA,1\n");
    desk.run(&["import", "odd.csv", "--refused", "report.csv"]).await.says("telefon");
    assert!(std::fs::read_to_string(desk.file("report.csv")).unwrap().contains("3,name"));
    assert_eq!(total(&api).await, 0);
    let nobody = Desk { key: "pk_nobody".to_owned(), ..desk };
    assert!(!nobody.run(&["export", "all.csv"]).await.good);
    assert!(!nobody.file("all.csv.part").exists());
}

#[tokio::test]
async fn an_import_that_was_killed_goes_on() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let limits = "/admin/v1/workspaces/acme/limits";
    server.admin().put(limits, json!({"contacts_per_minute": 2})).await.ok();
    let desk = Desk::new(format!("http://{}", server.address()), &api);
    desk.write("many.csv", lines(3500));
    let mut import = desk.start(&["import", "many.csv"]);
    eventually("two batches", || async { (total(&api).await == 2000).then_some(()) }).await;
    import.kill().unwrap();
    ended(import).await;
    assert_eq!(total(&api).await, 2000);
    server.admin().put(limits, json!({"contacts_per_minute": 0})).await.ok();
    let ran = desk.run(&["import", "many.csv"]).await.ok();
    ran.says("resuming after ");
    ran.says("3500 contacts created, 0 lines refused");
    check_all_once(&api, 3500).await;
    // Another file of the same name is another import, after the first has ended.
    desk.write("many.csv", "name\nlater\n");
    desk.run(&["import", "many.csv"]).await.ok();
    assert_eq!(total(&api).await, 3501);
}

#[tokio::test]
async fn a_lost_answer_and_a_crash_neither_double_nor_lose() {
    let mut server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    let proxy = server.proxy().await;
    let desk = Desk::new(proxy.url(), &api);
    desk.write("many.csv", lines(4200));
    proxy.cut_after(1);
    let import = desk.start(&["import", "many.csv"]);
    eventually("the third batch", || async { (total(&api).await > 2000).then_some(()) }).await;
    assert!(proxy.was_cut());
    server.crash().await;
    let ran = ended(import).await.ok();
    ran.says("waiting for ");
    ran.says("4200 contacts created, 0 lines refused");
    check_all_once(&api, 4200).await;
}

#[tokio::test]
async fn an_import_waits_as_long_as_it_is_answered() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let proxy = server.proxy().await;
    for (status, message, code) in
        [(429, "too many for now", "RATE_LIMITED"), (503, "not now", "SERVICE_UNAVAILABLE")]
    {
        let body = json!({"error": "x", "message": message, "code": code}).to_string();
        proxy.answer(format!(
            "HTTP/1.1 {status} x\r\nRetry-After: 1\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
    }
    let desk = Desk::new(proxy.url(), &api);
    desk.write("few.csv", lines(10));
    let watch = Stopwatch::start();
    let ran = desk.run(&["import", "few.csv"]).await.ok();
    assert!(watch.elapsed() >= Duration::from_secs(2));
    ran.says(": too many for now");
    ran.says(": not now");
    ran.says("10 contacts created, 0 lines refused");
    assert_eq!(total(&api).await, 10);
    let desk = Desk { key: "pr_no".to_owned(), ..desk };
    desk.write("other.csv", lines(1));
    desk.run(&["import", "other.csv"]).await.says("(UNAUTHORIZED)");
}

fn without_what_is_given(rows: Vec<Value>) -> Vec<Value> {
    let strip = |mut row: Value| {
        for name in ["id", "created_at", "updated_at"] {
            assert!(row.as_object_mut().unwrap().remove(name).is_some());
        }
        row
    };
    rows.into_iter().map(strip).collect()
}

#[tokio::test]
async fn an_export_is_imported_as_the_same_contacts() {
    let server = TestServer::with(&UNLIMITED).await;
    let (api, other) = (server.workspace("acme").await, server.workspace("other").await);
    let url = format!("http://{}", server.address());
    let desk = Desk::new(url.clone(), &api);
    assert_eq!(
        desk.run(&["export"]).await.ok().stdout,
        "id,name,phone,email,tags,custom_fields,created_at,updated_at\n"
    );
    for contact in [
        json!({"name": " \"Ana\", Souza ", "phone": "+15550123456", "email": "ana@example.com"}),
        json!({"name": "名;字", "tags": ["a;b", " c", "[d", "e,f"]}),
        json!({"name": "=1+1", "tags": ["x", "y z"], "custom_fields": {"n": 1, "t": "1", "d": [{"e": null}]}}),
        json!({"name": "bare"}),
    ] {
        make(&api, contact).await;
    }
    let deleted = make(&api, json!({"name": "gone"})).await;
    api.delete(&path(&deleted)).await.ok();
    desk.write("many.csv", lines(450));
    desk.run(&["import", "many.csv"]).await.ok();
    let ran = desk.run(&["export", "out.csv"]).await.ok();
    ran.says("454 contacts");
    assert!(!Path::exists(&desk.file("out.csv.part")));
    let theirs = Desk { key: other.token().to_owned(), server: url, dir: desk.dir };
    theirs.run(&["import", "out.csv"]).await.ok();
    let (ours, theirs) = (all(&api).await, all(&other).await);
    assert_eq!(ours.len(), 454);
    assert_eq!(without_what_is_given(ours), without_what_is_given(theirs));
}

#[tokio::test]
async fn no_cell_is_a_formula_and_an_import_gives_it_back() {
    let server = TestServer::with(&UNLIMITED).await;
    let (api, other) = (server.workspace("acme").await, server.workspace("other").await);
    let names = ["=1+1", "+1", "-1", "@SUM(A1)", "'=x", "''=x", "'quoted'", "'", "a=b"];
    for name in names {
        make(&api, json!({"name": name, "tags": [name, "t"]})).await;
    }
    make(&api, json!({"name": "p", "phone": "+15550123456", "email": "=a@example.com"})).await;
    let desk = Desk::new(format!("http://{}", server.address()), &api);
    // A file of an earlier export may be readable to others.
    desk.write("out.csv.part", "");
    desk.run(&["export", "out.csv"]).await.ok();
    let mode = desk.file("out.csv").metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let text = std::fs::read_to_string(desk.file("out.csv")).unwrap();
    for line in text.lines().skip(1) {
        let cells: Vec<_> = line.split(',').collect();
        for cell in [cells[1], cells[3], cells[4]] {
            assert!(!cell.starts_with(['=', '+', '-', '@']), "{line}");
        }
    }
    assert!(text.contains(",'=1+1,") && text.contains(",''=x,") && text.contains(",'quoted',"));
    assert!(text.contains(",+15550123456,'=a@example.com,"), "{text}");
    let raw = desk.run(&["export", "--raw"]).await.ok().stdout;
    assert!(raw.contains(",=1+1,") && raw.contains(",'=x,"), "{raw}");
    let theirs = Desk { key: other.token().to_owned(), ..desk };
    theirs.write("bad.csv", "");
    theirs.run(&["import", "out.csv", "--refused", "bad.csv"]).await.ok();
    let mode = theirs.file("bad.csv").metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let (ours, theirs) = (all(&api).await, all(&other).await);
    assert_eq!(without_what_is_given(ours), without_what_is_given(theirs));
}

#[tokio::test]
async fn an_export_has_every_contact_once_whatever_happens_meanwhile() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    let proxy = server.proxy().await;
    let desk = Desk::new(proxy.url(), &api);
    desk.write("many.csv", lines(3000));
    desk.run(&["import", "many.csv"]).await.ok();
    let before: BTreeSet<_> =
        all(&api).await.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
    // The answer breaks off in its middle, and other contacts are created and deleted all the time.
    proxy.cut_after(200_000);
    let export = desk.start(&["export"]);
    let mut ending = tokio::spawn(ended(export));
    let ran = loop {
        tokio::select! {
            ran = &mut ending => break ran.unwrap().ok(),
            made = make(&api, json!({"name": "meanwhile"})) => {
                api.delete(&path(&made)).await.ok();
            }
        }
    };
    assert!(proxy.was_cut());
    let exported: Vec<_> = ran.stdout.lines().skip(1).map(|line| line[..30].to_owned()).collect();
    let once: BTreeSet<_> = exported.iter().cloned().collect();
    assert_eq!(exported.len(), once.len(), "none is there twice");
    assert!(before.is_subset(&once), "none is left out");
    let after = api.get(&format!("/v1/contacts/export?after={}x", exported[0])).await;
    after.check_field("after");
}
