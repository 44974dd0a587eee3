//! Connections and paths.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Response, header};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{Shared, messages, templates};

/// The status and the body.
pub(super) struct Answer(pub(super) u16, pub(super) String);

/// Accepts connections for ever.
pub(super) async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let shared = Arc::clone(&shared);
        let service = service_fn(move |request| answer(Arc::clone(&shared), request));
        let tls = tls.clone();
        drop(tokio::spawn(async move {
            if let Some(tls) = tls {
                let Ok(stream) = tls.accept(stream).await else { return };
                let connection = auto::Builder::new(TokioExecutor::new());
                connection.serve_connection(TokioIo::new(stream), service).await.ok();
                return;
            }
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
    let path = parts.uri.path().to_owned();
    let authorization = parts.headers.get(header::AUTHORIZATION);
    let authorization = authorization.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let segments: Vec<_> = path.trim_start_matches('/').split('/').collect();
    let known = shared.state.lock().unwrap().token.as_deref().is_none_or(|token| {
        authorization.strip_prefix("Bearer ").is_some_and(|given| given == token)
    });
    if let (true, [_, id]) = (path.starts_with("/files/") && known, &segments[..]) {
        let content = shared.state.lock().unwrap().offered.get(*id).map(|it| it.1.clone());
        return Ok(Response::new(Full::from(content.unwrap_or_default())));
    }
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.unwrap_or_default();
    let is_message = matches!(segments[..], [_, _, "messages"]);
    if is_message {
        shared.note(parts.version, &path, authorization, &body);
    }
    let Answer(status, json) = match (parts.method, &segments[..]) {
        _ if !known => messages::error(401, 190),
        (Method::POST, _) if is_message => match messages::take(&shared, &path, &body).await {
            Some(answer) => answer,
            None => return Err(io::Error::other("the answer is lost")),
        },
        (Method::POST, [_, number, "media"]) => {
            let kind = parts.headers.get(header::CONTENT_TYPE);
            let kind = kind.and_then(|value| value.to_str().ok()).unwrap_or_default();
            messages::take_file(&shared, number, kind, &body)
        }
        (Method::GET, [_, account, "message_templates"]) => {
            templates::page(&shared, account, parts.uri.query().unwrap_or_default())
        }
        (Method::GET, [_, "debug_token"]) => said_of_token(&shared),
        (Method::GET, [_, _, "subscribed_apps"]) => {
            let is_none = shared.state.lock().unwrap().unsubscribed;
            let app = serde_json::json!({"whatsapp_business_api_data": {"id": "1", "name": "App"}});
            let data = if is_none { Vec::new() } else { vec![app] };
            Answer(200, serde_json::json!({ "data": data }).to_string())
        }
        (Method::GET, [_, id]) => messages::place_of_file(&shared, host, id).unwrap_or_else(|| {
            let asked = parts.uri.query().unwrap_or_default();
            let said = shared.state.lock().unwrap().said_of_number(id, asked);
            Answer(if said["error"].is_null() { 200 } else { 400 }, said.to_string())
        }),
        _ => messages::error(400, 100),
    };
    let retry_after = shared.state.lock().unwrap().retry_after.filter(|_| status == 429);
    let mut response =
        Response::builder().status(status).header(header::CONTENT_TYPE, "application/json");
    if let Some(seconds) = retry_after {
        response = response.header(header::RETRY_AFTER, seconds);
    }
    response.body(Full::from(json)).map_err(io::Error::other)
}

/// Returns the time at which the token expires, if the fake is to report it.
fn said_of_token(shared: &Shared) -> Answer {
    match shared.state.lock().unwrap().token_expires_at {
        Some(at) => {
            let said = serde_json::json!({"data": {"is_valid": true, "expires_at": at}});
            Answer(200, said.to_string())
        }
        None => messages::error(400, 100),
    }
}
