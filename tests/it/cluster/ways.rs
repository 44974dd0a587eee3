//! Ways between processes that can be cut.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A way to a server on which either direction can be cut. Bytes then wait, and connections stay
/// open.
pub struct Way {
    pub address: SocketAddr,
    cut: [watch::Sender<bool>; 2],
}

impl Way {
    pub async fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut: [watch::Sender<bool>; 2] = Default::default();
        let [there, back] = cut.each_ref().map(watch::Sender::subscribe);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&server).await else { continue };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(pass(from_client, to_server, there.clone()));
                tokio::spawn(pass(from_server, to_client, back.clone()));
            }
        });
        Self { address, cut }
    }

    pub fn set(&self, direction: usize, is_cut: bool) {
        self.cut[direction].send_replace(is_cut);
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut is_cut: watch::Receiver<bool>) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if is_cut.wait_for(|is_cut| !is_cut).await.is_err() {
            break;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }
}

/// The ways between servers, each of which calls the others.
pub struct Ways {
    names: Vec<String>,
    /// The ways, each with the places of the calling and of the called server.
    ways: Vec<(usize, usize, Way)>,
}

impl Ways {
    /// Opens ways between servers with these names and ports.
    pub async fn between(names: &[&str], ports: &[u16]) -> Self {
        let mut ways = Vec::new();
        for from in 0..names.len() {
            for to in (0..names.len()).filter(|to| *to != from) {
                ways.push((from, to, Way::to(format!("127.0.0.1:{}", ports[to])).await));
            }
        }
        Self { names: names.iter().map(|it| (*it).to_owned()).collect(), ways }
    }

    /// Returns the addresses at which a server reaches the others.
    pub fn of(&self, server: usize) -> Vec<SocketAddr> {
        self.ways.iter().filter(|(from, ..)| *from == server).map(|(.., way)| way.address).collect()
    }

    /// Cuts a server's traffic to the others, and theirs to it, or restores it.
    pub fn cut(&self, server: &str, sends: bool, hears: bool) {
        let at = self.names.iter().position(|it| it == server).expect(server);
        for (from, to, way) in &self.ways {
            if *from == at {
                way.set(0, sends);
                way.set(1, hears);
            } else if *to == at {
                way.set(1, sends);
                way.set(0, hears);
            }
        }
    }
}
