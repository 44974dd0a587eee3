//! The tour of the command line.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::faults::signal;

/// Starts a tour whose temporary directory is in `temporary`.
fn start(recipients: &str, temporary: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    command.args(["demo", "--recipients", recipients]).env("TMPDIR", temporary);
    // The settings of the machine do not matter.
    command.env("POSTRIDER__SANDBOX__ENABLED", "nonsense");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn entries(directory: &Path) -> usize {
    directory.read_dir().unwrap().count()
}

#[test]
fn it_shows_a_password_and_a_broadcast_and_leaves_nothing_behind() {
    let temporary = tempfile::tempdir().unwrap();
    let ended = start("1500", temporary.path()).wait_with_output().unwrap();
    let shown = String::from_utf8(ended.stdout).unwrap();
    let errors = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.success(), "{shown}{errors}");
    for expected in [
        "is your verification code.",
        "verified, durably, in ",
        "a second time is refused: ",
        "A broadcast to 1,500 recipients",
        "completed: 1,500 sent\n",
        " messages a second",
    ] {
        assert!(shown.contains(expected), "{expected} is not in:\n{shown}");
    }
    let progress = |line: &str| line.ends_with(" %: handed over");
    assert!(errors.lines().all(progress) && errors.contains("100 %: "), "{errors}");
    assert_eq!(entries(temporary.path()), 0);
}

#[test]
fn it_leaves_nothing_behind_when_it_is_stopped() {
    let temporary = tempfile::tempdir().unwrap();
    let mut demo = start("50000", temporary.path());
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("A broadcast to 50,000")));
    assert_eq!(entries(temporary.path()), 1);
    signal(demo.id(), "INT");
    // Its further output does not matter, but it must be able to write.
    lines.for_each(drop);
    let status = demo.wait().unwrap();
    let mut errors = String::new();
    demo.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!((status.code(), entries(temporary.path())), (Some(1), 0), "{errors}");
    assert!(errors.contains("interrupted before the command finished"), "{errors}");
}
