//! Tests the list of one-time passwords against a model, under random operations and crashes.

use std::collections::{BTreeMap, BTreeSet};

use postrider_domain::OtpCode;
use postrider_domain::code::Expiry;
use postrider_domain::event::chain::OtpChannel;
use postrider_domain::event::{Delivery, OtpStatus};
use postrider_store::{Direction, Keep, Table, View};
use postrider_workspace::core::otp::types::SendMore;
use proptest::prelude::*;
use tokio::task::JoinSet;

use super::*;
use crate::{OtpFilter, OtpState, TestPhones, VerifyOtpError};

const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Clone, Copy)]
enum Operation {
    /// To this phone, under this reference, for so many seconds.
    Send(u32, Option<u8>, u16),
    Verify(usize),
    Miss(usize),
    Cancel(usize),
}

#[derive(Debug, Clone)]
enum Step {
    Run(Operation),
    Pass(u64),
    /// The power is cut while these are in progress.
    Crash(Vec<Operation>, usize, Keep),
    Restart,
    Check,
}

fn operation() -> impl Strategy<Value = Operation> {
    let reference = prop_oneof![Just(None), (0_u8..2).prop_map(Some)];
    prop_oneof![
        5 => (0_u32..4, reference, 60_u16..900).prop_map(|(to, name, s)| Operation::Send(to, name, s)),
        3 => any::<usize>().prop_map(Operation::Verify),
        2 => any::<usize>().prop_map(Operation::Miss),
        1 => any::<usize>().prop_map(Operation::Cancel),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let millis = prop_oneof![Just(1_u64), 1_u64..100_000, 1_u64..8_000_000];
    let some = prop::collection::vec(operation(), 0..5);
    let keep = prop_oneof![
        Just(Keep::Nothing),
        Just(Keep::Everything),
        (0_usize..300).prop_map(Keep::Bytes)
    ];
    prop_oneof![
        14 => operation().prop_map(Step::Run),
        4 => millis.prop_map(Step::Pass),
        1 => (some, 0_usize..10, keep).prop_map(|(some, yields, keep)| Step::Crash(some, yields, keep)),
        1 => Just(Step::Restart),
        3 => Just(Step::Check),
    ]
}

/// The known state of an acknowledged request.
#[derive(Debug, Clone)]
struct Known {
    to: Phone,
    reference: Option<String>,
    /// Its end, if that was answered.
    ended: Option<OtpStatus>,
    /// Set if an unanswered end may have happened.
    is_uncertain: bool,
}

struct Run {
    store: CrashingStore,
    engine: Engine,
    known: BTreeMap<RequestId, Known>,
}

/// The result of an operation, if it was answered.
enum Answered {
    Sent(RequestId, Known),
    Ended(RequestId, OtpStatus),
    Uncertain(RequestId),
    Nothing,
}

async fn carry_out(
    acme: Workspace,
    operation: Operation,
    request: Option<(RequestId, Phone)>,
) -> Answered {
    match (operation, request) {
        (Operation::Send(to, name, seconds), _) => {
            let reference = name.map(|name| format!("order-{name}"));
            let more = SendMore { reference: reference.clone(), ..SendMore::default() };
            let expiry = Expiry::from_seconds(seconds.into()).unwrap();
            let command = SendOtp { expiry, more: Some(more.into()), ..SendOtp::to(phone(to)) };
            let known = Known { to: phone(to), reference, ended: None, is_uncertain: false };
            match acme.send_otp(command).await {
                Ok(sent) => Answered::Sent(sent.request_id, known),
                Err(_) => Answered::Nothing,
            }
        }
        (Operation::Verify(_), Some((id, to))) => {
            let code = if to == phone(3) { "123456".into() } else { code(acme.id(), id, to) };
            match acme.verify_otp(id, &code).await {
                Ok(_) => Answered::Ended(id, OtpStatus::Verified),
                Err(error) => unanswered(id, &error),
            }
        }
        (Operation::Miss(_), Some((id, _))) => match acme.verify_otp(id, "no").await {
            Err(VerifyOtpError::MaxAttempts) => Answered::Ended(id, OtpStatus::Invalidated),
            Ok(_) => Answered::Nothing,
            Err(error) => unanswered(id, &error),
        },
        (Operation::Cancel(_), Some((id, _))) => match acme.cancel_otp(id).await {
            Ok(()) => Answered::Ended(id, OtpStatus::Cancelled),
            Err(error) => unanswered(id, &error),
        },
        (_, None) => Answered::Nothing,
    }
}

/// Returns the result of an error: a refusal changes nothing, and an unanswered end may have
/// happened.
fn unanswered(id: RequestId, error: &VerifyOtpError) -> Answered {
    match error {
        VerifyOtpError::Unavailable(_) => Answered::Uncertain(id),
        _ => Answered::Nothing,
    }
}

async fn page(
    acme: &Workspace,
    filter: &OtpFilter,
    after: Option<RequestId>,
    limit: usize,
) -> (Vec<OtpState>, Option<RequestId>) {
    loop {
        // A store that was cut off answers again once its actor has restarted.
        if let Ok(mut page) = acme.otps(filter.clone(), after, limit).await {
            assert!(page.otps.len() <= limit);
            // These may change between two reads.
            for row in &mut page.otps {
                row.delivery = Delivery::Sent;
                row.tries.clear();
            }
            return (page.otps, page.next);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn pages(acme: &Workspace, filter: &OtpFilter, limit: usize) -> Vec<OtpState> {
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let (some, next) = page(acme, filter, after, limit).await;
        rows.extend(some);
        assert!(next.is_none() || after.is_none() || next < after, "it goes on");
        after = next;
        if after.is_none() {
            return rows;
        }
    }
}

fn ids(rows: &[OtpState]) -> Vec<RequestId> {
    rows.iter().map(|row| row.request_id).collect()
}

fn filters(rows: &[OtpState]) -> Vec<OtpFilter> {
    let every = OtpFilter::default;
    let middle = rows.get(rows.len() / 2).map(|row| row.request_id.timestamp());
    let late = rows.get(rows.len() / 4).map(|row| row.request_id.timestamp());
    let reference = Some("order-1".to_owned());
    let of = |status| OtpFilter { status: Some(status), ..every() };
    vec![
        OtpFilter { phone: Some(phone(1)), ..every() },
        OtpFilter { phone: Some(phone(3)), ..every() },
        OtpFilter { phone: Some(phone(9)), ..every() },
        OtpFilter { reference: reference.clone(), ..every() },
        OtpFilter { phone: Some(phone(1)), reference, from: middle, ..every() },
        OtpFilter { phone: Some(phone(1)), to: middle, ..every() },
        OtpFilter { from: middle, to: late, ..every() },
        OtpFilter { channel: Some(OtpChannel::Messaging), ..every() },
        OtpFilter { channel: Some(OtpChannel::Sms), ..every() },
        OtpFilter { phone: Some(phone(2)), ..of(OtpStatus::Verified) },
        of(OtpStatus::Active),
        of(OtpStatus::Expired),
        of(OtpStatus::Invalidated),
        of(OtpStatus::Cancelled),
    ]
}

fn is_wanted(row: &OtpState, of: &OtpFilter) -> bool {
    let made_at = row.request_id.timestamp();
    of.phone.is_none_or(|phone| Some(phone) == row.phone)
        && of.status.is_none_or(|status| status == row.status)
        && (of.reference.is_none() || of.reference == row.notes.reference)
        && of.channel.is_none_or(|channel| channel == row.channel)
        && of.from.is_none_or(|from| from <= made_at)
        && of.to.is_none_or(|to| made_at < to)
}

impl Run {
    async fn new() -> Self {
        let store = CrashingStore::new();
        let engine = engine(&store, START).await;
        let acme = workspace(&engine, "acme", 10_000).await;
        let limits = postrider_domain::LimitsOverride {
            otp_per_phone_10m: Some(0),
            otp_per_phone_hour: Some(0),
            ..Default::default()
        };
        engine.admin().set_limits(&id("acme"), limits).await.unwrap();
        let codes = [(phone(3), OtpCode::chosen("123456").unwrap())];
        acme.set_test_phones(TestPhones::new(codes)).await.unwrap();
        Self { store, engine, known: BTreeMap::new() }
    }

    fn acme(&self) -> Workspace {
        self.engine.workspace(&id("acme")).unwrap()
    }

    fn begin(&self, operations: &[Operation]) -> JoinSet<Answered> {
        let all: Vec<_> = self.known.iter().map(|(id, known)| (*id, known.to)).collect();
        let pick = |at: usize| (!all.is_empty()).then(|| all[all.len() - 1 - at % all.len()]);
        let mut under_way = JoinSet::new();
        for operation in operations {
            let request = match operation {
                Operation::Verify(at) | Operation::Miss(at) | Operation::Cancel(at) => pick(*at),
                Operation::Send(..) => None,
            };
            under_way.spawn(carry_out(self.acme(), *operation, request));
        }
        under_way
    }

    async fn take(&mut self, answered: JoinSet<Answered>) {
        for answered in answered.join_all().await {
            match answered {
                Answered::Sent(id, known) => drop(self.known.insert(id, known)),
                Answered::Ended(id, status) => {
                    self.known.get_mut(&id).unwrap().ended = Some(status);
                }
                Answered::Uncertain(id) => self.known.get_mut(&id).unwrap().is_uncertain = true,
                Answered::Nothing => {}
            }
        }
    }

    async fn step(&mut self, step: Step) {
        let now = self.engine.clock().now();
        match step {
            Step::Run(operation) => self.take(self.begin(&[operation])).await,
            Step::Pass(ms) => self.engine.clock().advance(Duration::from_millis(ms)),
            Step::Check => self.check().await,
            Step::Crash(operations, yields, keep) => {
                let under_way = self.begin(&operations);
                for _ in 0..yields {
                    tokio::task::yield_now().await;
                }
                let store = self.store.crash(keep);
                self.start_again(store, now, under_way).await;
            }
            Step::Restart => {
                self.engine.shutdown(LONG).await.ok();
                self.start_again(self.store.clone(), now, JoinSet::new()).await;
            }
        }
    }

    async fn start_again(
        &mut self,
        store: CrashingStore,
        now: Timestamp,
        under_way: JoinSet<Answered>,
    ) {
        self.engine.inner.root.kill();
        self.take(under_way).await;
        self.store = store;
        self.engine = Engine::start(options(self.store.clone(), now)).await.unwrap();
        self.check().await;
    }

    /// Checks that the list has the acknowledged requests, and that each filter and page agrees.
    async fn check(&mut self) {
        let acme = self.acme();
        let all = pages(&acme, &OtpFilter::default(), 200).await;
        assert!(all.is_sorted_by(|a, b| a.request_id > b.request_id), "in order, none twice");
        let by_id: BTreeMap<_, _> = all.iter().map(|row| (row.request_id, row)).collect();
        for (id, known) in &self.known {
            let row = by_id[id];
            assert_eq!((row.phone, &row.notes.reference), (Some(known.to), &known.reference));
            match known.ended {
                Some(ended) => assert_eq!(row.status, ended),
                None if known.is_uncertain => {}
                None => assert!([OtpStatus::Active, OtpStatus::Expired].contains(&row.status)),
            }
            let state = acme.kept_otp(*id).await.unwrap();
            let of_state = (state.status, state.channel, state.expires_at);
            assert_eq!((row.status, row.channel, row.expires_at), of_state);
            assert_eq!(row.ended_at.is_none(), row.status == OtpStatus::Active, "{row:?}");
        }
        for filter in filters(&all) {
            let wanted = all.iter().filter(|row| is_wanted(row, &filter)).cloned();
            let wanted: Vec<_> = wanted.collect();
            for limit in [1, 3, 50] {
                assert_eq!(pages(&acme, &filter, limit).await, wanted, "{limit} {filter:?}");
            }
        }
        self.walk_while_it_grows(&all).await;
    }

    /// Checks that each request of the start is listed once, whatever starts and ends meanwhile.
    async fn walk_while_it_grows(&mut self, all: &[OtpState]) {
        let (acme, mut after, mut answered) = (self.acme(), None, Vec::new());
        for at in 0.. {
            // They run while the page is read.
            let operations = [Operation::Send(at, None, 300), Operation::Verify(at as usize)];
            let under_way = self.begin(if at < 6 { &operations } else { &[] });
            let (rows, next) = page(&acme, &OtpFilter::default(), after, 2).await;
            self.take(under_way).await;
            answered.extend(ids(&rows));
            after = next;
            if after.is_none() {
                break;
            }
        }
        let known: BTreeSet<_> = ids(all).into_iter().collect();
        answered.retain(|id| known.contains(id));
        assert_eq!(answered, ids(all));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(10),
        max_shrink_iters: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn it_has_what_was_acknowledged(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut run = Run::new().await;
            for step in steps {
                run.step(step).await;
            }
            run.check().await;
        });
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_found_goes_with_what_it_is_found_by() {
    let mut run = Run::new().await;
    for number in 0..600 {
        let operation = Operation::Send(number % 3, Some(1), 60);
        run.take(run.begin(&[operation])).await;
    }
    let count = |run: &Run, table: Table| {
        let mut count = 0;
        let visit = &mut |_: &[u8], _: &[u8]| {
            count += 1;
            std::ops::ControlFlow::Continue(())
        };
        run.store.scan(table, b"acme\0", None, Direction::Forward, visit).unwrap();
        count
    };
    let pass = async |run: &Run, step: Duration| {
        run.engine.clock().advance(step);
        drop(run.acme().otp(RequestId::from_parts(START, 0)).await);
        run.engine.beat().await;
    };
    pass(&run, Duration::from_secs(61)).await;
    assert_eq!((count(&run, Table::Otps), count(&run, Table::OtpIndex)), (600, 1_200));
    assert_eq!(pages(&run.acme(), &OtpFilter::default(), 200).await.len(), 600);
    pass(&run, 29 * DAY).await;
    assert_eq!((count(&run, Table::Otps), count(&run, Table::OtpIndex)), (600, 1_200));
    pass(&run, 2 * DAY).await;
    assert_eq!((count(&run, Table::Otps), count(&run, Table::OtpIndex)), (0, 0));
    assert!(pages(&run.acme(), &OtpFilter::default(), 200).await.is_empty());
}
