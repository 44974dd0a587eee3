//! The choice of a number: tables, and properties of all pools.

use postrider_channel::cloud_api::CloudApiAccount;
use postrider_domain::Phone;
use postrider_domain::golden::AT;
use proptest::prelude::*;

use super::*;

fn number(of: u8, kind: NumberKind) -> NumberInfo {
    let account = (kind == NumberKind::CloudApi).then(|| CloudApiAccount {
        phone: format!("+1555000{of:04}").parse().unwrap(),
        phone_number_id: format!("{of}").parse().unwrap(),
        account_id: "1".parse().unwrap(),
    });
    let id = NumberId::from_bytes([of; 16]);
    NumberInfo {
        id,
        kind,
        created_at: AT,
        messages_per_second: None,
        account,
        pool: true,
        portfolio_id: None,
    }
}

fn sandboxes(count: u8) -> Vec<NumberInfo> {
    (1..=count).map(|of| number(of, NumberKind::Sandbox)).collect()
}

fn pool(numbers: &[NumberInfo]) -> Pool {
    Pool::of(&"acme".parse().unwrap(), numbers, None)
}

fn contact(number: u32) -> PartyId {
    format!("+1555{number:07}").parse::<Phone>().unwrap().into()
}

#[test]
fn a_phone_has_its_number_in_every_form() {
    let pool = pool(&sandboxes(40));
    for (one, other) in [
        ("+5511987654321", "+551187654321"),
        ("+525512345678", "+5215512345678"),
        ("+5491158749895", "+54111558749895"),
        ("+2250545123456", "+22545123456"),
    ] {
        let number = |phone: &str| pool.choose(&phone.parse().unwrap(), None, |_| true, any);
        assert_eq!(number(one), number(other), "{one}");
    }
}

fn any(_: NumberId) -> bool {
    true
}

#[test]
fn a_number_of_a_provider_has_the_pool_to_its_like() {
    let mut numbers = vec![
        number(1, NumberKind::Sandbox),
        number(2, NumberKind::CloudApi),
        number(3, NumberKind::CloudApi),
    ];
    let all: Vec<_> = numbers.iter().map(|it| it.id).collect();
    let members = |numbers: &[NumberInfo]| pool(numbers).numbers().collect::<Vec<_>>();
    assert_eq!(members(&numbers), all[1..]);
    numbers[1].pool = false;
    assert_eq!(members(&numbers), all[2..]);
    assert!(!pool(&numbers).is_choice());
    numbers[2].pool = false;
    assert_eq!(pool(&numbers).first(), Some(all[0]));
    numbers[0].pool = false;
    assert_eq!((pool(&numbers).first(), members(&numbers)), (None, vec![]));
}

#[test]
fn only_numbers_of_accounts_that_have_the_template_are_chosen() {
    let mut numbers: Vec<_> = (1..=3).map(|of| number(of, NumberKind::CloudApi)).collect();
    assert!(pool(&numbers).is_of_one_account());
    numbers[1].account.as_mut().unwrap().account_id = "2".parse().unwrap();
    let pool = pool(&numbers);
    assert!(!pool.is_of_one_account() && pool.has_account("2") && !pool.has_account("3"));
    assert_eq!((pool.home(), pool.account(numbers[1].id)), (Some("1"), Some(Some("2"))));
    let mut chosen_of = [0; 3];
    for of in 0..100 {
        let last = Some(numbers[1].line());
        let chosen = |has: &dyn Fn(Option<&str>) -> bool| pool.choose(&contact(of), last, has, any);
        assert_ne!(chosen(&|account| account == Some("1")), Some(numbers[1].id));
        assert_eq!(chosen(&|account| account == Some("2")), Some(numbers[1].id));
        assert_eq!(chosen(&|_| false), None);
        let new = pool.choose(&contact(of), None, |_| true, any).unwrap();
        chosen_of[numbers.iter().position(|it| it.id == new).unwrap()] += 1;
    }
    assert!(chosen_of.iter().all(|count| *count > 15), "{chosen_of:?}");
}

