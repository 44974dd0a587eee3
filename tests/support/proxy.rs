//! A proxy that can be cut, and that keeps its address when the server moves.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Passes connections on to the present address of a server.
pub struct Proxy {
    address: SocketAddr,
    ways: Arc<Ways>,
}

/// The faults that it adds to connections.
#[derive(Default)]
struct Ways {
    /// Bytes of answers after which a connection is cut, once.
    cut_after: Mutex<Option<usize>>,
    /// Answers of its own, one for each of the next connections.
    answers: Mutex<VecDeque<String>>,
}

impl Proxy {
    pub(super) async fn to(server: Arc<Mutex<SocketAddr>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let ways = Arc::new(Ways::default());
        let way = Arc::clone(&ways);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (to, way) = (*server.lock().unwrap(), Arc::clone(&way));
                tokio::spawn(async move {
                    let answer = way.answers.lock().unwrap().pop_front();
                    if let Some(answer) = answer {
                        // Answers once some of the request has come; then the connection ends.
                        let mut request = Vec::with_capacity(65536);
                        client.read_buf(&mut request).await.unwrap();
                        client.write_all(answer.as_bytes()).await.ok();
                    } else if let Ok(server) = TcpStream::connect(to).await {
                        pass(client, server, &way.cut_after).await;
                    }
                });
            }
        });
        Self { address, ways }
    }

    /// Returns its address as that of a server.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Cuts the connection that carries the next bytes of answers, after this number of them.
    pub fn cut_after(&self, bytes: usize) {
        *self.ways.cut_after.lock().unwrap() = Some(bytes);
    }

    /// Adds an answer of its own for one of the next connections, after those added before.
    pub fn answer(&self, answer: String) {
        self.ways.answers.lock().unwrap().push_back(answer);
    }

    /// Returns whether it has been cut.
    pub fn was_cut(&self) -> bool {
        self.ways.cut_after.lock().unwrap().is_none()
    }
}

/// Passes bytes on until one side closes or the cut is due.
async fn pass(client: TcpStream, server: TcpStream, cut: &Mutex<Option<usize>>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let asking = tokio::io::copy(&mut from_client, &mut to_server);
    let answering = async {
        let mut buffer = vec![0; 4096];
        while let Ok(count @ 1..) = from_server.read(&mut buffer).await {
            let is_over = {
                let mut cut = cut.lock().unwrap();
                match *cut {
                    Some(left) if left <= count => {
                        *cut = None;
                        true
                    }
                    Some(left) => {
                        *cut = Some(left - count);
                        false
                    }
                    None => false,
                }
            };
            if is_over || to_client.write_all(&buffer[..count]).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        _ = asking => {}
        () = answering => {}
    }
}
