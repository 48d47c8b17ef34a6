//! The tables of losses and metrics in the guide, compared with the lists of the code.

use edgecut_gnn::nn::DecoderKind;
use edgecut_trainer::link::LinkLoss;
use edgecut_trainer::loss::AnyLoss;
use edgecut_trainer::metrics::Metric;
use std::path::Path;

/// Returns the first two cells of each row of the table whose head begins with `head`.
fn rows(text: &str, head: &str) -> Vec<(String, String)> {
    let lines = text.lines().skip_while(|line| !line.starts_with(head)).skip(2);
    let table = lines.take_while(|line| line.starts_with('|'));
    table
        .map(|line| {
            let mut cells = line.split('|').skip(1).map(|cell| cell.trim().to_owned());
            (cells.next().unwrap_or_default(), cells.next().unwrap_or_default())
        })
        .collect()
}

#[test]
fn the_guide_lists_all_losses_and_metrics() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/nodes.md");
    let text = std::fs::read_to_string(&path).expect("the guide");
    let row = |name: &str, about: &str| (format!("`{name}`"), about.to_owned());
    let losses: Vec<_> = AnyLoss::ALL.iter().map(|(name, about)| row(name, about)).collect();
    assert_eq!(rows(&text, "| `--loss` | |"), losses);
    let metrics: Vec<_> = Metric::all().map(|metric| row(metric.name(), metric.about())).collect();
    assert_eq!(rows(&text, "| `--metric` | |"), metrics);
}

#[test]
fn the_guide_lists_all_decoders_and_losses_of_links() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/links.md");
    let text = std::fs::read_to_string(&path).expect("the guide");
    for (head, words) in [("| `--decoder` | |", DecoderKind::WORDS), ("| `--loss` | |", LinkLoss::WORDS)] {
        let expected: Vec<_> = words.iter().map(|word| (format!("`{}`", word.name), word.about.to_owned())).collect();
        assert_eq!(rows(&text, head), expected);
    }
}
