//! States in the document which answers are also available as files, by the `Accept` header.

use utoipa::Modify;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::{ObjectBuilder, OpenApi, RefOr, Type};

use super::parts::operations;
use crate::http::streamed::{CSV, JSON_LINES};

/// The operations, each with its type of file.
const FILES: [(&str, &str); 6] = [
    ("listBroadcastRecipients", CSV),
    ("readCampaignAnalytics", CSV),
    ("readAdAnalytics", CSV),
    ("readOtpAnalytics", CSV),
    ("readConversationDays", CSV),
    ("listEvents", JSON_LINES),
];

const OF_CSV: &str = "With `Accept: text/csv` the answer is all rows as CSV, the whole file \
    whatever `page` and `limit` say; a `'` stands before what a spreadsheet would take for a \
    formula.";
const OF_LINES: &str = "With `Accept: application/x-ndjson` the answer is one event a line, from \
    the cursor on to the end of the log as it is, whatever `limit` says.";

/// Adds the types of files to the answers.
pub(crate) struct Files;

impl Modify for Files {
    fn modify(&self, document: &mut OpenApi) {
        for operation in document.paths.paths.values_mut().flat_map(operations) {
            let named = |(id, _): &&(&str, &str)| operation.operation_id.as_deref() == Some(id);
            let Some((_, media)) = FILES.iter().find(named) else { continue };
            let text_of = if *media == CSV { OF_CSV } else { OF_LINES };
            let description = operation.description.get_or_insert_default();
            if !description.is_empty() {
                description.push(' ');
            }
            description.push_str(text_of);
            if let Some(RefOr::T(good)) = operation.responses.responses.get_mut("200") {
                let text = ObjectBuilder::new().schema_type(Type::String).build();
                let content = ContentBuilder::new().schema(Some(text)).build();
                good.content.insert((*media).to_owned(), RefOr::T(content));
            }
        }
    }
}
