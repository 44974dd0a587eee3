//! Connections, and the answer to each request.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Response, header};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;

use super::{Answer, Shared, receipts};

/// Accepts connections for ever.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let shared = Arc::clone(&shared);
        let service = service_fn(move |request| answer(Arc::clone(&shared), request));
        drop(tokio::spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new();
            // It ends with an error when the client goes, or is dropped on purpose.
            connection.serve_connection(TokioIo::new(stream), service).await.ok();
        }));
    }
}

/// Answers a request; an error drops the connection.
async fn answer(
    shared: Arc<Shared>,
    request: hyper::Request<Incoming>,
) -> Result<Response<Full<Bytes>>, io::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let Some((sms, answer)) = shared.take(&parts.headers, &body) else {
        return respond(401, json!({"code": 401}).to_string());
    };
    if matches!(answer, Answer::Sent | Answer::Lost | Answer::Hang) {
        receipts::report(&shared, &sms);
    }
    match answer {
        Answer::Sent => respond(200, json!({"status": "sent"}).to_string()),
        Answer::Delivered => respond(200, json!({"status": "delivered"}).to_string()),
        Answer::Refused(code) => respond(400, json!({ "code": code }).to_string()),
        Answer::Unavailable => respond(503, String::new()),
        Answer::Lost => Err(io::Error::other("the answer is lost")),
        Answer::Hang => std::future::pending().await,
    }
}

fn respond(status: u16, body: String) -> Result<Response<Full<Bytes>>, io::Error> {
    let mut response =
        Response::builder().status(status).header(header::CONTENT_TYPE, "application/json");
    if status == 503 {
        response = response.header(header::RETRY_AFTER, 1);
    }
    response.body(Full::from(body)).map_err(io::Error::other)
}
