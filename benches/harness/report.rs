//! The report: a Markdown table for people, JSON for programs.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::Result;
use crate::measure::{Measured, Pair};

/// The verdict in the table on a row that misses its budget.
const MISSED: &str = "**missed**";

/// The default durability of an answer.
pub(crate) const FSYNC_FIRST: &str = "fsync per group commit before each answer";

/// One row.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// The row's name among the budgets.
    pub(crate) name: &'static str,
    /// The unit of `value`.
    pub(crate) unit: String,
    /// The measured value.
    pub(crate) value: f64,
    /// The reference that it is compared with.
    pub(crate) reference: Option<String>,
    /// The measured value of the reference.
    pub(crate) reference_value: Option<f64>,
    /// `value` divided by `reference_value`.
    pub(crate) ratio: Option<f64>,
    /// The time that half of the operations did not exceed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p50_ms: Option<f64>,
    /// The time that all but one in a hundred did not exceed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p99_ms: Option<f64>,
    /// `p50_ms` of the reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reference_p50_ms: Option<f64>,
    /// `p99_ms` of the reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reference_p99_ms: Option<f64>,
    /// The microseconds of processor time per operation.
    ///
    /// They exclude the client if it has its own thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_us: Option<f64>,
    /// `cpu_us` of the reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reference_cpu_us: Option<f64>,
    /// The bound that must be kept; `None` if the row only explains another.
    pub(crate) budget: Option<f64>,
    /// The bound that is wanted.
    pub(crate) goal: Option<f64>,
    /// The goal is also that the p99 is at most this many times the reference's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) goal_p99_ratio: Option<f64>,
    /// Set if the budget is a minimum of the ratio, or of the value without one.
    ///
    /// Otherwise it is a maximum.
    pub(crate) more_is_better: bool,
    /// The data that is durable when an operation is answered.
    pub(crate) durability: &'static str,
}

impl Row {
    /// Makes a row whose budget is a ratio of two rates.
    pub(crate) fn of_rates(
        name: &'static str,
        unit: impl Into<String>,
        reference: impl Into<String>,
        pair: Pair,
        (budget, goal): (f64, f64),
    ) -> Self {
        let measured = |figure: f64| figure.is_finite().then_some(figure);
        Self {
            name,
            unit: unit.into(),
            value: pair.subject.rate,
            reference: Some(reference.into()),
            reference_value: Some(pair.reference.rate),
            ratio: Some(pair.subject.rate / pair.reference.rate),
            p50_ms: measured(pair.subject.p50_ms),
            p99_ms: measured(pair.subject.p99_ms),
            reference_p50_ms: measured(pair.reference.p50_ms),
            reference_p99_ms: measured(pair.reference.p99_ms),
            cpu_us: measured(pair.subject.cpu_us),
            reference_cpu_us: measured(pair.reference.cpu_us),
            budget: Some(budget),
            goal: Some(goal),
            goal_p99_ratio: None,
            more_is_better: true,
            durability: FSYNC_FIRST,
        }
    }

    /// Makes a row about the p99, with a budget in multiples of the reference's p99.
    ///
    /// Without a budget it explains another row.
    pub(crate) fn of_p99(
        name: &'static str,
        unit: impl Into<String>,
        reference: impl Into<String>,
        pair: Pair,
        budget_and_goal: Option<(f64, f64)>,
    ) -> Self {
        let Pair { subject, reference: other } = pair;
        let row = Self::of_rates(name, unit, reference, pair, (0.0, 0.0));
        Self {
            value: subject.p99_ms,
            reference_value: Some(other.p99_ms),
            ratio: Some(subject.p99_ms / other.p99_ms),
            budget: budget_and_goal.map(|(budget, _)| budget),
            goal: budget_and_goal.map(|(_, goal)| goal),
            more_is_better: false,
            ..row
        }
    }

    /// Makes a row about the p99 in milliseconds.
    pub(crate) fn of_time(
        name: &'static str,
        unit: impl Into<String>,
        times: Measured,
        budget_and_goal: Option<(f64, f64)>,
    ) -> Self {
        let row = Self::of_value(name, unit, times.p99_ms, budget_and_goal);
        Self { p50_ms: Some(times.p50_ms), p99_ms: Some(times.p99_ms), ..row }
    }

