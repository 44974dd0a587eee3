//! The rules of the house that no lint knows.

use std::path::{Path, PathBuf};

const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 60;

/// What the rules of a workspace are made of: values and functions of them.
const PURE: [&str; 28] = [
    "actors/src/domain",
    "actors/src/workspace/core.rs",
    "actors/src/workspace/hot.rs",
    "actors/src/workspace/otps.rs",
    "actors/src/workspace/sends.rs",
    "actors/src/workspace/unsent.rs",
    "actors/src/workspace/claims.rs",
    "actors/src/workspace/reported.rs",
    "actors/src/workspace/otp_messages.rs",
    "actors/src/workspace/index.rs",
    "actors/src/number/breaker.rs",
    "actors/src/number/pacer.rs",
    "actors/src/number/recipients.rs",
    "actors/src/number/staged.rs",
    "actors/src/number/window.rs",
    "actors/src/supervise/restart.rs",
    "actors/src/broadcast/outcomes.rs",
    "actors/src/broadcast/plan.rs",
    "actors/src/broadcast/reports.rs",
    "actors/src/webhook/body.rs",
    "actors/src/webhook/breaker.rs",
    "actors/src/webhook/delivery.rs",
    "actors/src/webhook/lanes.rs",
    "actors/src/webhook/limiter.rs",
    "actors/src/webhook/line",
    "actors/src/webhook/line.rs",
    "actors/src/webhook/schedule.rs",
    "actors/src/webhook/slots.rs",
];

const IMPURE: [&str; 12] = [
    "tokio",
    "ractor",
    "rand",
    "std::fs",
    "std::net",
    "std::env",
    "std::thread",
    "std::process",
    "SystemTime",
    "Instant",
    "crate::clock",
    "crate::random",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Rust files below a folder or file of the repository, as paths from its root, with their
/// text.
fn sources(below: &str) -> Vec<(String, String)> {
    fn collect(path: &Path, found: &mut Vec<PathBuf>) {
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            for entry in std::fs::read_dir(path).unwrap() {
                collect(&entry.unwrap().path(), found);
            }
        } else if path.is_file() && name.ends_with(".rs") {
            found.push(path.to_owned());
        }
    }

    let mut found = Vec::new();
    let folders =
        if below.is_empty() { vec!["src", "actors", "tests", "benches"] } else { vec![below] };
    for folder in folders.into_iter().filter(|folder| root().join(folder).exists()) {
        collect(&root().join(folder), &mut found);
    }
    assert!(!found.is_empty(), "{below} is not there");
    let read = |path: PathBuf| {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        (name, std::fs::read_to_string(path).unwrap())
    };
    found.into_iter().map(read).collect()
}

/// The text of a file before its tests and without its comments.
fn code(text: &str) -> String {
    let lines = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
    let code = lines.filter(|line| !line.trim_start().starts_with("//"));
    code.collect::<Vec<_>>().join("\n")
}

/// Whether `word` is in the text, and not as a part of a longer word.
fn has_word(text: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(part_of_word) && !text[at + word.len()..].starts_with(part_of_word)
    })
}

/// First line and length of every function, by the indentation that rustfmt gives it.
fn functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<_> = text.lines().collect();
    let begins = |line: &str| {
        let mut words = line.trim_start().split([' ', '(']);
        let prefixes = ["pub", "crate)", "super)", "async", "const", "extern"];
        words.find(|word| !prefixes.contains(word)) == Some("fn")
    };
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate().filter(|(_, line)| begins(line)) {
        let indentation = &line[..line.len() - line.trim_start().len()];
        // One that has no body, or all of it on its line, ends there.
        let signature = lines[start..].iter().position(|line| line.ends_with(['{', ';', '}']));
        let opens = signature.is_some_and(|length| lines[start + length].ends_with('{'));
        let end = lines[start..].iter().position(|line| *line == format!("{indentation}}}"));
        if let (true, Some(length)) = (opens, end) {
            found.push((start + 1, length + 1));
        }
    }
    found
}

#[test]
fn files_and_functions_are_short() {
    let mut count = 0;
    for (name, text) in sources("") {
        let lines = text.lines().count();
        assert!(lines <= FILE_LINES_MAX, "{name} has {lines} lines");
        for (start, length) in functions(&text) {
            assert!(length <= FUNCTION_LINES_MAX, "{name}:{start}: a function of {length} lines");
            count += 1;
        }
    }
    assert!(count > 1000, "only {count} functions were found");
}

#[test]
fn a_function_is_measured() {
    let text = "fn a() {\n    x\n}\n\n    pub(crate) async fn b<T>(\n        t: T,\n    ) {\n        \
                y\n    }\nfn c() {}\n    fn d();\n";
    assert_eq!(functions(text), [(1, 3), (5, 5)]);
}

#[test]
fn the_rules_are_pure() {
    for pure in PURE {
        for (name, text) in sources(pure) {
            for word in IMPURE {
                assert!(!has_word(&code(&text), word), "{name} uses {word}");
            }
        }
    }
    assert!(has_word("use tokio::sync", "tokio") && !has_word("operand", "rand"));
}

#[test]
fn only_the_store_touches_the_disk_and_only_the_clock_reads_the_time() {
    for (name, text) in sources("actors/src") {
        let code = code(&text);
        let is_test = name.ends_with("tests.rs") || name.contains("/tests/");
        if !is_test && !name.starts_with("actors/src/store/") {
            for word in ["std::fs", "tokio::fs", "OpenOptions"] {
                assert!(!has_word(&code, word), "{name} uses {word}");
            }
        }
        if !is_test && name != "actors/src/clock.rs" {
            for call in ["SystemTime::now", "Instant::now", "Timestamp::now"] {
                assert!(!code.contains(call), "{name} uses {call}");
            }
        }
        for word in ["axum", "hyper", "clap"] {
            assert!(!has_word(&code, word), "{name} uses {word}: the engine knows no server");
        }
    }
}

#[test]
fn nothing_is_left_undone() {
    let macros = ["todo", "unimplemented", "dbg"].map(|name| format!("{name}!("));
    let attribute = format!("#[{}", "ignore");
    for (name, text) in sources("") {
        for left in macros.iter().chain([&attribute]) {
            assert!(!text.contains(left.as_str()), "{name} has {left}");
        }
    }
}
