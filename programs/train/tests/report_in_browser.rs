//! A report in a browser: it logs nothing, fits wide and narrow windows, and draws all points inside its charts. Skipped
//! with a message where Chromium is missing, unless `EDGECUT_REQUIRE` is set.

use crate::programs::*;

use edgecut_testing::{Need, skip};
use serde_json::Value;
use std::process::{Command, Output, Stdio};

/// The names under which Chromium is installed.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Opens the report in frames of three widths, and writes measurements as JSON.
const MEASURE: &str = r#"<!DOCTYPE html><meta charset="utf-8">
<iframe id="phone" width="390" height="800" src="report.html"></iframe>
<iframe id="tablet" width="800" height="900" src="report.html"></iframe>
<iframe id="desk" width="1280" height="900" src="report.html"></iframe>
<pre id="result"></pre>
<script>
function inside(outer, inner) {
  return inner.left >= outer.left - 1 && inner.right <= outer.right + 1
      && inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;
}
function overlap(a, b) {
  return a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
}
function measure(id) {
  const page = document.getElementById(id).contentDocument;
  const width = page.documentElement.clientWidth;
  const outside = [];
  const overlapping = [];
  for (const svg of page.querySelectorAll("svg")) {
    const box = svg.getBoundingClientRect();
    for (const shape of svg.querySelectorAll("circle, rect, polyline, text")) {
      if (!inside(box, shape.getBoundingClientRect())) outside.push(shape.outerHTML);
    }
    // Ticks are on lines, and the label of the best point is within the drawing.
    const labels = Array.from(svg.querySelectorAll("text:not(.mark)"));
    labels.forEach((label, at) => {
      for (const other of labels.slice(at + 1)) {
        if (overlap(label.getBoundingClientRect(), other.getBoundingClientRect())) {
          overlapping.push(label.textContent + " and " + other.textContent);
        }
      }
    });
  }
  const cut = [];
  for (const element of page.querySelectorAll("body *")) {
    if (element.closest(".scroll") && !element.matches(".scroll")) continue;
    if (element.getBoundingClientRect().right > width + 1) cut.push(element.outerHTML.slice(0, 200));
  }
  const scrolling = Array.from(page.querySelectorAll(".scroll")).filter(
    scroll => scroll.scrollWidth > scroll.clientWidth + 1 && !scroll.querySelector(".matrix"));
  const hints = Array.from(page.querySelectorAll(".scroll")).filter(
    scroll => page.defaultView.getComputedStyle(scroll).backgroundImage.includes("gradient") && scroll.tabIndex === 0);
  return {
    fits: page.documentElement.scrollWidth <= width,
    outside,
    overlapping,
    cut,
    scrolling: scrolling.map(scroll => scroll.textContent.slice(0, 200)),
    hidden: page.querySelectorAll(".scroll").length - hints.length,
    smallestText: Math.min(...Array.from(page.querySelectorAll("svg text")).map(text => text.getBoundingClientRect().height)),
    dots: page.querySelectorAll("svg circle.dot").length,
    best: page.querySelectorAll("svg circle.best").length,
    cells: page.querySelectorAll(".matrix td").length,
    coloredCells: Array.from(page.querySelectorAll(".matrix td")).filter(
      cell => !["rgba(0, 0, 0, 0)", "transparent"].includes(page.defaultView.getComputedStyle(cell).backgroundColor)).length,
  };
}
window.onload = () => {
  const widths = ["phone", "tablet", "desk"];
  document.getElementById("result").textContent = JSON.stringify(Object.fromEntries(widths.map(id => [id, measure(id)])));
};
</script>
"#;

/// Returns the output of a browser that has opened the page at an address, or `None` without a browser.
pub(crate) fn browse(address: &str) -> Option<Output> {
    let profile = tempfile::tempdir().expect("a folder");
    for name in BROWSERS {
        let mut command = Command::new(name);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        command.args(["--allow-file-access-from-files", "--enable-logging=stderr", "--virtual-time-budget=10000"]);
        command
            .args(["--window-size=1700,1000", "--dump-dom"])
            .arg(format!("--user-data-dir={}", profile.path().display()));
        command.arg(address).stdin(Stdio::null());
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
    command.args(["--num-epochs", "4", "--eval-every", "2", "--nproc-per-node", "2", "--stats", "--lr", "0.02"]);
    command.arg("--metrics").arg(folder.join("metrics.jsonl")).arg("--report").arg(&report);
    succeeded(run(&mut command));
    let page = folder.join("measure.html");
    std::fs::write(&page, MEASURE).expect("write the page");

    let Some(output) = browse(&format!("file://{}", page.display())) else { return };
    let log = stderr(&output);
    assert!(output.status.success(), "{log}");
    assert!(!log.contains("CONSOLE"), "{log}");
    let dom = String::from_utf8_lossy(&output.stdout);
    let json = dom.split("<pre id=\"result\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let measured: Value = serde_json::from_str(json.unwrap_or_default()).unwrap_or_else(|e| panic!("{e}: {dom}"));
    for width in ["phone", "tablet", "desk"] {
        let measured = &measured[width];
        assert_eq!(measured["fits"], true, "the page of a {width} scrolls sideways");
        for faults in ["outside", "overlapping", "cut", "scrolling"] {
            assert_eq!(measured[faults], serde_json::json!([]), "{faults}, {width}");
        }
        assert_eq!(measured["hidden"], 0, "tables without a hint that they scroll, {width}");
        assert!(measured["smallestText"].as_f64() >= Some(10.0), "{width}: {measured}");
        // Loss and training accuracy have a point per epoch, the validation score one per validation.
        assert_eq!(measured["dots"], 2 * 4 + 2, "{width}");
        assert_eq!(measured["best"], 1, "{width}");
        // The generated graph has ten classes. Cells without seeds have no color.
        assert_eq!(measured["cells"], 100, "{width}");
        assert!(measured["coloredCells"].as_u64() >= Some(10), "{width}: {measured}");
    }
}