    /// Makes a row whose budget is the maximum of its value; without one it explains another row.
    pub(crate) fn of_value(
        name: &'static str,
        unit: impl Into<String>,
        value: f64,
        budget_and_goal: Option<(f64, f64)>,
    ) -> Self {
        Self {
            name,
            unit: unit.into(),
            value,
            reference: None,
            reference_value: None,
            ratio: None,
            p50_ms: None,
            p99_ms: None,
            reference_p50_ms: None,
            reference_p99_ms: None,
            cpu_us: None,
            reference_cpu_us: None,
            budget: budget_and_goal.map(|(budget, _)| budget),
            goal: budget_and_goal.map(|(_, goal)| goal),
            goal_p99_ratio: None,
            more_is_better: false,
            durability: FSYNC_FIRST,
        }
    }

    /// Makes a row whose budget is the minimum of its value.
    pub(crate) fn of_least(
        name: &'static str,
        unit: impl Into<String>,
        value: f64,
        budget_and_goal: (f64, f64),
    ) -> Self {
        let row = Self::of_value(name, unit, value, Some(budget_and_goal));
        Self { more_is_better: true, ..row }
    }

    /// Returns whether the row keeps its budget and its goal, in a word.
    fn verdict(&self) -> &'static str {
        let (Some(budget), Some(goal)) = (self.budget, self.goal) else { return "–" };
        let figure = self.ratio.unwrap_or(self.value);
        let keeps = |bound: f64| match self.more_is_better {
            true => figure >= bound,
            false => figure <= bound,
        };
        let p99_keeps = match (self.goal_p99_ratio, self.p99_ms, self.reference_p99_ms) {
            (Some(bound), Some(p99), Some(reference)) => p99 <= reference * bound,
            _ => true,
        };
        match (keeps(goal) && p99_keeps, keeps(budget)) {
            (true, _) => "goal",
            (false, true) => "budget",
            (false, false) => MISSED,
        }
    }
}

/// All rows of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The profile of cargo that the harness was built with, by the folder of its program.
    ///
    /// `dist` has link-time optimization, `release` has not.
    pub(crate) profile: String,
    /// The rows, in the order in which they ran.
    pub(crate) rows: Vec<Row>,
}

impl Report {
    /// Formats the table.
    pub(crate) fn markdown(&self) -> String {
        let mut table = String::from(
            "| row | value | unit | reference | ratio | p50 / p99 ms | reference's | CPU µs, and the \
             reference's | budget / goal | kept |\n|---|--:|---|---|--:|--:|--:|--:|--:|---|\n",
        );
        for row in &self.rows {
            let reference = match (&row.reference, row.reference_value) {
                (Some(reference), Some(value)) => format!("{} {reference}", figure(value)),
                _ => "–".to_owned(),
            };
            // A string takes everything that is written to it.
            let written = writeln!(
                table,
                "| `{}` | {} | {} | {reference} | {} | {} | {} | {} | {} | {} |",
                row.name,
                figure(row.value),
                row.unit,
                row.ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}")),
                both(row.p50_ms, row.p99_ms),
                both(row.reference_p50_ms, row.reference_p99_ms),
                both(row.cpu_us, row.reference_cpu_us),
                both(row.budget, row.goal),
                row.verdict(),
            );
            debug_assert!(written.is_ok());
        }
        let durability = self.rows.first().map_or(FSYNC_FIRST, |row| row.durability);
        table.push_str("\nDurability: ");
        table.push_str(durability);
        table.push_str(". Profile: ");
        table.push_str(&self.profile);
        table.push('.');
        table
    }

    /// Returns the rows that miss their budget.
    pub(crate) fn missed(&self) -> Vec<&'static str> {
        self.rows.iter().filter(|row| row.verdict() == MISSED).map(|row| row.name).collect()
    }

    /// Writes the report as JSON.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        fs::write(path, serde_json::to_string_pretty(self)?)?;
        Ok(())
    }
}

/// Formats a figure with about three significant digits.
fn figure(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn both(one: Option<f64>, other: Option<f64>) -> String {
    match (one, other) {
        (Some(one), Some(other)) => format!("{} / {}", figure(one), figure(other)),
        _ => "–".to_owned(),
    }
}
