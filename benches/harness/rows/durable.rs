//! The minimum that makes requests durable: one thread that writes and syncs for all who wait.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

use tokio::sync::oneshot;

use crate::Result;

/// The size of the file in bytes. It is filled with zeros before, and reused from its start.
const FILE_BYTES: usize = 64 << 20;
/// The maximum number of requests per write.
const GROUP_MAX: usize = 4096;

/// The sender that is notified after a sync.
type Waiting = oneshot::Sender<()>;

/// The handle of the thread, which ends when the last one is dropped.
#[derive(Clone)]
pub(crate) struct Durable(Sender<Waiting>);

impl Durable {
    /// Starts the thread with a file at `path`, to write this many bytes for each request.
    pub(crate) fn start(path: &Path, record_bytes: usize) -> Result<Self> {
        let file = OpenOptions::new().create_new(true).write(true).open(path)?;
        let zeros = vec![0; 1 << 20];
        for at in (0..FILE_BYTES).step_by(zeros.len()) {
            file.write_all_at(&zeros, at as u64)?;
        }
        file.sync_all()?;
        let (sender, waiting) = channel();
        std::thread::Builder::new()
            .name("durable-echo".into())
            .spawn(move || run(&file, record_bytes, &waiting))?;
        Ok(Self(sender))
    }

    /// Resolves when a record was written and synced; to an error if that failed.
    pub(crate) async fn write(&self) -> std::result::Result<(), oneshot::error::RecvError> {
        let (sender, synced) = oneshot::channel();
        // When the thread has ended, the sender is dropped, and that is the error.
        drop(self.0.send(sender));
        synced.await
    }
}

fn run(file: &File, record_bytes: usize, waiting: &Receiver<Waiting>) {
    let (bytes, mut at) = (vec![7; GROUP_MAX * record_bytes], 0);
    let mut group = Vec::with_capacity(GROUP_MAX);
    while let Ok(first) = waiting.recv() {
        group.push(first);
        group.extend(waiting.try_iter().take(GROUP_MAX - 1));
        let length = group.len() * record_bytes;
        if at + length > FILE_BYTES {
            at = 0;
        }
        let written = file.write_all_at(&bytes[..length], at as u64);
        if let Err(error) = written.and_then(|()| file.sync_data()) {
            eprintln!("the durable echo failed: {error}");
            return;
        }
        at += length;
        for waiting in group.drain(..) {
            // A caller that does not wait needs no answer.
            waiting.send(()).ok();
        }
    }
}
