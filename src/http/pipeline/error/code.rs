//! The codes of errors: one table with their names, statuses and pages, and the links to the
//! pages.

use axum::http::{HeaderValue, StatusCode};

/// The path of the pages on this server.
pub(crate) const ERRORS_PATH: &str = "/docs/errors";

/// Declares the codes: each line gives the variant, the text and the status of one. Its page is the
/// file of that name in `docs/errors/`.
macro_rules! codes {
    ($($code:ident = $text:literal, $status:ident;)*) => {
        /// The `code` of an error body. Each code has one status.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Code {
            $($code,)*
        }

        impl Code {
            /// Every code, in the order of their numbers.
            pub(crate) const ALL: &[Self] = &[$(Self::$code,)*];

            /// Returns the text of the code in a body.
            pub(crate) const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$code => $text,)*
                }
            }

            /// Returns the HTTP status of the code.
            pub(crate) const fn status(self) -> StatusCode {
                match self {
                    $(Self::$code => StatusCode::$status,)*
                }
            }

            /// Returns the page about the code in Markdown: the event, its cause and a remedy.
            pub(crate) const fn page(self) -> &'static str {
                match self {
                    $(Self::$code => {
                        include_str!(concat!("../../../../docs/errors/", $text, ".md"))
                    })*
                }
            }
        }
    };
}

codes! {
    ValidationError = "VALIDATION_ERROR", BAD_REQUEST;
    Unauthorized = "UNAUTHORIZED", UNAUTHORIZED;
    Forbidden = "FORBIDDEN", FORBIDDEN;
    NotFound = "NOT_FOUND", NOT_FOUND;
    MethodNotAllowed = "METHOD_NOT_ALLOWED", METHOD_NOT_ALLOWED;
    RequestTimeout = "REQUEST_TIMEOUT", REQUEST_TIMEOUT;
    MisdirectedRequest = "MISDIRECTED_REQUEST", MISDIRECTED_REQUEST;
    Conflict = "CONFLICT", CONFLICT;
    PayloadTooLarge = "PAYLOAD_TOO_LARGE", PAYLOAD_TOO_LARGE;
    UnsupportedMediaType = "UNSUPPORTED_MEDIA_TYPE", UNSUPPORTED_MEDIA_TYPE;
    Unprocessable = "UNPROCESSABLE", UNPROCESSABLE_ENTITY;
    OtpExpired = "OTP_EXPIRED", UNPROCESSABLE_ENTITY;
    OtpMaxAttempts = "OTP_MAX_ATTEMPTS", UNPROCESSABLE_ENTITY;
    TemplateNotApproved = "TEMPLATE_NOT_APPROVED", UNPROCESSABLE_ENTITY;
    MessagingNotConnected = "MESSAGING_NOT_CONNECTED", UNPROCESSABLE_ENTITY;
    InsufficientCredits = "INSUFFICIENT_CREDITS", UNPROCESSABLE_ENTITY;
    RateLimited = "RATE_LIMITED", TOO_MANY_REQUESTS;
    OtpRateLimited = "OTP_RATE_LIMITED", TOO_MANY_REQUESTS;
    OtpWorkspaceLimit = "OTP_WORKSPACE_LIMIT", TOO_MANY_REQUESTS;
    ServerError = "SERVER_ERROR", INTERNAL_SERVER_ERROR;
    NotImplemented = "NOT_IMPLEMENTED", NOT_IMPLEMENTED;
    ServiceUnavailable = "SERVICE_UNAVAILABLE", SERVICE_UNAVAILABLE;
}

impl Code {
    /// Returns the `error` of a body: the status in words.
    pub(crate) fn title(self) -> &'static str {
        match self.status() {
            // The API specification uses this word instead of the phrase of RFC 9110.
            StatusCode::UNPROCESSABLE_ENTITY => "Unprocessable",
            status => status.canonical_reason().unwrap_or("Error"),
        }
    }

    /// Returns whether the same request may succeed later. Such answers have `Retry-After`.
    pub(super) const fn is_retryable(self) -> bool {
        matches!(self.status().as_u16(), 429 | 500 | 503)
    }
}

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
