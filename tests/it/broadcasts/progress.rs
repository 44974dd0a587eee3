//! The progress of a broadcast is emitted on the event stream.

use serde_json::{Value, json};

use crate::support::{Api, TestServer};

const PATH: &str = "/v1/messaging/broadcasts";
const RECIPIENTS: u32 = 3000;

/// The messages of a stream, each with its type and object.
struct Stream {
    response: reqwest::Response,
    text: String,
}

impl Stream {
    async fn open(server: &TestServer, api: &Api, query: &str) -> Self {
        // Another test may have installed a provider already.
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("http://{}/v1/events/stream{query}", server.address());
        let response = client.get(url).bearer_auth(api.token()).send().await.unwrap();
        assert_eq!(response.status(), 200);
        Self { response, text: String::new() }
    }

    async fn next(&mut self) -> (String, Option<String>, Value) {
        loop {
            if let Some((message, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    let line = message.lines().find_map(|line| line.strip_prefix(name));
                    line.map(str::to_owned)
                };
                let found = (field("event: "), field("id: "), field("data: "));
                self.text = rest.to_owned();
                if let (Some(kind), id, Some(data)) = found {
                    return (kind, id, serde_json::from_str(&data).unwrap());
                }
                continue;
            }
            let chunk = self.response.chunk().await.unwrap().expect("the stream goes on");
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }
}

#[tokio::test]
async fn counts_are_emitted_while_it_is_sent_and_always_add_up() {
    let server = TestServer::start().await;
    let api = server.demo();
    let mut streams = [
        Stream::open(&server, &api, "").await,
        Stream::open(&server, &api, "?types=broadcast.progress").await,
    ];
    let phones: Vec<_> = (0..RECIPIENTS).map(|number| format!("+1555{number:07}")).collect();
    let body = json!({"name": "Sale", "template_name": "spring_sale", "recipients": phones});
    let id = api.post(PATH, body).await.ok()["broadcast_id"].clone();
    for (at, stream) in streams.iter_mut().enumerate() {
        let (mut emitted, mut others) = (Vec::new(), 0);
        loop {
            let (kind, event_id, data) = stream.next().await;
            if kind != "broadcast.progress" {
                others += usize::from(kind != "ping");
                continue;
            }
            assert_eq!((&event_id, &data["broadcast_id"]), (&None, &id));
            let counts = data["counts"].as_object().unwrap();
            let sum: u64 = counts.values().map(|count| count.as_u64().unwrap()).sum();
            assert_eq!((counts.len(), sum), (9, u64::from(RECIPIENTS)), "{data}");
            assert_eq!(data["total_recipients"], RECIPIENTS);
            assert!(data["rate_per_second"].is_number() && data.get("eta_seconds").is_some());
            let is_over = data["status"] == "completed";
            emitted.push(data);
            if is_over {
                break;
            }
        }
        assert_eq!(emitted.last().unwrap()["counts"]["pending"], 0);
        assert!(emitted.len() < 100, "{} times: it is folded", emitted.len());
        // A stream of this type alone has no other events.
        assert_eq!(others == 0, at == 1, "{others}");
    }
    // The log contains no progress.
    let events = api.get("/v1/events?limit=200").await.ok();
    let logged = events["data"].as_array().unwrap().iter();
    assert!(logged.clone().all(|event| event["type"] != "broadcast.progress"));
}

#[tokio::test]
async fn a_change_of_status_is_emitted_at_once() {
    let server = TestServer::start().await;
    let api = server.demo();
    let at = "2100-01-01T00:00:00Z";
    let body = json!({"name": "Sale", "template_name": "spring_sale",
        "recipients": ["+15550000001"], "schedule_at": at});
    let made = api.post(PATH, body).await.ok();
    let mut stream = Stream::open(&server, &api, "").await;
    let cancel = format!("{PATH}/{}/cancel", made["broadcast_id"].as_str().unwrap());
    api.call("POST", &cancel, &[], b"").await.ok();
    loop {
        let (kind, _, data) = stream.next().await;
        if kind == "broadcast.progress" && data["status"] == "cancelled" {
            assert_eq!(data["broadcast_id"], made["broadcast_id"]);
            assert_eq!(
                (&data["counts"]["cancelled"], &data["eta_seconds"]),
                (&json!(1), &Value::Null)
            );
            break;
        }
    }
}
