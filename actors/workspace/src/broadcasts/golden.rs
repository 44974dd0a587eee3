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
        counts: {"pending":1,"sent":2,"delivered":3,"read":4,"failed":5,"unknown":6,"suppressed":7,"cancelled":8}
    "#]]);
}
