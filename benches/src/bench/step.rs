//! A training step alone, and overlapped with sampling.

use crate::args::{Common, StepArgs};
use crate::measure::record::Record;
use crate::measure::report::Report;
use crate::measure::timing::{Timing, Work};
use crate::work::local_job::{LocalJob, NODES};
use crate::work::seed_batches::seed_batches;
use crate::work::synthetic::Grad;
use crate::work::trainee::{Trainee, trainee};
use burn::optim::Optimizer;
use edgecut_dist_loader::{DistNeighborLoader, LoaderConfig, MiniBatch, Seeds};
use edgecut_gnn::ops::Precision;
use edgecut_trainer::BatchOptions;
use edgecut_trainer::models::Network;
use std::cell::RefCell;

pub(crate) fn run(args: &StepArgs, common: &Common, report: &mut Report) -> anyhow::Result<()> {
    let mut job = LocalJob::start(&args.batch.data, common.threads())?;
    let draw = &args.batch.draw;
    let seeds = seed_batches(job.graph.part(), draw.batch_size as usize, draw.batches as usize)?;
    let loader = loader(args, &mut job, &seeds)?;
    let batches = loader.epoch(0).collect::<Result<Vec<_>, _>>()?;
    let rows = batches.iter().map(|batch| batch.nodes[0].input_nodes.len()).sum::<usize>();
    let alone = alone(args, common, &mut job, &batches)?;
    drop(batches);
    let precision = args.mixed_precision.unwrap_or_default();
    let record = |name: &str, timing: Timing| {
        let fanouts = draw.num_neighbors.text();
        let size = seeds[0].len();
        let hidden = args.hidden;
        let work = format!("batch of {size} seeds, {fanouts}, hidden {hidden}");
        Record::new("step", name, work, timing.per(seeds.len()), size as f64, "seeds/s")
            .param("batch_size", size)
            .param("num_neighbors", fanouts)
            .param("hidden_channels", hidden)
            .param("batches", seeds.len())
            .param("precision", precision.to_string())
            .param("threads", common.threads())
            .detail("input_nodes_per_batch", rows as f64 / seeds.len() as f64)
    };
    if let [_, in_f32] = alone[..] {
        report.add(&record("step alone in f32", in_f32).param("precision", Precision::F32.to_string()))?;
    }
    let alone = alone[0];
    report.add(&record("step alone", alone))?;
    let loading = loading(args, common, &job, &loader)?;
    report.add(&record("batches alone", loading).param("concurrency", args.concurrency))?;
    let overlapped = overlapped(args, common, &mut job, &loader)?;
    // If the machine has enough cores to run both at once, the slower of the two is the limit.
    let slower = alone.median_s.max(loading.median_s) / seeds.len() as f64;
    let record = record("step with batches overlapped", overlapped)
        .against(seeds[0].len() as f64 / slower, "the slower of step and batches")
        .param("concurrency", args.concurrency);
    report.add(&record)?;
    drop(loader);
    job.end()
}

fn loader(args: &StepArgs, job: &mut LocalJob, seeds: &[Vec<u32>]) -> anyhow::Result<DistNeighborLoader> {
    let config = LoaderConfig {
        concurrency: args.concurrency as usize,
        ..LoaderConfig::new(seeds[0].len(), BatchOptions::default().wanted())
    };
    let sampler = job.sampler(&args.batch.draw)?;
    Ok(DistNeighborLoader::new(sampler, NODES, Seeds::Listed(seeds.concat()), config, &mut job.world)?)
}

/// Times steps on existing batches, and with `--mixed-precision` also steps in `f32`, in turns. The time excludes copying
/// the batches and converting them into tensors, which `train` does on the loader's threads.
fn alone(args: &StepArgs, common: &Common, job: &mut LocalJob, batches: &[MiniBatch]) -> anyhow::Result<Vec<Timing>> {
    let mut precisions = vec![args.mixed_precision.unwrap_or_default()];
    precisions.extend(args.mixed_precision.map(|_| Precision::F32));
    let mut trainees = Vec::new();
    for precision in precisions {
        trainees.push(trainee_of(args, job)?.with_precision(precision));
    }
    let world = RefCell::new(&mut job.world);
    let mut works: Vec<Work<'_>> = Vec::new();
    for trainee in &mut trainees {
        works.push(Box::new(|stopwatch| {
            for (step, batch) in batches.iter().enumerate() {
                let batch = trainee.tensors(batch.clone())?;
                stopwatch.time(|| trainee.step(batch, step as u64, &mut world.borrow_mut()))?;
            }
            Ok(())
        }));
    }
    Timing::measure_in_turns(common.reps(), &mut works)
}

/// Creates the model of `args`, with products in `f32`.
fn trainee_of(args: &StepArgs, job: &LocalJob) -> anyhow::Result<Trainee<impl Optimizer<Network<Grad>, Grad> + use<>>> {
    let draw = &args.batch.draw;
    trainee(job, &draw.num_neighbors.0, args.hidden as usize, draw.batch_size as usize)
}

/// Times an epoch of the loader without training.
fn loading(args: &StepArgs, common: &Common, job: &LocalJob, loader: &DistNeighborLoader) -> anyhow::Result<Timing> {
    let trainee = trainee_of(args, job)?;
    Timing::measure(common.reps(), |stopwatch| {
        stopwatch.time(|| {
            for batch in trainee.epoch(loader) {
                batch??;
            }
            Ok(())
        })
    })
}

/// Times epochs with overlapped loading and training, as in `train node`.
fn overlapped(
    args: &StepArgs,
    common: &Common,
    job: &mut LocalJob,
    loader: &DistNeighborLoader,
) -> anyhow::Result<Timing> {
    let mut trainee = trainee_of(args, job)?.with_precision(args.mixed_precision.unwrap_or_default());
    Timing::measure(common.reps(), |stopwatch| {
        stopwatch.time(|| {
            for (step, batch) in trainee.epoch(loader).enumerate() {
                trainee.step(batch??, step as u64, &mut job.world)?;
            }
            Ok(())
        })
    })
}
