//! A report in a browser: it logs nothing, fits wide and narrow windows, and draws all points inside its charts. Skipped
//! with a message where Chromium is missing, unless `EDGECUT_REQUIRE` is set.

use crate::programs;

use edgecut_testing::{Need, skip};
use programs::{Folder, end, fake_parts, node, run, stderr, succeeded};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The names under which Chromium is installed.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Opens the report in frames of two widths, and writes measurements as JSON.
const MEASURE: &str = r#"<!DOCTYPE html><meta charset="utf-8">
<iframe id="wide" width="1200" height="900" src="report.html"></iframe>
<iframe id="narrow" width="390" height="800" src="report.html"></iframe>
<pre id="result"></pre>
<script>
function inside(outer, inner) {
  return inner.left >= outer.left - 1 && inner.right <= outer.right + 1
      && inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;
}
function measure(id) {
  const page = document.getElementById(id).contentDocument;
  const outside = [];
  for (const svg of page.querySelectorAll("svg")) {
    const box = svg.getBoundingClientRect();
    for (const shape of svg.querySelectorAll("circle, rect, polyline")) {
      if (!inside(box, shape.getBoundingClientRect())) outside.push(shape.outerHTML);
    }
  }
  return {
    fits: page.documentElement.scrollWidth <= page.documentElement.clientWidth,
    outside,
    dots: page.querySelectorAll("svg circle").length,
    cells: page.querySelectorAll(".matrix td").length,
    coloredCells: Array.from(page.querySelectorAll(".matrix td")).filter(
      cell => !["rgba(0, 0, 0, 0)", "transparent"].includes(page.defaultView.getComputedStyle(cell).backgroundColor)).length,
  };
}
window.onload = () => {
  document.getElementById("result").textContent = JSON.stringify({ wide: measure("wide"), narrow: measure("narrow") });
};
</script>
"#;

/// Returns the output of a browser that has opened `page`, or `None` without a browser.
fn browse(page: &Path) -> Option<Output> {
    let profile = tempfile::tempdir().expect("a folder");
    for name in BROWSERS {
        let mut command = Command::new(name);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        command.args(["--allow-file-access-from-files", "--enable-logging=stderr", "--virtual-time-budget=10000"]);
        command
            .args(["--window-size=1700,1000", "--dump-dom"])
            .arg(format!("--user-data-dir={}", profile.path().display()));
        command.arg(format!("file://{}", page.display())).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Ok(browser) = command.spawn() {
            return Some(end(browser));
        }
    }
    skip(Need::Browser, "report_in_browser", format!("none of {BROWSERS:?} is installed"));
    None
}

#[test]
fn a_browser_draws_the_whole_report() {
    let parts = fake_parts(2);
    let folder = Folder::new();
    let report = folder.join("report.html");
    let mut command = node(&parts.path);
    command.args(["--num-epochs", "4", "--eval-every", "2", "--nproc-per-node", "2", "--stats"]);
    command.arg("--metrics").arg(folder.join("metrics.jsonl")).arg("--report").arg(&report);
    succeeded(run(&mut command));
    let page = folder.join("measure.html");
    std::fs::write(&page, MEASURE).expect("write the page");

    let Some(output) = browse(&page) else { return };
    let log = stderr(&output);
    assert!(output.status.success(), "{log}");
    assert!(!log.contains("CONSOLE"), "{log}");
    let dom = String::from_utf8_lossy(&output.stdout);
    let json = dom.split("<pre id=\"result\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let measured: Value = serde_json::from_str(json.unwrap_or_default()).unwrap_or_else(|e| panic!("{e}: {dom}"));
    for width in ["wide", "narrow"] {
        let measured = &measured[width];
        assert_eq!(measured["fits"], true, "the {width} page scrolls sideways");
        assert_eq!(measured["outside"], serde_json::json!([]), "{width}");
        // Loss, training accuracy and seconds have a point per epoch, the validation score one per validation.
        assert_eq!(measured["dots"], 3 * 4 + 2, "{width}");
        // The generated graph has ten classes. Cells without seeds have no color.
        assert_eq!(measured["cells"], 100, "{width}");
        assert!(measured["coloredCells"].as_u64() >= Some(10), "{width}: {measured}");
    }
}
