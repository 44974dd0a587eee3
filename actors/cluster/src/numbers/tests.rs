//! Tests of claims of numbers in a bucket in memory.

use super::*;
use crate::clock::StillClock;
use crate::coordination::FakeCoordination;

fn list() -> (FakeCoordination, NumberList) {
    let bucket = FakeCoordination::new(Arc::new(StillClock::default()));
    (bucket.clone(), NumberList::new(Arc::new(bucket)))
}

fn holder(number: &str, shard: u16, app: &str) -> NumberHolder {
    NumberHolder { number: number.to_owned(), shard, apps: vec![app.to_owned()] }
}

#[test]
fn a_number_has_one_shard_until_that_gives_it_up() {
    let (bucket, list) = list();
    let other = NumberList::new(Arc::new(bucket));
    assert!(list.claim("106", &holder("num_a", 1, "x")).unwrap());
    assert!(!other.claim("106", &holder("num_b", 2, "x")).unwrap());
    // The remains of a process that died before its commit do not block others in the same shard.
    assert!(other.claim("106", &holder("num_c", 1, "x")).unwrap());
    other.release("106", 1, "num_a").unwrap();
    other.release("106", 2, "num_c").unwrap();
    assert!(!other.claim("106", &holder("num_b", 2, "x")).unwrap(), "another's was released");
    list.release("106", 1, "num_c").unwrap();
    assert!(other.claim("106", &holder("num_b", 2, "x")).unwrap());
}

#[test]
fn a_copy_has_what_was_claimed_before_it_was_brought_up_to_date() {
    let (bucket, list) = list();
    let other = NumberList::new(Arc::new(bucket));
    for at in 0..500_u16 {
        let name = format!("10{at}");
        assert!(list.claim(&name, &holder(&format!("num_{at}"), at % 4, "x")).unwrap());
    }
    assert_eq!(other.holder("num_7"), None);
    other.refresh().unwrap();
    let seventh = other.holder("num_7").unwrap();
    assert_eq!(seventh, holder("num_7", 3, "x"));
    let beside = other.beside(&seventh);
    assert_eq!(beside.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
    assert!(beside.values().all(|it| it.len() == 125), "{beside:?}");
    assert!(other.beside(&holder("num_7", 3, "y")).is_empty(), "another app's numbers");
    list.release("107", 3, "num_7").unwrap();
    assert!(list.claim("108", &holder("num_new", 0, "y")).unwrap());
    other.refresh().unwrap();
    assert_eq!((other.holder("num_7"), other.holder("num_8")), (None, None));
    assert_eq!(other.holder("num_new").unwrap().shard, 0);
}

#[test]
fn a_shard_holds_what_its_records_have_and_no_more() {
    let (_, list) = list();
    assert!(list.claim("1", &holder("num_left", 1, "x")).unwrap());
    assert!(list.claim("2", &holder("num_of_another", 2, "x")).unwrap());
    assert!(list.claim("3", &holder("num_kept", 1, "old")).unwrap());
    list.refresh().unwrap();
    let held = [
        ("2".to_owned(), holder("num_twice", 1, "x")),
        ("3".to_owned(), holder("num_kept", 1, "new")),
        ("4".to_owned(), holder("num_imported", 1, "x")),
    ];
    assert!(!list.is_complete(2));
    assert!(list.keep(1, &held, &|| false).is_err());
    list.refresh().unwrap();
    assert!(list.holder("num_left").is_some(), "an owner that was replaced changes nothing");
    assert_eq!(list.keep(1, &held, &|| true).unwrap(), ["num_twice"]);
    list.refresh().unwrap();
    assert_eq!(list.holder("num_left"), None);
    assert_eq!(list.holder("num_of_another").unwrap().shard, 2);
    assert_eq!(list.holder("num_kept").unwrap().apps, ["new"]);
    assert_eq!(list.holder("num_imported").unwrap().shard, 1);
    assert!(!list.is_complete(2), "the other shard has said nothing");
    list.keep(0, &[], &|| true).unwrap();
    list.refresh().unwrap();
    assert!(list.is_complete(2) && !list.is_complete(3));
}

#[test]
fn a_bucket_that_was_made_anew_is_read_from_its_beginning() {
    let clock = Arc::new(StillClock::default());
    let swapped = Swapped(Mutex::new(FakeCoordination::new(clock.clone())));
    let swapped = Arc::new(swapped);
    let list = NumberList::new(swapped.clone());
    let held = [("1".to_owned(), holder("num_a", 0, "x"))];
    for _ in 0..5 {
        assert!(list.claim("9", &holder("num_b", 0, "x")).unwrap());
        list.release("9", 0, "num_b").unwrap();
    }
    list.refresh().unwrap();
    list.keep(0, &held, &|| true).unwrap();
    list.refresh().unwrap();
    // This list is on a node that owns no shard.
    let other = NumberList::new(swapped.clone());
    other.refresh().unwrap();
    let know = |is_known| {
        for list in [&list, &other] {
            list.refresh().unwrap();
            assert_eq!((list.is_complete(1), list.holder("num_a").is_some()), (is_known, is_known));
        }
    };
    know(true);
    // Its revisions may reach those of the other bucket before anybody reads it.
    for writes in [0, 50] {
        let anew = FakeCoordination::new(clock.clone());
        for at in 0..writes {
            anew.write(&format!("node.{at}"), Bytes::new(), 0, None).unwrap();
        }
        *swapped.0.lock() = anew;
        know(false);
        list.keep(0, &held, &|| true).unwrap();
        know(true);
    }
}

#[test]
fn a_number_whose_holder_cannot_be_read_keeps_no_other_away() {
    let (bucket, list) = list();
    assert!(list.claim("1", &holder("num_a", 0, "x")).unwrap());
    list.refresh().unwrap();
    let (key, junk) = (key_of("1"), Bytes::from_static(b"{\"number\":"));
    let revision = bucket.read(&key).unwrap().unwrap().revision;
    assert!(bucket.write(&key, junk, revision, None).unwrap().is_some());
    assert!(list.claim("2", &holder("num_b", 1, "x")).unwrap());
    let other = NumberList::new(Arc::new(bucket));
    for list in [&list, &other] {
        list.refresh().unwrap();
        list.refresh().unwrap();
        assert_eq!(list.holder("num_b").unwrap().shard, 1);
    }
    assert_eq!(list.holder("num_a").unwrap().shard, 0, "it is the last that was known");
    assert_eq!(other.holder("num_a"), None);
    assert!(list.claim("1", &holder("num_a", 0, "y")).is_err());
}

/// A bucket that another one replaces.
#[derive(Debug)]
struct Swapped(Mutex<FakeCoordination>);

impl Coordination for Swapped {
    fn write(
        &self,
        key: &str,
        value: Bytes,
        expected: u64,
        ttl_seconds: Option<u64>,
    ) -> Result<Option<u64>, CoordinationError> {
        self.0.lock().write(key, value, expected, ttl_seconds)
    }

    fn read(&self, key: &str) -> Result<Option<KeyValue>, CoordinationError> {
        self.0.lock().read(key)
    }

    fn keys(&self, prefix: &str) -> Result<BTreeMap<String, KeyValue>, CoordinationError> {
        self.0.lock().keys(prefix)
    }

    fn made_at(&self) -> Result<u64, CoordinationError> {
        self.0.lock().made_at()
    }
}
