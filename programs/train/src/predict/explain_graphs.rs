//! The nodes and edges that predictions of whole graphs rest on.

use super::args::PredictArgs;
use super::done::in_job;
use super::explain::{ExplanationFile, Targets, request};
use super::feature_names::FeatureNames;
use super::graphs::{OpenGraphs, SelectedGraphs};
use super::progress::Progress;
use crate::job::Job;
use crate::job::process_role::Rank;
use edgecut_dist_sampler::{Fanout, SamplerConfig};
use edgecut_graph::NodeTypeId;
use edgecut_trainer::TrainingBackend;
use edgecut_trainer::inference::ExplanationRun;
use std::time::Instant;

pub(super) fn run<B: TrainingBackend>(args: &PredictArgs, rank: &Rank, device: &B::Device) -> anyhow::Result<()> {
    let selected = SelectedGraphs::read(args)?;
    in_job(args, rank, selected.description(), selected.ids.checksum(), |Job { cluster, world, .. }| {
        let start = Instant::now();
        let progress = Progress::new(&args.job, world.rank());
        let OpenGraphs { dataset, opened } = selected.open::<B>(args, cluster, world, device)?;
        let graphs = selected.ids.range(0..selected.ids.len(dataset.num_graphs()));
        // Nodes of small graphs have no ids besides their numbers, and all of them have one type.
        let targets = Targets {
            ids: &["graph_id", "output", "rank"],
            names: vec![("graph", NodeTypeId(0))],
            edges: None,
            classes: None,
        };
        let features = FeatureNames::of_graphs(&dataset);
        let mut file = ExplanationFile::new(args, targets, features, vec![None], vec![[NodeTypeId(0); 2]], world)?;
        let model = opened.of_graphs()?;
        let request = request(args, SamplerConfig::new(Vec::<Fanout>::new()), opened.saved.decision());
        let run = ExplanationRun { world, device, progress: &progress };
        file.fill(|visit| B::explain_graphs(&dataset, graphs, model, &request, run, visit))?;
        let found = file.finish(world)?;
        progress.finish();
        Ok(found.done("graphs", start.elapsed()))
    })
}
