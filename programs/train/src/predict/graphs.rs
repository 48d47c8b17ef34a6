//! Predictions, probabilities, logits and embeddings of whole graphs.

use super::args::{Format, PredictArgs, Rows};
use super::done::{Done, in_job};
use super::files::{Columns, write_ids};
use super::ids::{Ids, check_ids};
use super::model::{Opened, open};
use super::ordered_rows::OrderedRows;
use super::values::class_or_none;
use crate::job::Job;
use crate::job::process_role::Rank;
use crate::run_page::percent;
use crate::tasks::graph::load;
use anyhow::Context;
use edgecut_cluster::{Cluster, ProcessGroup, ReduceOp};
use edgecut_dist_sampler::share_graphs;
use edgecut_graph::GraphDataset;
use edgecut_graph::small_graphs::GraphSource;
use edgecut_trainer::TrainingBackend;
use edgecut_trainer::inference::{GraphPredictionConfig, WantedGraphRows};
use edgecut_trainer::loss::OutputKind;
use edgecut_trainer::metrics::Decision;
use serde::Serialize;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// The number of graphs whose rows are written at once.
const BLOCK: usize = 1 << 12;
/// The default of `--dataset-root-dir`, that of `train graph`.
const DEFAULT_DIR: &str = "data";

/// The result that `--json` prints.
#[derive(Serialize)]
struct GraphsResult {
    graphs: usize,
    /// The accuracy over the written graphs.
    acc: Option<f64>,
}

/// The graphs that the flags select.
pub(super) struct SelectedGraphs {
    pub(super) ids: Ids,
    /// The value of `--graphs`.
    text: String,
    /// The value of `--dataset`.
    name: String,
    source: GraphSource,
}

/// A set of graphs, and a saved model for them.
pub(super) struct OpenGraphs<'a, B: TrainingBackend> {
    pub(super) dataset: Arc<GraphDataset>,
    pub(super) opened: Opened<'a, B>,
}

impl SelectedGraphs {
    /// Reads the flags and the ids that they name.
    pub(super) fn read(args: &PredictArgs) -> anyhow::Result<Self> {
        let text = args.graphs.clone().context("--graphs is missing")?;
        let name = args.part.dataset.clone().context("--dataset is missing")?;
        let ids = Ids::read("--graphs", &text, "graph id")?;
        let dir = args.part.dataset_root_dir.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_DIR));
        let source = GraphSource::new(&name, dir);
        Ok(Self { ids, text, name, source })
    }

    /// Returns the description of the set for the identity of the job.
    pub(super) fn description(&self) -> String {
        format!("graphs {}", self.name)
    }

    /// Reads the set and the model. Every rank must call this.
    ///
    /// # Errors
    /// A model that is not for graphs, or not for these, and graphs that do not exist.
    pub(super) fn open<'a, B: TrainingBackend>(
        &self,
        args: &'a PredictArgs,
        cluster: &Cluster,
        world: &mut ProcessGroup,
        device: &B::Device,
    ) -> anyhow::Result<OpenGraphs<'a, B>> {
        let dataset = Arc::new(share_graphs(cluster, || load(&self.source))?);
        let opened = open::<B>(args, None, world, device)?;
        opened.saved.check_graphs(&dataset, None, opened.of_graphs()?.1, world)?;
        let listed = self.ids.listed().unwrap_or_default();
        check_ids(&format!("--graphs {}", self.text), listed, "graph", dataset.num_graphs())?;
        Ok(OpenGraphs { dataset, opened })
    }
}

pub(super) fn run<B: TrainingBackend>(args: &PredictArgs, rank: &Rank, device: &B::Device) -> anyhow::Result<()> {
    let selection = SelectedGraphs::read(args)?;
    let selected = &selection.ids;
    in_job(args, rank, selection.description(), selected.checksum(), |Job { cluster, world, .. }| {
        let start = Instant::now();
        let OpenGraphs { dataset, opened } = selection.open::<B>(args, cluster, world, device)?;
        let model = opened.of_graphs()?;
        let config = model.1;
        let outputs = opened.outputs()?;
        let num_graphs = selected.len(dataset.num_graphs());
        let (wanted, width) = match args.output {
            Rows::Embedding => (WantedGraphRows::Pooled, config.pooled_channels().context("the model is too large")?),
            _ => (WantedGraphRows::Logits, config.num_outputs()),
        };
        let output = OrderedRows {
            args,
            stem: "predictions",
            columns: Columns::of_outputs(&["graph_id"], args.output, outputs, width)?,
            decision: opened.saved.decision(),
            num_rows: num_graphs,
            width,
            block: BLOCK,
            ids: &|rows| vec![selected.range(rows)],
            named: Vec::new(),
            more: &|_| Ok(Vec::new()),
        };
        let prediction = GraphPredictionConfig { wanted, memory_bytes: args.memory_bytes as usize };
        let is_classified = args.output != Rows::Embedding && outputs == OutputKind::Classes(dataset.classes().len());
        let mut right = 0;
        output.write(world, |rows: Range<usize>| {
            let graphs = selected.range(rows);
            let values = B::predict_graphs(&dataset, &graphs, prediction, model, device)?;
            if is_classified {
                right += num_right(&dataset, &graphs, &values, width, &output.decision);
            }
            Ok(values)
        })?;
        if let (Some(ids), Format::Npy, 0) = (selected.listed(), args.format, world.rank()) {
            write_ids(&args.out.join("graph_ids.npy"), ids)?;
        }
        let mut right = [right];
        world.all_reduce(&mut right, ReduceOp::Sum)?;
        let acc = is_classified.then(|| right[0] as f64 / num_graphs as f64);
        let result = GraphsResult { graphs: num_graphs, acc };
        let mut done = Done::new(format!("predictions for {num_graphs} graphs"), result, Some(start.elapsed()));
        if acc.is_some() {
            done.lines.push(format!("accuracy: {}", percent(acc)));
        }
        Ok(done)
    })
}

/// Returns the number of graphs whose class is predicted.
fn num_right(dataset: &GraphDataset, graphs: &[u32], logits: &[f32], width: usize, decision: &Decision) -> u64 {
    let mut right = 0;
    for (&graph, logits) in graphs.iter().zip(logits.chunks_exact(width)) {
        right += u64::from(class_or_none(logits, decision) == i64::from(dataset.class(graph as usize)));
    }
    right
}
