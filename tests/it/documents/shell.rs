//! One bash session for each document, so that variables last from block to block.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Ends the output of a block; no output has it.
const END: u8 = 0x1e;

/// Every command must succeed, those inside of a pipe or of `$(…)` too.
const PRELUDE: &str = r#"
set -o pipefail -o errtrace
trap 'failed="${failed:-$BASH_COMMAND}"' ERR
curl() { command curl $strictly --silent --show-error --max-time 60 "$@"; }
"#;

/// A session. Dropping it ends it.
pub struct Shell {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    directory: PathBuf,
}

impl Shell {
    /// A session in `directory`, to which `postrider` is the binary under test and `server` its
    /// server.
    pub fn start(directory: &Path, server: &str) -> Self {
        let programs = directory.join("bin");
        fs::create_dir(&programs).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_postrider"), programs.join("postrider"))
            .unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc"]).current_dir(directory);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("POSTRIDER") {
                command.env_remove(name);
            }
        }
        command.env("PATH", format!("{}:{path}", programs.display()));
        command.env("POSTRIDER_SERVER", server).env("TMPDIR", directory);
        let errors = File::create(directory.join("errors")).unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().expect("tests/run installs bash and curl");
        let mut input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        input.write_all(PRELUDE.as_bytes()).unwrap();
        Self { child, input, output, directory: directory.to_owned() }
    }

    /// Runs a block and gives what it prints, or says which of its commands failed. An answer of an
    /// error is a failure too, unless the block shows one.
    pub fn run(&mut self, script: &str, shows_error: bool) -> Result<String, String> {
        let block = self.directory.join("block.sh");
        fs::write(&block, script).unwrap();
        // As a file, so that no command reads the ones that follow it.
        let strictly = if shows_error { "" } else { "--fail-with-body" };
        let source = format!("failed= strictly={strictly}; . {} </dev/null", block.display());
        writeln!(self.input, "{source}; printf '\\036%s\\036' \"$failed\"").unwrap();
        let printed = self.part();
        match self.part() {
            failed if failed.is_empty() => Ok(printed),
            failed => {
                let errors = fs::read_to_string(self.directory.join("errors")).unwrap_or_default();
                let newest = errors.lines().rev().take(5).collect::<Vec<_>>().join("\n");
                Err(format!("`{failed}` failed: {printed}\n{newest}"))
            }
        }
    }

    fn part(&mut self) -> String {
        let mut bytes = Vec::new();
        self.output.read_until(END, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(END), "the shell ended: {}", String::from_utf8_lossy(&bytes));
        String::from_utf8(bytes).unwrap()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn a_failure_is_found_wherever_it_happens() {
    let directory = tempfile::tempdir().unwrap();
    let mut shell = Shell::start(directory.path(), "");
    assert_eq!(shell.run("NAME=value\ncat\necho $NAME\n", false), Ok("value\n".to_owned()));
    for wrong in ["false\ntrue", "false | cat", "X=$(false; true | cat; false)", "if", "none_such"]
    {
        assert!(shell.run(wrong, false).is_err(), "{wrong}");
    }
    assert_eq!(
        shell.run("printf '%s' $NAME", false),
        Ok("value".to_owned()),
        "the session goes on"
    );
}
