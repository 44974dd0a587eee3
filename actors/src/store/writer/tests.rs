use super::*;
use crate::store::MemoryStore;

#[tokio::test]
async fn what_is_acknowledged_is_in_the_store() {
    let store = MemoryStore::new();
    let writer = Writer::start(Arc::new(store.clone()), WriterOptions::default()).unwrap();
    writer
        .commit(vec![Change::put(super::super::Table::Keys, *b"k", *b"v")])
        .await
        .unwrap();
    assert_eq!(
        store.get(super::super::Table::Keys, b"k"),
        Ok(Some(b"v".to_vec()))
    );
    writer.stop();
    assert_eq!(writer.barrier().await, Err(CommitError::Closed));
}
