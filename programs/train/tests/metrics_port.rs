//! The state of a run over HTTP: as Prometheus reads it, and as a page that follows the run.

use crate::programs::*;

use crate::report_in_browser::browse;
use edgecut_testing::{assert_has, free_ports};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Returns the answer of a status port to a request.
fn ask(port: u16, path: &str) -> Option<String> {
    use std::io::{Read, Write};
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(ENDS_WITHIN)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns the values of a text in Prometheus' format, by name and labels. Checks that each has a type and a help text.
fn prometheus(answer: &str) -> BTreeMap<String, f64> {
    let (head, text) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    let mut described = Vec::new();
    let mut values = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "HELP", name, _] => described.push(name),
            ["#", "TYPE", name, kind] => {
                assert!(described.last() == Some(&name) && ["counter", "gauge"].contains(&kind), "{line}");
            }
            [name, value] => {
                assert_eq!(described.last(), name.split('{').next().as_ref(), "{line}");
                let earlier = values.insert(name.to_owned(), value.parse::<f64>().expect("a number"));
                assert!(earlier.is_none(), "{line} is repeated");
            }
            _ => panic!("{line}"),
        }
    }
    values
}

/// A run on two ranks that goes on until it is dropped.
struct EndlessRun {
    child: Process,
    port: u16,
    _parts: Parts,
}

impl EndlessRun {
    fn start() -> Self {
        let parts = fake_parts(2);
        let port = free_ports(2)[0];
        let mut command = node(&parts.path);
        command.args(["--nproc-per-node", "2", "--num-epochs", "100000", "--patience", "0", "--metrics-port"]);
        let child = Process::start(command.arg(port.to_string()));
        Self { child, port, _parts: parts }
    }

    /// Asks for a path until the answer has a text.
    fn answer_with(&self, rank: u16, path: &str, text: &str) -> String {
        let deadline = Instant::now() + ENDS_WITHIN;
        loop {
            assert!(Instant::now() < deadline, "no {text} at {path} of rank {rank}");
            match ask(self.port + rank, path) {
                Some(answer) if answer.contains(text) => return answer,
                _ => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Returns the state of a rank once it has validated.
    fn values(&self, rank: u16) -> BTreeMap<String, f64> {
        prometheus(&self.answer_with(rank, "/metrics", "edgecut_valid_metric{metric=\"accuracy\"}"))
    }

    /// Returns the sections of the page of the job by their ids, once one of them has a text.
    fn sections(&self, text: &str) -> BTreeMap<String, String> {
        let answer = self.answer_with(0, "/sections.json", text);
        let (head, json) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
        assert!(head.contains("content-type: application/json"), "{head}");
        let sections: Vec<Value> = serde_json::from_str(json).expect("JSON");
        let mut by_id = BTreeMap::new();
        for section in sections {
            let [id, html] = ["id", "html"].map(|field| section[field].as_str().expect("a text").to_owned());
            by_id.insert(id, html);
        }
        by_id
    }
}

impl Drop for EndlessRun {
    fn drop(&mut self) {
        self.child.kill().expect("end train");
        self.child.wait().expect("wait for train");
    }
}

#[test]
fn prometheus_reads_the_state_of_each_rank() {
    let run = EndlessRun::start();
    let port = run.port;
    for rank in [0, 1] {
        let values = run.values(rank);
        let value = |name: &str| {
            values.get(&format!("edgecut_{name}")).copied().unwrap_or_else(|| panic!("{name}: {values:?}"))
        };
        assert!(value("epoch") >= 1.0 && value("step") >= 1.0 && value("step") <= value("steps_per_epoch"));
        assert!(value("loss") > 0.0 && value("seeds_per_second") > 0.0 && value("memory_bytes") > 1e6);
        // Both ranks' seeds are counted, 600 of which are in an epoch.
        assert!(value("seeds_total") >= 600.0);
        assert!(value("remote_nodes_total") > 0.0 && value("queue_depth") >= 0.0);
        let peer = 1 - rank;
        assert!(value(&format!("peer_received_bytes_total{{peer=\"{peer}\"}}")) > 0.0);
        // Counters do not decrease.
        let later = run.values(rank);
        let counters = values.iter().filter(|(name, _)| name.split('{').next().unwrap_or_default().ends_with("_total"));
        counters.for_each(|(name, value)| assert!(later[name] >= *value, "{name}"));
    }
    let absent = ask(port, "/absent").expect("an answer");
    assert!(absent.starts_with("HTTP/1.1 404") && absent.contains("/metrics"), "{absent}");
    assert!(ask(port, "/healthz").expect("an answer").ends_with("ok\n"));
}

#[test]
fn rank_0_serves_a_page_of_the_job() {
    let run = EndlessRun::start();
    let sections = run.sections("best epoch");
    for (id, texts) in [
        ("progress", &["<progress", "Epoch ", " of 100000, step ", "Loss of the last step", "seeds/s"][..]),
        (
            "results-run",
            &["Validation accuracy", "Best epoch", "<dt>Nodes</dt><dd>1,000</dd>", "<dt>Processes</dt><dd>2</dd>"],
        ),
        ("curves", &["Training loss", "Validation accuracy", "<polyline"]),
        ("slowest-ranks--last-epoch", &["rank 0, computing", "rank 1, computing", "Resident memory"]),
        ("traffic-by-rank-and-peer", &["<th>received</th>", "<td>0</td><td>1</td>"]),
        ("partition", &["Cut edges", "Largest part, nodes"]),
        ("configuration", &["<dt>--num-epochs</dt><dd>100000</dd>", "--hidden-channels"]),
    ] {
        for text in texts {
            assert!(sections[id].contains(text), "{text} in {id}: {}", sections[id]);
        }
    }
    let page = ask(run.port, "/").expect("the page");
    assert!(page.contains("content-type: text/html") && page.contains("content-security-policy: default-src 'none'"));
    assert!(page.contains("<h1>Training on fake</h1>") && page.contains("id=\"curves\""), "{page}");
    // Other ranks have only their own state.
    assert_has(run.answer_with(1, "/", "HTTP/1.1 404"), &["on rank 0"]);

    let Some(output) = browse(&format!("http://127.0.0.1:{}/", run.port)) else { return };
    let log = stderr(&output);
    assert!(output.status.success() && !log.contains("CONSOLE"), "{log}");
    let dom = String::from_utf8_lossy(&output.stdout);
    assert!(
        dom.contains(&format!("data-refreshed=\"{}\"", sections.len())),
        "the script has replaced the sections: {dom}"
    );
    assert!(dom.contains("<p id=\"connection\" role=\"status\"></p>") && dom.contains("<polyline"), "{dom}");
}

#[test]
fn slow_readers_do_not_stop_the_training() {
    let run = EndlessRun::start();
    let before = run.values(0)["edgecut_epoch"];
    // More connections than are answered at the same time send nothing, and read nothing.
    let mut idle = Vec::new();
    for _ in 0..80 {
        idle.push(TcpStream::connect(("127.0.0.1", run.port)).expect("a connection"));
    }
    // The answer waits until idle connections are closed.
    assert!(run.values(0)["edgecut_epoch"] > before);
    drop(idle);
}