#[test]
fn a_number_is_called_by_its_id_or_its_phone() {
    let numbers = [number(1, NumberKind::Sandbox), number(2, NumberKind::CloudApi)];
    let [one, two] = [numbers[0].id, numbers[1].id];
    for (name, expected) in [
        (one.to_string(), Some(one)),
        (two.to_string(), Some(two)),
        ("+15550000002".to_owned(), Some(two)),
        ("+15550000001".to_owned(), None),
        (NumberId::from_bytes([3; 16]).to_string(), None),
        (String::new(), None),
    ] {
        assert_eq!(find_by_name(&numbers, &name), expected, "{name}");
    }
}

#[test]
fn who_was_alone_is_remembered_when_others_join() {
    let [none, one, two, three] = [0, 1, 2, 3].map(|count| pool(&sandboxes(count)));
    let alone = Alone { line: one.members[0].line, until: AT };
    assert_eq!(none.alone_before(&one, AT), None);
    assert_eq!(one.alone_before(&two, AT), Some(alone));
    assert_eq!(two.alone_before(&three, AT), None);
    let later = Pool { alone: Some(alone), ..two };
    assert_eq!(later.alone_before(&three, AT.plus(std::time::Duration::from_secs(1))), Some(alone));
}

#[test]
fn weights_are_as_ever() {
    let pool = pool(&sandboxes(4));
    let chosen: Vec<u8> = (0..16)
        .map(|of| pool.choose(&contact(of), None, |_| true, any).unwrap().as_bytes()[0])
        .collect();
    expect_test::expect!["[3, 3, 3, 2, 4, 4, 4, 3, 2, 3, 3, 2, 4, 3, 1, 1]"]
        .assert_eq(&format!("{chosen:?}"));
}

#[test]
fn a_number_that_joins_takes_its_share_and_nothing_else_moves() {
    const CONTACTS: u32 = 20_000;
    for count in 1..=8 {
        let (before, after) = (pool(&sandboxes(count)), pool(&sandboxes(count + 1)));
        let new = NumberId::from_bytes([count + 1; 16]);
        let mut moved = 0;
        for of in 0..CONTACTS {
            let [was, is] =
                [&before, &after].map(|pool| pool.choose(&contact(of), None, |_| true, any));
            if was != is {
                assert_eq!(is, Some(new));
                moved += 1;
            }
        }
        let share = f64::from(moved) * f64::from(count + 1) / f64::from(CONTACTS);
        assert!((0.93..1.07).contains(&share), "{count}: {share}");
    }
}

proptest! {
    #[test]
    fn the_choice_keeps_the_last_number_and_avoids_those_that_are_not_free(
        count in 1_u8..=64,
        of in 0_u32..10_000_000,
        last in prop::option::of(1_u8..=64),
        busy in prop::collection::btree_set(1_u8..=64, 0..64),
    ) {
        let numbers = sandboxes(count);
        let pool = pool(&numbers);
        let is_free = |id: NumberId| !busy.contains(&id.as_bytes()[0]);
        let last = last.map(|last| NumberId::from_bytes([last; 16]));
        let chosen = pool.choose(&contact(of), last, |_| true, is_free).unwrap();
        let known = last.filter(|last| last.as_bytes()[0] <= count);
        if let Some(last) = known.filter(|last| is_free(*last)) {
            prop_assert_eq!(chosen, last);
        }
        if numbers.iter().any(|number| is_free(number.id)) {
            prop_assert!(is_free(chosen));
        } else {
            prop_assert_eq!(Some(chosen), pool.choose(&contact(of), last, |_| true, any));
        }
        // The order of the numbers is of no weight.
        let turned: Vec<_> = numbers.into_iter().rev().collect();
        let other = Pool::of(&"acme".parse().unwrap(), &turned, None);
        prop_assert_eq!(Some(chosen), other.choose(&contact(of), last, |_| true, is_free));
    }
}
