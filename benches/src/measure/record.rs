//! The record of one measurement.

use crate::measure::format;
use crate::measure::timing::Timing;
use serde::Serialize;
use serde_json::{Map, Value};

/// A measurement, and the limit that it is compared with. All quantities are in base units: seconds, bytes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Record {
    /// The name of the benchmark on the command line.
    pub(crate) bench: &'static str,
    /// The name of the measurement within the benchmark.
    pub(crate) name: String,
    /// The unit of work that the times refer to.
    pub(crate) work: String,
    /// The parameters of the work.
    pub(crate) params: Map<String, Value>,
    pub(crate) median_s: f64,
    pub(crate) min_s: f64,
    pub(crate) cpu_s: f64,
    /// The amount of work per second at the median time.
    pub(crate) throughput: f64,
    pub(crate) unit: &'static str,
    /// The machine's throughput, in the same unit.
    pub(crate) limit: Option<f64>,
    pub(crate) limit_name: Option<String>,
    /// The throughput divided by the limit.
    pub(crate) ratio: Option<f64>,
    pub(crate) peak_rss_mb: Option<f64>,
    /// Further results.
    pub(crate) details: Map<String, Value>,
}

impl Record {
    /// Creates a record of `bench`: `work` took `timing` and processed `amount`, measured in `unit` per second.
    pub(crate) fn new(
        bench: &'static str,
        name: impl Into<String>,
        work: impl Into<String>,
        timing: Timing,
        amount: f64,
        unit: &'static str,
    ) -> Self {
        Self {
            bench,
            name: name.into(),
            work: work.into(),
            params: Map::new(),
            median_s: timing.median_s,
            min_s: timing.min_s,
            cpu_s: timing.cpu_s,
            throughput: amount / timing.median_s,
            unit,
            limit: None,
            limit_name: None,
            ratio: None,
            peak_rss_mb: timing.peak_rss_bytes.map(|bytes| bytes as f64 / 1e6),
            details: Map::new(),
        }
    }

    /// Compares the throughput with a limit of the machine.
    pub(crate) fn against(mut self, limit: f64, limit_name: impl Into<String>) -> Self {
        self.limit = Some(limit);
        self.limit_name = Some(limit_name.into());
        self.ratio = Some(self.throughput / limit);
        self
    }

    /// Adds a parameter.
    pub(crate) fn param(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.params.insert(name.into(), value.into());
        self
    }

    /// Adds a further result.
    pub(crate) fn detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.into(), value.into());
        self
    }

    /// Returns the cells of the record's line in the table, by column.
    pub(crate) fn cells(&self) -> [String; 9] {
        let limit = self.limit.map_or_else(String::new, |limit| format::quantity(limit, self.unit));
        [
            self.name.clone(),
            self.work.clone(),
            format::seconds(self.median_s),
            format::seconds(self.min_s),
            format::seconds(self.cpu_s),
            format::quantity(self.throughput, self.unit),
            limit,
            self.ratio.map_or_else(String::new, |ratio| format!("{ratio:.3}")),
            self.limit_name.clone().unwrap_or_default(),
        ]
    }

    /// Formats the further results and the memory as one line, which may be empty.
    pub(crate) fn notes(&self) -> String {
        let number = |value: &Value| match value.as_f64() {
            Some(number) if value.is_f64() => format::quantity(number, ""),
            _ => value.to_string().trim_matches('"').to_owned(),
        };
        let details = self.details.iter().map(|(name, value)| format!("{name} {}", number(value)));
        let peak = self.peak_rss_mb.map(|megabytes| format!("peak_rss_mb {megabytes:.0}"));
        details.chain(peak).collect::<Vec<_>>().join(", ")
    }
}
