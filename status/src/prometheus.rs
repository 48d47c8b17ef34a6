//! Counters in Prometheus' text format.

use std::fmt::{Display, Write};

/// A text in [Prometheus' exposition format](https://prometheus.io/docs/instrumenting/exposition_formats/). The names of
/// all metrics begin with `edgecut_`.
///
/// ```
/// use edgecut_status::PrometheusText;
/// let mut text = PrometheusText::new();
/// text.gauge("loss", "Mean loss of the last step.", 0.5);
/// text.labeled("peer_requests_total", "counter", "Requests to other ranks.", "peer", [(1, 12), (2, 9)]);
/// let text = text.finish();
/// assert!(text.contains("TYPE edgecut_loss gauge\nedgecut_loss 0.5\n"));
/// assert!(text.ends_with("edgecut_peer_requests_total{peer=\"1\"} 12\nedgecut_peer_requests_total{peer=\"2\"} 9\n"));
/// ```
#[derive(Debug, Default)]
pub struct PrometheusText {
    text: String,
}

impl PrometheusText {
    /// Creates an empty text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value that never decreases. Its name should end with `_total`.
    pub fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "counter", help);
        self.line(format_args!("{name} {value}"));
    }

    /// Adds a value that may decrease.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "gauge", help);
        self.line(format_args!("{name} {value}"));
    }

    /// Adds values that differ in one label. `kind` is `counter` or `gauge`.
    pub fn labeled<L: Display, V: Display>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (L, V)>,
    ) {
        self.head(name, kind, help);
        for (of_label, value) in values {
            let escaped = of_label.to_string().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            self.line(format_args!("{name}{{{label}=\"{escaped}\"}} {value}"));
        }
    }

    /// Returns the text.
    pub fn finish(self) -> String {
        self.text
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = write!(self.text, "# HELP edgecut_{name} {help}\n# TYPE edgecut_{name} {kind}\n");
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.text, "edgecut_{line}");
    }
}
