//! The codes of errors: one table with their names, statuses and pages.

use axum::http::StatusCode;

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
