//! Pure: finds and fills the placeholders of a template: `{{1}}`, `{{2}}` or `{{first_name}}`.

/// The placeholders of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Placeholders<'a> {
    /// They are filled by this many parameters, in order.
    Numbered(usize),
    /// They are filled by parameters of these names.
    Named(Vec<&'a str>),
}

impl<'a> Placeholders<'a> {
    /// Returns the placeholders of a text.
    pub(super) fn of(text: &'a str) -> Self {
        let mut names: Vec<&str> = Vec::new();
        for (_, name) in pieces(text) {
            if let Some(name) = name.filter(|name| !names.contains(name)) {
                names.push(name);
            }
        }
        let numbers: Option<Vec<usize>> = names.iter().map(|name| name.parse().ok()).collect();
        match numbers {
            Some(numbers) => Self::Numbered(numbers.into_iter().max().unwrap_or(0)),
            None => Self::Named(names),
        }
    }

    /// Returns the number of parameters that they need.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Numbered(count) => *count,
            Self::Named(names) => names.len(),
        }
    }

    /// Returns the index of the parameter, from 0, that fills the placeholder of this name.
    fn index_of(&self, name: &str) -> Option<usize> {
        match self {
            Self::Numbered(_) => name.parse::<usize>().ok()?.checked_sub(1),
            Self::Named(names) => names.iter().position(|known| *known == name),
        }
    }

    /// Returns whether the placeholders are complete. Numbers start with 1 and have no gaps, and
    /// names are not mixed with numbers.
    pub(super) fn are_complete(&self, text: &str) -> bool {
        match self {
            Self::Numbered(count) => (1..=*count).all(|number| {
                pieces(text).any(|(_, name)| name.is_some_and(|name| name == number.to_string()))
            }),
            Self::Named(names) => names.iter().all(|name| name.parse::<usize>().is_err()),
        }
    }
}

/// Appends the text with its placeholders filled.
pub(super) fn fill(text: &str, places: &Placeholders<'_>, values: &[&str], out: &mut String) {
    for (before, name) in pieces(text) {
        out.push_str(before);
        if let Some(name) = name {
            let index = places.index_of(name);
            out.push_str(index.and_then(|index| values.get(index)).copied().unwrap_or_default());
        }
    }
}

/// Splits a text at its placeholders. Each piece comes with the name of the one that follows it.
fn pieces(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut from = 0;
        while let Some(open) = text[from..].find("{{").map(|at| at + from) {
            let Some(close) = text[open..].find("}}").map(|at| at + open) else { break };
            let name = text[open + 2..close].trim();
            if is_name(name) {
                rest = Some(&text[close + 2..]);
                return Some((&text[..open], Some(name)));
            }
            from = open + 1;
        }
        rest = None;
        Some((text, None))
    })
}

fn is_name(name: &str) -> bool {
    let number = name.bytes().all(|byte| byte.is_ascii_digit());
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    // No template has a hundred placeholders, so longer numbers are plain text.
    !name.is_empty() && name.bytes().all(allowed) && (!number || (name.len() <= 2 && name != "0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found() {
        for (text, places) in [
            ("", Placeholders::Numbered(0)),
            ("Hello", Placeholders::Numbered(0)),
            ("{{1}}", Placeholders::Numbered(1)),
            ("{{2}} {{ 1 }} {{2}}", Placeholders::Numbered(2)),
            ("{{3}}", Placeholders::Numbered(3)),
            ("{{name}}, {{order}}, {{name}}", Placeholders::Named(vec!["name", "order"])),
            ("{{}} {{A}} {{a b}} {{1", Placeholders::Numbered(0)),
            ("{{{1}}}", Placeholders::Numbered(1)),
            ("{{123456789}}", Placeholders::Numbered(0)),
            ("ä{{1}}ä", Placeholders::Numbered(1)),
        ] {
            assert_eq!(Placeholders::of(text), places, "{text}");
        }
        let complete = |text: &str| Placeholders::of(text).are_complete(text);
        assert!(complete("{{2}} {{1}}") && complete("{{a}}") && complete(""));
        assert!(!complete("{{2}}") && !complete("{{a}} {{1}}"));
    }

    #[test]
    fn places_are_filled() {
        for (text, values, filled) in [
            ("Hello {{1}}", &["Ada"][..], "Hello Ada"),
            ("{{2}}{{1}}{{2}}!", &["a", "b"], "bab!"),
            ("{{name}} {{x}} {{name}}", &["{{x}}", "y"], "{{x}} y {{x}}"),
            ("{{1", &[], "{{1"),
            ("{{{1}}}", &["a"], "{a}"),
        ] {
            let mut out = String::new();
            fill(text, &Placeholders::of(text), values, &mut out);
            assert_eq!(out, filled, "{text}");
        }
    }
}
