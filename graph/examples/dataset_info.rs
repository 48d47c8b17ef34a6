//! Loads or generates a dataset, and prints its size and the loading time.
//!
//! `cargo run --release -p edgecut-graph --example dataset_info -- NAME ROOT_DIR [SPLIT]`, or
//! `... -- fake NODES DEGREE CHANNELS CLASSES`.

use edgecut_graph::GraphError;
use edgecut_graph::readers::{DatasetSource, load};
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let Some(source) = parse(&args) else {
        eprintln!("usage: dataset_info NAME ROOT_DIR [SPLIT] | fake NODES DEGREE CHANNELS CLASSES");
        return ExitCode::from(2);
    };
    match print_info(&source) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(args: &[&str]) -> Option<DatasetSource> {
    let mut source = DatasetSource::new(*args.first()?, args.get(1).copied().unwrap_or_default());
    match args {
        ["fake", nodes, degree, channels, classes] => {
            source.fake.avg_num_nodes = nodes.parse().ok()?;
            source.fake.avg_degree = degree.parse().ok()?;
            source.fake.num_channels = channels.parse().ok()?;
            source.fake.num_classes = classes.parse().ok()?;
        }
        [_, _] => {}
        [_, _, split] => source.split = Some((*split).to_owned()),
        _ => return None,
    }
    Some(source)
}

fn print_info(source: &DatasetSource) -> Result<(), GraphError> {
    let start = Instant::now();
    let dataset = load(source)?;
    let loaded = start.elapsed();
    for nodes in &dataset.node_types {
        let dim = nodes.features.as_ref().map_or(0, |features| features.dim());
        println!("{}: {} nodes, {dim} features, {} classes", nodes.name, nodes.num_nodes, nodes.num_classes);
    }
    println!("{} edges, loaded in {:.2} s", dataset.num_edges(), loaded.as_secs_f64());
    dataset.validate()?;
    println!("validated in {:.2} s", (start.elapsed() - loaded).as_secs_f64());
    Ok(())
}
