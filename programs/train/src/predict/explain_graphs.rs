//! The nodes and edges that predictions of whole graphs rest on.

use super::args::PredictArgs;
use super::explain::{ExplanationFile, Targets, request};
use super::failure::Failure;
use super::feature_names::FeatureNames;
use super::graphs::{OpenGraphs, SelectedGraphs};
use super::progress::Progress;
use super::{PredictFlags, prepare_out};
use crate::job::process_role::Rank;
use crate::job::{self, Job};
use edgecut_dist_sampler::{Fanout, SamplerConfig};
use edgecut_graph::NodeTypeId;
use edgecut_trainer::TrainingBackend;
use edgecut_trainer::inference::ExplanationRun;
use std::time::Instant;

pub(super) fn run<B: TrainingBackend>(args: &PredictArgs, rank: &Rank, device: &B::Device) -> anyhow::Result<()> {
    let selected = SelectedGraphs::read(args)?;
    let old = prepare_out(args, rank)?;
    let flags = PredictFlags { args, listed: selected.ids.checksum() };
    job::run(&args.job, rank, selected.description(), &flags, |Job { cluster, world, .. }| {
        let start = Instant::now();
        let progress = Progress::new(&args.job, world.rank());
        let OpenGraphs { dataset, decision, open } = selected.open::<B>(args, cluster, world, device)?;
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
        let mut failure = Failure::default();
        let request = request(args, SamplerConfig::new(Vec::<Fanout>::new()), decision);
        let run = ExplanationRun { world, device, progress: &progress };
        let model = (&open.model, &open.config);
        let done = B::explain_graphs(&dataset, graphs, model, &request, run, &mut |found, world| {
            failure.keep(file.push(&found, world))
        });
        failure.or(done)?;
        let found = file.finish(world)?;
        progress.finish();
        if world.rank() == 0 {
            found.report(args, start.elapsed().as_secs_f64())?;
        }
        Ok(())
    })?;
    old.remove()
}
