//! The gauges of the people who count towards the budget of each portfolio.

use std::collections::BTreeMap;

use metrics::{Gauge, Key, Label, Level, Metadata};

use postrider_workspace::services::Services;

use super::SharedRecorder;

const NAME: &str = "postrider_portfolio_used";
/// The maximum number of portfolios that have a gauge.
const PORTFOLIOS_MAX: usize = 500;

/// The gauges of the portfolios that were used since the start.
pub(super) struct PortfoliosUsed {
    recorder: SharedRecorder,
    gauges: BTreeMap<Box<str>, Gauge>,
}

impl PortfoliosUsed {
    pub(super) fn register(recorder: SharedRecorder) -> Self {
        let what = "People who count towards the daily budget of a portfolio, of all workspaces";
        recorder.describe_gauge(NAME.into(), None, what.into());
        Self { recorder, gauges: BTreeMap::new() }
    }

    pub(super) fn sample(&mut self, shared: &Services) {
        let mut used: BTreeMap<Box<str>, u32> = BTreeMap::new();
        for (_, portfolio, count) in shared.portfolios.used(shared.clock.now()) {
            if count > 0 {
                let sum = used.entry(portfolio).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        let metadata = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));
        for portfolio in used.keys() {
            if !self.gauges.contains_key(portfolio) && self.gauges.len() < PORTFOLIOS_MAX {
                let labels = vec![Label::new("portfolio", portfolio.to_string())];
                let key = Key::from_parts(NAME, labels);
                let gauge = self.recorder.register_gauge(&key, &metadata);
                self.gauges.insert(portfolio.clone(), gauge);
            }
        }
        // A portfolio without counted people frees its place; its series ends with NaN.
        self.gauges.retain(|portfolio, gauge| {
            let count = used.get(portfolio).copied();
            gauge.set(count.map_or(f64::NAN, f64::from));
            count.is_some()
        });
    }
}
