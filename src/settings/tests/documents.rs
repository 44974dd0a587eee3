//! Makes `config/default.toml` and the tables of `docs/settings.md` from the declared sections.
//!
//! `UPDATE_EXPECT=1 cargo test -p postrider --lib settings` writes both.

use expect_test::expect_file;

use super::super::layers::{KeySpec, SectionSpec};
use super::super::section;
use super::super::value::Raw;

const HEADER: &str = "\
# Postrider's settings and their defaults: the developer sandbox.
#
# These defaults are compiled in. A file given by `--config` is laid over them, then the environment
# (`POSTRIDER__SECTION__KEY`, such as POSTRIDER__LIMITS__KEY_REQUESTS_PER_HOUR=0), then the flags
# of the command line. An unknown key or a bad value stops the start.
";

const COLUMNS_MAX: usize = 100;

/// Wraps words, each line after `start`.
fn wrapped(start: &str, words: &[String]) -> String {
    let mut text = String::new();
    let mut columns = usize::MAX;
    for word in words {
        let width = word.chars().count();
        if columns.saturating_add(1 + width) > COLUMNS_MAX {
            text = format!("{text}\n{start}{word}");
            columns = start.len() + width;
        } else {
            text = format!("{text} {word}");
            columns += 1 + width;
        }
    }
    format!("{}\n", text.trim_start_matches('\n'))
}

fn comment(text: &str) -> String {
    wrapped("# ", &pieces(text))
}

/// Splits a text at its spaces, except within code, quotes and the unit behind a number.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let is_open = pieces.last().is_some_and(|last| {
            let odd = |mark| last.matches(mark).count() % 2 == 1;
            odd('`') || odd('"') || last.starts_with('(') && !last.contains(')') && is_size(last)
        });
        match pieces.last_mut() {
            Some(last) if is_open => *last = format!("{last} {word}"),
            _ => pieces.push(word.to_owned()),
        }
    }
    pieces
}

fn is_size(piece: &str) -> bool {
    piece[1..].bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns a default as TOML writes it.
fn in_toml(default: &Raw) -> String {
    match default {
        Raw::Toml(toml::Value::Array(words)) => {
            let words = words.iter().filter_map(toml::Value::as_str);
            let words: Vec<_> = words.map(|word| format!("\"{word}\",")).collect();
            format!("[\n{}]", wrapped("  ", &words))
        }
        Raw::Toml(toml::Value::String(text)) => format!("\"{text}\""),
        Raw::Toml(toml::Value::Integer(number)) => number.to_string(),
        Raw::Toml(toml::Value::Boolean(flag)) => flag.to_string(),
        other => panic!("{other:?} is no default"),
    }
}

/// Returns a default as the tables show it.
fn in_table(default: &Raw) -> String {
    match default {
        Raw::Toml(toml::Value::String(text)) if text.is_empty() => "empty".to_owned(),
        Raw::Toml(toml::Value::String(text)) => format!("`{text}`"),
        Raw::Toml(toml::Value::Array(words)) => format!("{} words", words.len()),
        other => format!("`{}`", in_toml(other)),
    }
}

fn defaults_file() -> String {
    let mut file = HEADER.to_owned();
    for SectionSpec { name, about, keys } in section::all() {
        file += &format!("\n{}[{name}]\n", comment(about));
        for KeySpec { name, about, default, rule } in &keys {
            let text = format!("{about} Allowed: {}.", rule.allowed);
            file += &format!("{}{name} = {}\n", comment(&text), in_toml(default));
        }
    }
    file
}

fn table(section: &SectionSpec) -> String {
    let row = |KeySpec { name, about, default, rule }: &KeySpec| {
        let (default, allowed, about) = (in_table(default), &rule.allowed, about.trim());
        format!("| `{name}` | {default} | {allowed} | {about} |\n")
    };
    let rows: String = section.keys.iter().map(row).collect();
    format!("| key | default | allowed | meaning |\n|---|---|---|---|\n{rows}")
}

/// Returns a document with the table below each section's heading in place of the lines there that
/// begin with `|`.
fn with_tables(document: &str) -> String {
    let mut sections = section::all();
    let mut made = String::new();
    let (mut next, mut is_made) = (None, false);
    for line in document.split_inclusive('\n') {
        if let Some(heading) = line.strip_prefix("## ") {
            let is_this = |section: &SectionSpec| heading == format!("`[{}]`\n", section.name);
            next = sections.iter().position(is_this).map(|at| sections.remove(at));
        }
        // Only the first table of a section is made.
        match line.starts_with('|') && (next.is_some() || is_made) {
            true => {
                is_made = true;
                made.extend(next.take().as_ref().map(table));
            }
            false => {
                is_made = false;
                made += line;
            }
        }
    }
    let missing: Vec<_> = sections.iter().map(|section| section.name).collect();
    assert!(missing.is_empty(), "no heading and line `|` for the tables of {missing:?}");
    made
}

#[test]
fn the_defaults_file_is_made_of_the_declaration() {
    expect_file!["../../../config/default.toml"].assert_eq(&defaults_file());
}

#[test]
fn the_tables_of_settings_are_made_of_the_declaration() {
    let file = expect_file!["../../../docs/settings.md"];
    file.assert_eq(&with_tables(&file.data()));
}

#[test]
fn every_key_is_described_in_a_sentence() {
    for SectionSpec { name: section, about, keys } in section::all() {
        assert!(about.ends_with('.'), "[{section}]: {about}");
        for KeySpec { name, about, .. } in keys {
            assert!(about.ends_with('.') && !about.contains('|'), "{section}.{name}: {about}");
        }
    }
}
