use tempfile::TempDir;

use super::*;
use crate::store::conformance::{Subject, store_contract};

impl Subject for TempDir {
    type Store = FjallStore;

    fn open(&self) -> FjallStore {
        FjallStore::open(self.path(), FjallOptions::default()).unwrap()
    }
}

store_contract!(contract, tempfile::tempdir().unwrap());

#[test]
fn tables_are_listed_in_their_order() {
    for (at, table) in Table::ALL.into_iter().enumerate() {
        assert_eq!(table as usize, at);
    }
}
