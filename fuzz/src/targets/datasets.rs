//! The readers of datasets.

use super::{corpus, golden, samples_in};
use crate::sample::Sample;
use crate::target::{Input, MemoryBound, Outcome, Target};
use edgecut_graph::readers::{DatasetSource, FakeOptions, export_npy, fake, load_with_warnings};
use edgecut_graph::small_graphs::{FakeGraphsOptions, GraphSource, fake_graphs, load_graphs, read_folds};
use edgecut_graph::{EdgeLabelValues, EdgeLabels, GraphDataset, HoldOut};

/// The name of the set of graphs in the corpus.
const TU_NAME: &str = "SMALL";

/// The buffers for the blocks of a text, which do not depend on its size.
const BLOCKS: MemoryBound = MemoryBound { fixed: 64 << 20, per_byte: 256 };

/// Datasets of large graphs in one layout.
pub(super) struct Datasets {
    pub(super) layout: &'static str,
}

impl Target for Datasets {
    fn samples(&mut self) -> anyhow::Result<Vec<Sample>> {
        if self.layout != "npy-folder" {
            return corpus(self.layout);
        }
        let mut samples = samples_in(&golden("datasets"))?;
        samples.push(labeled_edges()?);
        Ok(samples)
    }

    fn has_files(&self) -> bool {
        true
    }

    fn memory_bound(&self) -> MemoryBound {
        BLOCKS
    }

    fn read(&mut self, input: &Input<'_>) -> Outcome {
        let mut source = DatasetSource::of_folder(input.dir);
        let loaded = load_with_warnings(&source);
        match &loaded {
            Ok(loaded) => {
                loaded.dataset.validate().expect("a dataset that a reader accepted");
                source.to_undirected = loaded.dataset.node_types[0].num_nodes % 2 == 0;
                source.hold_out_edges = Some(HoldOut::random(0.2, 0.2, 1));
                let _ = load_with_warnings(&source);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        Outcome::from(&loaded)
    }
}

/// Returns a folder of arrays with classes and splits of edges.
fn labeled_edges() -> anyhow::Result<Sample> {
    let dir = tempfile::tempdir()?;
    let mut graph =
        fake(&FakeOptions { avg_num_nodes: 8, avg_degree: 2.0, num_channels: 1, ..FakeOptions::default() })?;
    let edges = &mut graph.edge_types[0];
    let num_edges = edges.src.len();
    let of_edges = (0..num_edges as i64).map(|edge| edge % 3).collect::<Vec<_>>().into();
    let splits = (0..num_edges).map(|edge| edge as u8 % 3).collect::<Vec<_>>().into();
    edges.attributes.labels =
        Some(EdgeLabels { values: EdgeLabelValues::Classes { of_edges, num_classes: 3 }, splits });
    export_npy(&graph, dir.path())?;
    Sample::read(dir.path())
}

/// Sets of small graphs in TUDataset's format.
pub(super) struct TuFiles;

impl Target for TuFiles {
    fn samples(&mut self) -> anyhow::Result<Vec<Sample>> {
        corpus("tu")
    }

    fn has_files(&self) -> bool {
        true
    }

    fn memory_bound(&self) -> MemoryBound {
        BLOCKS
    }

    fn read(&mut self, input: &Input<'_>) -> Outcome {
        let graphs = load_graphs(&GraphSource::new(TU_NAME, input.dir));
        if let Ok(graphs) = &graphs {
            read_graphs(graphs);
            let _ = read_folds(input.dir, graphs.num_graphs());
        }
        Outcome::from(&graphs)
    }
}

/// Reads all graphs of a set.
fn read_graphs(graphs: &GraphDataset) {
    let mut rows = Vec::new();
    for graph in 0..graphs.num_graphs() {
        graphs.append_features(graph, &mut rows);
        let view = graphs.graph(graph);
        let num_edges: usize = (0..view.num_nodes()).map(|node| view.neighbors(node).len()).sum();
        assert_eq!(num_edges, view.indices.len(), "the edges of graph {graph}");
    }
    assert_eq!(rows.len(), graphs.num_nodes() * graphs.feature_dim(), "features of all nodes");
}

/// The folders in which processes of a machine share sets of small graphs.
pub(super) struct StoredGraphs;

impl Target for StoredGraphs {
    fn samples(&mut self) -> anyhow::Result<Vec<Sample>> {
        let dir = tempfile::tempdir()?;
        let generated = dir.path().join("generated");
        std::fs::create_dir(&generated)?;
        fake_graphs(&FakeGraphsOptions { num_graphs: 4, ..FakeGraphsOptions::default() })?.write(&generated)?;
        let mut samples = vec![Sample::read(&generated)?];
        for sample in corpus("tu")? {
            let source = dir.path().join("source");
            sample.write(&source)?;
            let stored = dir.path().join("stored");
            std::fs::create_dir(&stored)?;
            load_graphs(&GraphSource::new(TU_NAME, source))?.write(&stored)?;
            samples.push(Sample::read(&stored)?);
        }
        Ok(samples)
    }

    fn has_files(&self) -> bool {
        true
    }

    fn read(&mut self, input: &Input<'_>) -> Outcome {
        let graphs = GraphDataset::open(input.dir);
        if let Ok(graphs) = &graphs {
            read_graphs(graphs);
        }
        Outcome::from(&graphs)
    }
}
