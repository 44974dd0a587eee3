//! A browser: it keeps cookies, and declares with each request which page makes it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{Api, Connection, Reply};

/// The header of a request that a page of the server itself makes.
const OWN: (&str, &str) = ("Sec-Fetch-Site", "same-origin");

/// A browser with a cookie jar.
#[derive(Clone)]
pub struct Browser {
    address: Arc<Mutex<SocketAddr>>,
    cookie: Option<String>,
    /// The cookie by which it is known at its next sign-in.
    device: Option<String>,
    /// Its other headers.
    pub headers: Vec<(String, String)>,
}

impl Browser {
    pub fn new(address: &Arc<Mutex<SocketAddr>>) -> Self {
        Self { address: Arc::clone(address), cookie: None, device: None, headers: Vec::new() }
    }

    /// Returns the same browser with another header.
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut browser = self.clone();
        browser.headers.push((name.to_owned(), value.to_owned()));
        browser
    }

    /// Returns its cookie, as `name=value`.
    pub fn cookie(&self) -> Option<&str> {
        self.cookie.as_deref()
    }

    /// Signs in with this body, and keeps the cookie.
    pub async fn sign_in(&mut self, body: Value) -> Reply {
        self.enter("/ui/api/session", body).await
    }

    /// Joins a workspace with this body, and keeps the cookie.
    pub async fn join(&mut self, body: Value) -> Reply {
        self.enter("/ui/api/join", body).await
    }

    async fn enter(&mut self, path: &str, body: Value) -> Reply {
        let reply = self.send("POST", path, &[OWN], Some(&body)).await;
        let mut cookies = reply.cookies().into_iter();
        let mut next = || cookies.next().map(|it| it.split(';').next().unwrap().to_owned());
        if let Some(cookie) = next() {
            self.cookie = Some(cookie);
        }
        if let Some(device) = next() {
            self.device = Some(device);
        }
        reply
    }

    /// Signs in by the link in a text, such as a banner.
    pub async fn follow(&mut self, text: &str) -> Reply {
        let token = text.split("#in=").nth(1).unwrap().split_whitespace().next().unwrap();
        self.sign_in(json!({ "link": token })).await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[OWN], None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.send("POST", path, &[OWN], Some(&body)).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Reply {
        self.send("PUT", path, &[OWN], Some(&body)).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Reply {
        self.send("PATCH", path, &[OWN], Some(&body)).await
    }

    pub async fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, &[OWN], None).await
    }

    /// Makes a request with these headers, as any page may.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Reply {
        let mut connection = Connection::open(self.at()).await;
        connection.send(self.request(method, path, headers, body)).await;
        let reply = connection.reply().await.unwrap();
        reply.check_always(path);
        // The pages are no part of the document.
        if path != "/" && (!path.starts_with("/ui") || path.starts_with("/ui/api/")) {
            super::document::check_answer(method, path, &reply);
        }
        reply
    }

    /// Returns the bytes of a request.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Vec<u8> {
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut all: Vec<_> = headers.iter().copied().chain(own).collect();
        let cookies = self.cookie.iter().chain(&self.device);
        all.extend(cookies.map(|cookie| ("Cookie", cookie.as_str())));
        let host = self.at().to_string();
        let given = all.iter().find(|(name, _)| *name == "Host").map(|(_, host)| *host);
        all.retain(|(name, _)| *name != "Host");
        let text = body.map(Value::to_string).unwrap_or_default();
        if body.is_some() {
            all.push(("Content-Type", "application/json"));
        }
        let request = Api::new(&self.address, None).request(method, path, &all, text.as_bytes());
        let request = String::from_utf8(request).unwrap();
        let own = format!("Host: {}\r\n", given.unwrap_or(&host));
        request.replacen("Host: postrider\r\n", &own, 1).into_bytes()
    }

    /// Returns the address of the server.
    pub fn at(&self) -> SocketAddr {
        *self.address.lock().unwrap()
    }
}
