//! The logs and panics of the servers' threads, by the name of the thread.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, Once};

use tracing_subscriber::fmt::MakeWriter;

/// The store's thread, which is not one of a runtime and has one name in every server.
const STORE_THREAD: &str = "store-writer";

static PANICS: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());
static LOGS: Mutex<Option<HashMap<String, Vec<u8>>>> = Mutex::new(None);

/// Starts to listen, once in the process.
pub fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_ansi(false)
            .with_writer(Logs)
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
        let shown = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.lock().unwrap().push((thread_name(), panic.to_string()));
            shown(panic);
        }));
    });
}

/// Returns the panics on threads of that name, or of any server's store.
pub fn panics_of(name: &str) -> Vec<String> {
    let panics = PANICS.lock().unwrap();
    let ours = panics.iter().filter(|(thread, _)| thread == name || thread == STORE_THREAD);
    ours.map(|(_, text)| text.clone()).collect()
}

/// Returns the log of threads of that name, and of any server's store.
pub fn log_of(name: &str) -> String {
    let logs = LOGS.lock().unwrap();
    let of =
        |name: &str| logs.as_ref().and_then(|logs| logs.get(name)).cloned().unwrap_or_default();
    let mut log = of(name);
    log.extend(of(STORE_THREAD));
    String::from_utf8(log).unwrap()
}

fn thread_name() -> String {
    std::thread::current().name().unwrap_or_default().to_owned()
}

struct Logs;

impl MakeWriter<'_> for Logs {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        Self
    }
}

impl io::Write for Logs {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut logs = LOGS.lock().unwrap();
        logs.get_or_insert_default().entry(thread_name()).or_default().extend_from_slice(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
