//! Streams an answer that is read part by part.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use bytes::Bytes;
use http_body_util::channel::{Channel, Sender};
use postrider_actors::{Unavailable, UnavailableReason, Workspace};

use super::edge::Edge;
use super::pipeline::{Call, Principal, Reply};

/// The maximum number of parts that are buffered while the client does not read.
const BUFFERED_PARTS_MAX: usize = 2;

/// The type of CSV answers.
pub(crate) const CSV: &str = "text/csv";
/// The type of CSV answers with their character set, as answers name it.
pub(crate) const CSV_UTF8: &str = "text/csv; charset=utf-8";
/// The type of answers with one object per line.
pub(crate) const JSON_LINES: &str = "application/x-ndjson";

/// The maximum number of rows of a file that are read at a time from a list with a cursor.
pub(crate) const PART_ROWS: usize = 500;

/// Rows of a file, and the id of the row after which the list goes on, unless it is over.
pub(crate) type FilePart<I> = (Vec<Vec<String>>, Option<I>);

/// A list with a cursor, as the rows of a file.
pub(crate) trait ListedRows: Send + 'static {
    /// The id of a row.
    type Id: Send;
    /// The names of the columns.
    const HEAD: &'static [&'static str];

    /// Returns the rows after one, at most [`PART_ROWS`] of them; `None`: the first rows.
    ///
    /// # Errors
    /// [`Unavailable`]: the rows cannot be read.
    fn after(
        &self,
        workspace: &Workspace,
        after: Option<Self::Id>,
    ) -> impl Future<Output = Result<FilePart<Self::Id>, Unavailable>> + Send;
}

/// The position in a file.
enum Place<I> {
    /// Nothing was written, not even the names of the columns.
    Head,
    /// The rows after this one are next; `None`: all rows are.
    After(Option<I>),
    /// All rows were written.
    End,
}

/// A file of CSV with the rows of a list.
pub(crate) struct ListFile<L: ListedRows> {
    list: L,
    next: Place<L::Id>,
}

impl<L: ListedRows> ListFile<L> {
    pub(crate) const fn new(list: L) -> Self {
        Self { list, next: Place::Head }
    }
}

impl<L: ListedRows + Sync> AnswerParts for ListFile<L> {
    async fn next(&mut self, workspace: &Workspace) -> Result<Option<Vec<u8>>, Unavailable> {
        let rows = match std::mem::replace(&mut self.next, Place::End) {
            Place::Head => {
                self.next = Place::After(None);
                vec![L::HEAD.iter().map(|name| (*name).to_owned()).collect()]
            }
            Place::After(after) => {
                let (rows, next) = self.list.after(workspace, after).await?;
                self.next = next.map_or(Place::End, |id| Place::After(Some(id)));
                rows
            }
            Place::End => return Ok(None),
        };
        Ok(Some(csv_lines(rows)))
    }
}

/// The source of an answer's parts.
pub(crate) trait AnswerParts: Send + 'static {
    /// Returns the next part, which may be empty; `None` at the end.
    fn next(
        &mut self,
        workspace: &Workspace,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, Unavailable>> + Send;
}

/// Aborts a body, so that the client does not take a truncated answer for a complete one.
#[derive(Debug, thiserror::Error)]
#[error("the rows could not be read to the end")]
struct TruncatedAnswer;

/// Answers with all parts.
pub(crate) fn stream(
    call: &Call<Principal>,
    content_type: &'static str,
    parts: impl AnswerParts,
) -> Reply {
    let (sender, body) = Channel::<Bytes, TruncatedAnswer>::new(BUFFERED_PARTS_MAX);
    let (edge, caller) = (Arc::clone(&call.edge), call.caller.clone());
    drop(tokio::spawn(send(edge, caller, parts, sender)));
    file(Reply::stream(StatusCode::OK, content_type, Body::new(body)))
}

/// Answers with the given rows as CSV.
pub(crate) fn csv(rows: impl IntoIterator<Item = Vec<String>>) -> Reply {
    file(Reply::of(StatusCode::OK, CSV_UTF8, csv_lines(rows)))
}

fn file(mut reply: Reply) -> Reply {
    reply.header(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply.header(header::VARY, HeaderValue::from_static("Accept"));
    reply
}

/// Formats rows as lines of CSV. No cell is a formula.
pub(crate) fn csv_lines(rows: impl IntoIterator<Item = Vec<String>>) -> Vec<u8> {
    let mut lines = Vec::new();
    let mut builder = csv::WriterBuilder::new();
    builder.terminator(csv::Terminator::CRLF).flexible(true);
    let mut writer = builder.from_writer(&mut lines);
    for row in rows {
        let cells = row.iter().map(|cell| crate::csv_cell::text(cell).into_owned());
        // Writing to a vector cannot fail.
        drop(writer.write_record(cells));
    }
    drop(writer.flush());
    drop(writer);
    lines
}

/// Sends parts until all are sent, the client disconnects, or the server shuts down.
async fn send(
    edge: Arc<Edge>,
    caller: Principal,
    mut parts: impl AnswerParts,
    mut sender: Sender<Bytes, TruncatedAnswer>,
) {
    let sending = async {
        loop {
            match parts.next(caller.workspace()).await {
                Ok(None) => return true,
                Ok(Some(part)) if part.is_empty() => {}
                Ok(Some(part)) => {
                    if sender.send_data(Bytes::from(part)).await.is_err() {
                        return true;
                    }
                }
                // A stream that has started waits for its turn.
                Err(Unavailable { reason: UnavailableReason::Overloaded, retry_after }) => {
                    tokio::time::sleep(retry_after).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "a streamed answer ends early");
                    return false;
                }
            }
        }
    };
    let complete = tokio::select! {
        complete = sending => complete,
        () = edge.options.drain.begun() => false,
    };
    if !complete {
        sender.abort(TruncatedAnswer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula_and_all_are_quoted_where_they_must_be() {
        let rows = [
            vec!["to".to_owned(), "name".to_owned()],
            vec!["+15550123456".to_owned(), "=1+1".to_owned()],
            vec!["a,b".to_owned(), "a \"b\"\nc".to_owned()],
        ];
        let text = String::from_utf8(csv_lines(rows)).unwrap();
        assert_eq!(text, "to,name\r\n+15550123456,'=1+1\r\n\"a,b\",\"a \"\"b\"\"\nc\"\r\n");
    }
}
