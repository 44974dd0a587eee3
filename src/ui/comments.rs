//! Pure: leaves the comments of a module out of what is sent, which take an eighth of its bytes.

/// A module without the comments that begin a line: `/** … */` and `// …`. Lines keep their
/// numbers, so an error's place is that of the file. No text of a page may begin a line so.
pub(super) fn without_comments(module: &str) -> String {
    let mut out = String::with_capacity(module.len());
    let mut is_inside = false;
    for line in module.split_inclusive('\n') {
        let (text, end) = line.strip_suffix('\n').map_or((line, ""), |text| (text, "\n"));
        let begins = text.trim_start();
        let kept = if is_inside || begins.starts_with("/**") {
            let rest = text.split_once("*/").map(|(_, rest)| rest);
            is_inside = rest.is_none();
            rest.unwrap_or_default()
        } else if begins.starts_with("// ") {
            ""
        } else {
            text
        };
        out.push_str(kept);
        out.push_str(end);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_go_and_lines_stay() {
        for (module, sent) in [
            ("", ""),
            ("a();\n", "a();\n"),
            ("/** One. */\na();", "\na();"),
            ("  /**\n * Two,\n * long.\n */\na();\n", "\n\n\n\na();\n"),
            ("/** @type {any} */ (a)();\n", " (a)();\n"),
            ("a(); /** kept */\n//kept\n", "a(); /** kept */\n//kept\n"),
            ("  // One.\na(); // kept\n// Two.", "\na(); // kept\n"),
            ("/**\n// One.\n*/\n// Two.\n", "\n\n\n\n"),
            ("const at = '/**';\nb('*/');\n", "const at = '/**';\nb('*/');\n"),
            ("/** a */\n/** b */\nc /* d */;", "\n\nc /* d */;"),
        ] {
            assert_eq!(without_comments(module), sent, "{module}");
        }
    }
}
