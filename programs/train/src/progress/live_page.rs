//! The page of a run that goes on, which rank 0 serves.

use crate::run_page::{Now, Run, page};
use edgecut_report::Section;
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The most epochs whose numbers are kept.
const MOST_EPOCHS: usize = 1000;
/// The least time between two drawings, however many readers there are.
const LEAST_AGE: Duration = Duration::from_secs(1);

/// The page of a run that goes on. Training adds lines to it and never waits for a reader: it holds a lock only while it
/// adds a line, and a reader only while it takes a reference.
pub(crate) struct LivePage {
    run: Mutex<Arc<Run>>,
    drawn: Mutex<Option<Drawn>>,
}

/// The page at some time.
#[derive(Clone)]
pub(super) struct Drawn {
    at: Instant,
    /// The whole page.
    pub(super) html: String,
    /// The contents of its sections, which its script asks for.
    pub(super) sections: String,
}

impl LivePage {
    pub(super) fn new() -> Self {
        Self { run: Mutex::new(Arc::new(Run::bounded(MOST_EPOCHS))), drawn: Mutex::new(None) }
    }

    /// Adds a line of the metrics.
    pub(crate) fn add(&self, line: Map<String, Value>) {
        self.change(|run| run.add(line));
    }

    /// Notes the best epoch so far.
    pub(crate) fn set_best(&self, epoch: u64) {
        self.change(|run| run.set_best(epoch));
    }

    /// Sets the flags of the run, as in the file beside the metrics.
    pub(super) fn set_flags(&self, text: &str) {
        self.change(|run| run.set_flags(text));
    }

    /// Changes the run, or a copy of it if a reader draws it just now.
    fn change(&self, change: impl FnOnce(&mut Run)) {
        change(Arc::make_mut(&mut self.run.lock().unwrap_or_else(PoisonError::into_inner)));
    }

    /// Draws the page, or returns a drawing that is not old. `now` describes the state of the run beyond its lines.
    pub(super) fn draw(&self, now: impl FnOnce(&Run) -> Now) -> Drawn {
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(drawn) = drawn.as_ref().filter(|drawn| drawn.at.elapsed() < LEAST_AGE) {
            return drawn.clone();
        }
        let run = self.run.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let page = page(&[&run], Some(&now(&run)));
        let sections: Vec<Value> =
            page.sections().iter().map(|Section { id, html }| json!({ "id": id, "html": html })).collect();
        let sections = Value::from(sections).to_string();
        drawn.insert(Drawn { at: Instant::now(), html: page.follow(), sections }).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_markup() {
        const NAME: &str = "<img src=x onerror=alert(1)>\"'&";
        let live = LivePage::new();
        let epoch = json!({
            "event": "epoch", "epoch": 1, "metric": NAME, "valid_metrics": { NAME: 0.5 }, "loss": 1.0, "seconds": 1.0,
            "compute_seconds": 1.0, "ranks": [{ "compute_seconds": 1.0, "memory_bytes": 5 }],
        });
        let scores = json!([{ "labelled": 1, "predicted": 1, "correct": 1 }]);
        for line in [
            json!({ "event": "run", "dataset": NAME, "command": NAME, "classes": [NAME] }),
            epoch,
            json!({ "event": "confusion", "counts": [[1]], "classes": [NAME] }),
            json!({ "event": "classes", "scores": scores, "classes": [NAME] }),
            json!({ "event": "curves", "curves": [{ "class": 0, "points": [{ "recall": 1.0 }] }], "classes": [NAME] }),
            json!({ "event": "partition", "method": NAME, "parts": [{ "nodes": 1 }] }),
        ] {
            live.add(line.as_object().expect("an object").clone());
        }
        live.set_best(1);
        let drawn = live.draw(|_| Now { progress: String::new(), traffic: vec![json!({ "rank": 0 })] });
        assert!(drawn.html.contains("&lt;img src=x") && !drawn.html.contains("<img"), "{}", drawn.html);
        let sections: Vec<Map<String, Value>> = serde_json::from_str(&drawn.sections).expect("JSON");
        for section in &sections {
            let [id, html] = ["id", "html"].map(|field| section[field].as_str().expect("a text"));
            assert!(!html.contains("<img"), "{html}");
            assert_eq!(drawn.html.matches(&format!("<section id=\"{id}\">")).count(), 1, "{id}");
        }
    }
}
