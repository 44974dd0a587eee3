//! The record of a settled broadcast's counts.

use expect_test::expect;

use super::BroadcastCounts;
use super::view::RecipientStatus;
use postrider_domain::golden::Sheet;

#[test]
fn counts_are_stored_as_ever() {
    let mut counts = BroadcastCounts::default();
    for (status, number) in RecipientStatus::ALL.iter().zip(1..) {
        *counts.of(*status) = number;
    }
    let mut sheet = Sheet::default();
    sheet.json("counts", &counts);
    sheet.is(expect![[r#"
        counts: {"pending":1,"held":2,"sent":3,"delivered":4,"read":5,"failed":6,"unknown":7,"suppressed":8,"cancelled":9}
    "#]]);
}
