//! Measures the bytes that a single message makes durable, by part: it is written and settled.

use std::collections::BTreeMap;

use expect_test::expect;
use parking_lot::Mutex;
use postrider_store::hooked::{Hook, Hooked};
use postrider_store::{Group, MemoryStore};

use super::message_commands::{send_message, until_sent, welcome};
use super::*;
use crate::MessageStatus;

/// The bytes of the committed groups, by part: the number of writes, and keys and values.
#[derive(Debug, Clone, Default)]
struct Written(Arc<Mutex<BTreeMap<String, [usize; 3]>>>);

impl Written {
    fn add(&self, part: &str, [key, value]: [usize; 2]) {
        let mut written = self.0.lock();
        let bytes = written.entry(part.to_owned()).or_default();
        *bytes = [bytes[0] + 1, bytes[1] + key, bytes[2] + value];
    }

    /// Returns the writes since the last call, a line for each part.
    fn take(&self) -> String {
        let written = std::mem::take(&mut *self.0.lock());
        let sum: usize = written.values().map(|[_, keys, values]| keys + values).sum();
        let line = |(part, [times, keys, values]): (_, &[usize; 3])| {
            format!("{part}: {times} times, {keys} of keys, {values} of values\n")
        };
        written.iter().map(line).chain([format!("all: {sum}\n")]).collect()
    }
}

impl Hook for Written {
    fn before_group(&self, group: &Group<'_>) {
        for section in group.frame.iter().flat_map(|frame| &frame.sections) {
            self.add("journal", [0, section.events.len()]);
        }
        // The rest belongs to the engine as a whole, and is written by time.
        for change in group.changes.iter().filter(|change| change.table.is_of_workspaces()) {
            let kind = match change.value {
                Some(_) => "put",
                None => "delete",
            };
            let value = change.value.as_ref().map_or(0, Vec::len);
            self.add(&format!("{} {kind}", change.table.name()), [change.key.len(), value]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_is_written_in_so_many_bytes() {
    let store = Hooked { inner: MemoryStore::new(), hook: Written::default() };
    let written = store.hook.clone();
    let engine = Engine::start(options(store, START)).await.unwrap();
    let acme = workspace(&engine, "acme", 10).await;
    acme.create_template(welcome()).await.unwrap();
    let settled = async |number| {
        let id = send_message(&acme, phone(number)).await.unwrap().message_id;
        until_sent(&acme, id).await;
        assert_eq!(acme.message(id).await.unwrap().unwrap().status, MessageStatus::Sent);
    };
    // Some records are written with the first message only.
    settled(1).await;
    written.take();
    settled(2).await;
    expect![[r#"
        events put: 2 times, 26 of keys, 152 of values
        journal: 2 times, 0 of keys, 130 of values
        message_index put: 2 times, 70 of keys, 8 of values
        messages put: 1 times, 21 of keys, 57 of values
        workspaces put: 1 times, 12 of keys, 8 of values
        all: 484
    "#]]
    .assert_eq(&written.take());
}
