//! The state of a run over HTTP, as Prometheus reads it.

use crate::programs;

use edgecut_testing::free_ports;
use programs::{ENDS_WITHIN, fake_parts, node};
use std::time::{Duration, Instant};

/// Returns the answer of a status port to a request.
fn ask(port: u16, path: &str) -> Option<String> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns the values of a text in Prometheus' format, by name and labels. Checks that each has a type and a help text.
fn prometheus(answer: &str) -> std::collections::BTreeMap<String, f64> {
    let (head, text) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    let mut described = Vec::new();
    let mut values = std::collections::BTreeMap::new();
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

#[test]
fn prometheus_reads_the_state_of_each_rank() {
    let parts = fake_parts(2);
    let port = free_ports(2)[0];
    let mut command = node(&parts.path);
    command.args(["--nproc-per-node", "2", "--num-epochs", "100000", "--patience", "0", "--metrics-port"]);
    let mut child = command.arg(port.to_string()).spawn().expect("start train");
    let deadline = Instant::now() + ENDS_WITHIN;
    let of_rank = |rank: u16| loop {
        assert!(Instant::now() < deadline, "no state of rank {rank}");
        let values = ask(port + rank, "/metrics").map(|answer| prometheus(&answer)).unwrap_or_default();
        if values.contains_key("edgecut_valid_metric{metric=\"accuracy\"}") {
            return values;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    for rank in [0, 1] {
        let values = of_rank(rank);
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
        let later = of_rank(rank);
        let counters = values.iter().filter(|(name, _)| name.split('{').next().unwrap_or_default().ends_with("_total"));
        counters.for_each(|(name, value)| assert!(later[name] >= *value, "{name}"));
    }
    let absent = ask(port, "/absent").expect("an answer");
    assert!(absent.starts_with("HTTP/1.1 404") && absent.contains("/metrics"), "{absent}");
    assert!(ask(port, "/healthz").expect("an answer").ends_with("ok\n"));
    child.kill().expect("end train");
    child.wait().expect("wait for train");
}
