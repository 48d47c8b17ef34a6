//! Fused aggregation, compared with burn's gather and scatter-add and with memory copies.

use crate::args::{AggregationArgs, Common};
use crate::limits::memory_copy;
use crate::measure::record::Record;
use crate::measure::report::Report;
use crate::measure::timing::Timing;
use crate::work::local_job::LocalJob;
use crate::work::sampled::sample_all;
use crate::work::seed_batches::seed_batches;
use crate::work::slow_aggregation::SlowMean;
use crate::work::synthetic::{Cpu, Grad, random_block, random_tensor, random_values};
use anyhow::Context;
use burn::tensor::Tensor;
use edgecut_gnn::ops::{BatchGraph, Block, DropoutKey, EdgeWeights, Reduce, aggregate, dropout};
use std::path::Path;
use std::sync::Arc;

pub(crate) fn run(args: &AggregationArgs, common: &Common, report: &mut Report) -> anyhow::Result<()> {
    let block = match &args.data {
        Some(dir) => sampled_block(dir, args, common)?,
        None => random_block(args.num_src as usize)?,
    };
    // The transposed edges are made once per batch, and are timed separately below.
    block.prepare_backward();
    let width = args.width as usize;
    let limit = memory_copy(common.array_bytes(), common.threads(), common.reps())?;
    let bench = Bench { block, width, reps: common.reps(), threads: common.threads() };
    let row_bytes = (bench.block.num_edges() * width * 4) as f64;
    for (name, timing) in bench.timings()? {
        // The backward pass reads one row per edge as well.
        let passes = if name.contains("backward") { 2.0 } else { 1.0 };
        let record = bench.record(name, timing, passes * row_bytes, "B/s");
        let edges_per_s = bench.block.num_edges() as f64 / timing.median_s;
        report.add(&record.against(limit.rate(), limit.name.clone()).detail("edges_per_s", edges_per_s))?;
    }
    let edges = bench.block.num_edges() as f64;
    report.add(&bench.record("transposed edges", bench.transpose()?, edges, "edges/s"))?;
    for (name, timing) in bench.dropouts()? {
        let bytes = (bench.block.num_dst() * width * 4) as f64;
        report.add(&bench.record(name, timing, bytes, "B/s").against(limit.rate(), limit.name.clone()))?;
    }
    Ok(())
}

/// Returns the block of the first layer of a sampled batch, which is its largest block.
fn sampled_block(dir: &Path, args: &AggregationArgs, common: &Common) -> anyhow::Result<Block> {
    let job = LocalJob::start(dir, common.threads())?;
    let sampler = job.sampler(&args.draw)?;
    let seeds = seed_batches(job.graph.part(), args.draw.batch_size as usize, 1)?;
    let mut sampled = sample_all(&sampler, &seeds, 1, |sampled| sampled)?;
    drop(sampler);
    job.end()?;
    let mut batch = sampled.pop().context("no batch was sampled")?;
    let edges = std::mem::take(&mut batch.edges[0]);
    let nodes = &batch.nodes[0];
    let graph = Arc::new(BatchGraph::new(edges.indptr, edges.indices, nodes.ids.len())?);
    let within_hop: Vec<usize> = nodes.hop_offsets.iter().map(|&nodes| nodes as usize).collect();
    Block::layers(&graph, &within_hop)?.into_iter().next().context("the sampled batch has no hops")
}

struct Bench {
    block: Block,
    width: usize,
    reps: usize,
    threads: usize,
}

impl Bench {
    fn timings(&self) -> anyhow::Result<Vec<(&'static str, Timing)>> {
        let edges = random_values(self.block.graph().num_edges(), 2);
        let self_loops = random_values(self.block.graph().num_rows(), 3);
        let weights = EdgeWeights::new(self.block.graph(), edges, Some(self_loops))?;
        let weighted = Reduce::WeightedSum(Arc::new(weights));
        let slow = SlowMean::<Cpu>::new(&self.block);
        let slow_grad = SlowMean::<Grad>::new(&self.block);
        Ok(vec![
            ("fused mean, forward", self.forward(|x| aggregate(x, &self.block, &Reduce::Mean))?),
            ("fused mean, forward + backward", self.both(|x| aggregate(x, &self.block, &Reduce::Mean))?),
            ("gather + scatter, forward", self.forward(|x| slow.forward(x))?),
            ("gather + scatter, forward + backward", self.both(|x| slow_grad.forward(x))?),
            ("fused sum, forward + backward", self.both(|x| aggregate(x, &self.block, &Reduce::Sum))?),
            ("fused max, forward + backward", self.both(|x| aggregate(x, &self.block, &Reduce::Max))?),
            ("fused weighted, forward + backward", self.both(|x| aggregate(x, &self.block, &weighted))?),
        ])
    }

    fn forward(&self, layer: impl Fn(Tensor<Cpu, 2>) -> Tensor<Cpu, 2>) -> anyhow::Result<Timing> {
        let x = random_tensor::<Cpu>(self.block.num_src(), self.width, 1);
        self.time(|| drop(layer(x.clone())))
    }

    fn both(&self, layer: impl Fn(Tensor<Grad, 2>) -> Tensor<Grad, 2>) -> anyhow::Result<Timing> {
        let x = random_tensor::<Grad>(self.block.num_src(), self.width, 1).require_grad();
        self.time(|| drop(layer(x.clone()).sum().backward()))
    }

    fn transpose(&self) -> anyhow::Result<Timing> {
        let block = || Block::new(Arc::clone(self.block.graph()), self.block.num_dst(), self.block.num_src());
        Timing::measure(self.reps, |stopwatch| {
            let fresh = block()?;
            stopwatch.time(|| fresh.prepare_backward());
            Ok(())
        })
    }

    /// Times keyed dropout and burn's dropout on the output rows of the layer.
    fn dropouts(&self) -> anyhow::Result<[(&'static str, Timing); 2]> {
        let x = random_tensor::<Cpu>(self.block.num_dst(), self.width, 5);
        let ours = self.time(|| drop(dropout(x.clone(), 0.5, DropoutKey::new(0, 0, 0))))?;
        let burns = burn::nn::DropoutConfig::new(0.5).init();
        // On a backend without gradients, burn's dropout does nothing.
        let x = Tensor::<Grad, 2>::from_inner(x);
        Ok([("keyed dropout", ours), ("burn's dropout", self.time(|| drop(burns.forward(x.clone())))?)])
    }

    fn time(&self, work: impl Fn()) -> anyhow::Result<Timing> {
        Timing::measure(self.reps, |stopwatch| {
            stopwatch.time(&work);
            Ok(())
        })
    }

    fn record(&self, name: &str, timing: Timing, amount: f64, unit: &'static str) -> Record {
        let num_src = self.block.num_src();
        let num_dst = self.block.num_dst();
        let num_edges = self.block.num_edges();
        let work = format!("[{num_src}, {}], {num_edges} edges", self.width);
        Record::new("aggregation", name, work, timing, amount, unit)
            .param("num_src", num_src)
            .param("num_dst", num_dst)
            .param("num_edges", num_edges)
            .param("width", self.width)
            .param("threads", self.threads)
    }
}
