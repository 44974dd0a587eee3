//! The texts of the dashboard and of `--help` are plain English.
//!
//! A sentence says who acts, it is short, and its words are those of the field.

use serde_json::Value;

use super::claims::{commands, help};
use super::root;

const WORDS_MAX: usize = 25;

/// A sentence that begins so has a clause in place of its subject, unless it asks.
const HEADLESS: [&str; 11] = [
    "That of ",
    "Those of ",
    "Those that ",
    "Those who ",
    "What ",
    "Whatever ",
    "Where ",
    "Which ",
    "Who ",
    "Whoever ",
    "Whose ",
];

/// Words for which the field has a better one: create, report, start, expire, retry, restore.
const VAGUE: [&str; 20] = [
    "anew",
    "any more",
    "be there",
    "begins",
    "comes to an end",
    "for good",
    "gives up",
    "goes away",
    "goes on",
    "is made",
    "is there",
    "is told",
    "make",
    "makes",
    "stands",
    "taken back",
    "tells",
    "that are there",
    "was made",
    "what became of",
];

/// Splits a text after each sentence.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let ends = text.match_indices(['.', '!', '?']).map(|(at, mark)| at + mark.len());
    let ends: Vec<_> = ends.filter(|at| text[*at..].starts_with(' ')).collect();
    let starts: Vec<_> = std::iter::once(0).chain(ends.iter().copied()).collect();
    let ends = ends.into_iter().chain([text.len()]);
    starts.into_iter().zip(ends).map(|(start, end)| text[start..end].trim())
}

/// Returns why a sentence is hard to read, if it is.
fn fault(sentence: &str) -> Option<String> {
    let begins = HEADLESS.iter().find(|it| sentence.starts_with(**it));
    if let Some(begins) = begins.filter(|_| !sentence.ends_with('?')) {
        return Some(format!("\"{begins}…\" is no subject"));
    }
    let words = sentence.split_whitespace().count();
    if words > WORDS_MAX {
        return Some(format!("it has {words} words"));
    }
    let letters = sentence.to_lowercase().replace(|it: char| !it.is_alphanumeric(), " ");
    let plain = letters.split_whitespace().collect::<Vec<_>>().join(" ");
    let vague = VAGUE.iter().find(|it| format!(" {plain} ").contains(&format!(" {it} ")));
    vague.map(|it| format!("\"{it}\" is vague"))
}

fn faults(place: &str, text: &str) -> Vec<String> {
    let found = sentences(text).filter_map(|it| Some((it, fault(it)?)));
    found.map(|(sentence, why)| format!("{place}: {sentence}: {why}")).collect()
}

#[test]
fn a_fault_of_a_sentence_is_found() {
    for (text, number) in [
        ("Create a key. The key is shown once.", 0),
        ("What is a key? A key is a secret.", 0),
        ("What is kept stays. Who is in it twice gets it once.", 2),
        ("Whose key is it?", 0),
        ("A key was made, and what became of it is unknown.", 1),
        ("Remakes are fine; makeup too.", 0),
        (&"word ".repeat(25), 0),
        (&"word ".repeat(26), 1),
        ("Version 1.2 is there", 1),
    ] {
        assert_eq!(faults("here", text).len(), number, "{text}");
    }
}

fn words(language: &str) -> serde_json::Map<String, Value> {
    let path = root().join("src/ui/app/words").join(language).with_extension("json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn the_texts_of_the_dashboard_are_plain() {
    // The English texts are the keys of each other language, as the pages' tests compare.
    let (texts, labels) = (words("de"), words("en"));
    let labels = labels.iter().filter_map(|(key, word)| Some((key, word.as_str()?)));
    let all = texts.keys().map(|text| (text, text.as_str())).chain(labels);
    let found: Vec<_> = all.flat_map(|(key, text)| faults(key, text)).collect();
    assert!(texts.len() > 900, "{} texts", texts.len());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Returns the texts in a command's help, without its options and examples.
fn help_texts(help: &str) -> Vec<String> {
    let lines = help.lines().map(str::trim);
    let said = lines.filter(|line| !line.is_empty() && !line.ends_with(':'));
    let said = said.filter(|line| !line.starts_with("Usage:") && !line.starts_with("postrider "));
    // A name and its text are two spaces apart; defaults follow in brackets.
    let text = said.filter_map(|line| match line.split_once("  ") {
        Some((_, text)) => Some(text.trim()),
        None => (!line.starts_with(['-', '['])).then_some(line),
    });
    text.map(|it| it.split(" [").next().unwrap_or_default().to_owned()).collect()
}

fn walk(command: &[&str], found: &mut Vec<String>) -> usize {
    let text = help(command);
    let place = format!("postrider {}", command.join(" "));
    found.extend(help_texts(&text).iter().flat_map(|it| faults(&place, it)));
    let below = commands(&text).into_iter().filter(|it| *it != "help");
    1 + below.map(|name| walk(&[command, &[name]].concat(), found)).sum::<usize>()
}

#[test]
fn the_texts_of_the_command_line_are_plain() {
    let mut found = Vec::new();
    let commands = walk(&[], &mut found);
    assert!(commands > 60, "{commands} commands");
    assert!(found.is_empty(), "{}", found.join("\n"));
}
