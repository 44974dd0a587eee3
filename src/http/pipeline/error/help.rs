//! Links refusals to the pages about their codes.

use axum::http::HeaderValue;

use super::Code;

/// The path of the pages on this server.
pub(crate) const ERRORS_PATH: &str = "/docs/errors";

/// The `Link` of each code, by its number; empty if no page is linked.
#[derive(Debug, Default)]
pub(crate) struct Help(Vec<Option<HeaderValue>>);

impl Help {
    /// Returns the links to the pages below `base`. The settings allow only a base that is valid in
    /// a header.
    pub(crate) fn below(base: &str) -> Self {
        let base = base.trim_end_matches('/');
        let link = |code: &Code| format!("<{base}/{}>; rel=\"help\"", code.as_str());
        Self(Code::ALL.iter().map(|code| HeaderValue::try_from(link(code)).ok()).collect())
    }

    /// Returns the link of a code.
    pub(super) fn link(&self, code: Code) -> Option<HeaderValue> {
        self.0.get(code as usize).cloned().flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use serde_json::Value;

    use super::*;

    #[test]
    fn each_code_has_the_link_of_its_own_page() {
        for base in ["https://help.example/errors", "https://help.example/errors/"] {
            let help = Help::below(base);
            for &code in Code::ALL {
                let page = format!("<https://help.example/errors/{}>; rel=\"help\"", code.as_str());
                assert_eq!(help.link(code).unwrap().to_str().unwrap(), page);
            }
        }
        assert_eq!(Help::default().link(Code::Conflict), None);
    }

    #[test]
    fn each_page_is_of_a_code() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/errors");
        let files = folder.read_dir().unwrap().map(|file| file.unwrap().file_name());
        let files: BTreeSet<_> = files.map(|name| name.into_string().unwrap()).collect();
        let codes = Code::ALL.iter().map(|code| format!("{}.md", code.as_str()));
        assert_eq!(files, codes.collect());
    }

    #[test]
    fn each_page_says_what_happened_and_what_to_do() {
        for &code in Code::ALL {
            let (name, page) = (code.as_str(), code.page());
            let status = code.status().as_u16();
            let begins = format!("# {name}\n\nStatus {status}, `{}`.\n", code.title());
            assert!(page.starts_with(&begins), "{name}");
            let headings = page.lines().filter_map(|line| line.strip_prefix("## "));
            let all = ["What happened", "Why", "What to do", "An example"];
            assert_eq!(headings.collect::<Vec<_>>(), all, "{name}");
            let example = page.split_once("```http\n").unwrap().1.split_once("\n```").unwrap().0;
            let (head, body) = example.split_once("\n\n").unwrap();
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{name}: {head}");
            let link = Help::below(ERRORS_PATH).link(code).unwrap();
            let link = format!("\nLink: {}", link.to_str().unwrap());
            assert!(head.contains(&link), "{name}: {head}");
            let body: Value = serde_json::from_str(body).unwrap();
            assert_eq!((&body["code"], &body["error"]), (&name.into(), &code.title().into()));
            assert_eq!(body["retry_after"].is_u64(), code.is_retryable(), "{name}");
            assert_eq!(head.contains("\nRetry-After: "), code.is_retryable(), "{name}");
        }
    }
}
