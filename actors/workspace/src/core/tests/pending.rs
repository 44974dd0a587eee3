//! Tests the search for pending requests against a look at all.

use postrider_domain::OtpCode;
use proptest::prelude::*;

use super::*;
use crate::core::otp::extras::TestPhones;
use crate::core::otp::pending::PendingQuery;

#[derive(Debug, Clone)]
enum Step {
    Send(u32),
    Resend(usize),
    Verify(usize),
    Pass(u64),
    Rebase(u64),
    Tick,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0_u32..4).prop_map(Step::Send),
        2 => any::<usize>().prop_map(Step::Resend),
        2 => any::<usize>().prop_map(Step::Verify),
        3 => prop_oneof![Just(1_u64), 1_u64..60_000, 1_u64..2_000_000].prop_map(Step::Pass),
        1 => (1_u64..400_000).prop_map(Step::Rebase),
        2 => Just(Step::Tick),
    ]
}

fn take(bench: &mut Bench, ids: &mut Vec<RequestId>, step: &Step) {
    match *step {
        Step::Send(to) => {
            // The last of them is a test phone.
            ids.extend(bench.send(phone(to)).ok().map(|sent| sent.request_id));
        }
        Step::Resend(at) if !ids.is_empty() => {
            bench.resend(ids[at % ids.len()]).ok();
        }
        Step::Verify(at) if !ids.is_empty() => {
            let id = ids[at % ids.len()];
            if bench.core.known(id).is_some() {
                let code = bench.code(id);
                bench.verify(id, &code).ok();
            }
        }
        Step::Pass(ms) => bench.pass(Duration::from_millis(ms)),
        Step::Rebase(ms) => {
            bench.now = bench.now.minus(Duration::from_millis(ms));
            bench.core.hot.rebase(bench.now);
        }
        Step::Tick => while bench.tick() {},
        Step::Resend(_) | Step::Verify(_) => {}
    }
}

/// Returns all pages of the search.
fn pages(hot: &HotState, wanted: PendingQuery) -> Vec<RequestId> {
    let (mut ids, mut before) = (Vec::new(), wanted.before);
    loop {
        let found = hot.pending(&PendingQuery { before, ..wanted }, |_| true);
        ids.extend(found.otps.iter().map(|otp| otp.id));
        let Some(down_to) = found.down_to else { return ids };
        assert!(before.is_none_or(|before| down_to < before), "it goes on");
        before = Some(down_to);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_finds_what_a_look_at_all_does(steps in prop::collection::vec(step(), 1..60)) {
        let mut bench = Bench::unlimited();
        let codes = [(phone(3), OtpCode::chosen("123456").unwrap())];
        bench.core.test_phones = Arc::new(TestPhones::new(codes));
        let mut ids = Vec::new();
        for step in &steps {
            take(&mut bench, &mut ids, step);
            bench.core.observe(bench.now);
            if bench.core.hot.is_behind() {
                while bench.tick() {}
            }
            let hot = &bench.core.hot;
            let mut all: Vec<_> = hot.otps.iter().map(|(_, otp)| *otp).collect();
            all.retain(|otp| otp.noted == OtpStatus::Active);
            all.sort_unstable_by_key(|otp| std::cmp::Reverse(otp.id));
            let some = all.get(all.len() / 2).map(|otp| otp.id);
            for to in [None, Some(phone(1)), Some(phone(3))] {
                for (before, since) in [(None, None), (some, None), (None, some), (some, some)] {
                    let since = since.map(|id| id.timestamp().minus(MINUTE));
                    let expected: Vec<_> = all
                        .iter()
                        .filter(|otp| to.is_none_or(|to| otp.phone == to))
                        .filter(|otp| before.is_none_or(|before| otp.id < before))
                        .filter(|otp| since.is_none_or(|since| since <= otp.id.timestamp()))
                        .map(|otp| otp.id)
                        .collect();
                    for (enough, looks) in [(1, 10_000), (3, 2), (200, 10_000)] {
                        let wanted = PendingQuery { phone: to, before, since, enough, looks };
                        prop_assert_eq!(&pages(hot, wanted), &expected, "{:?}", wanted);
                    }
                }
            }
        }
    }
}
