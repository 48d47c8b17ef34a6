//! The command `train sample`.

pub(crate) mod args;
pub(crate) mod npz;
pub(crate) mod output_folder;
mod staged_batches;

use crate::job::command::{JobCommand, JobFlags, refuse_verbose};
use crate::job::graph_session::{self, GraphSession};
use crate::job::labels::WantedLabels;
use crate::job::process_role::Rank;
use crate::node_ids::npy_numbers::read_numbers;
use crate::node_ids::{IdFileForm, NodeIdFile};
use crate::sample::args::SampleArgs;
use crate::sample::npz::{Npz, write_npz};
use crate::sample::output_folder::reserve;
use crate::sample::staged_batches::StagedBatches;
use anyhow::{Context, bail};
use edgecut_cli::result;
use edgecut_cluster::Termination;
use edgecut_dist_loader::{DistNeighborLoader, EdgeBatch, LoaderConfig, MiniBatch, NodeBatch, Seeds};
use edgecut_dist_sampler::{DistNeighborSampler, EdgeFields, NodeFields, SampledEdgeAttributes};
use edgecut_graph::{Meta, NodeTypeId, Split};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// The flags of `train sample` that must be equal on all ranks.
#[derive(Serialize)]
struct SampleFlags<'a> {
    #[serde(flatten)]
    args: &'a SampleArgs,
    /// The checksum of the listed seeds and their times.
    seeds: Option<String>,
}

impl JobCommand for SampleArgs {
    fn flags(&self) -> JobFlags<'_> {
        JobFlags { job: &self.job, part: Some(&self.part), device: None, training: None }
    }

    fn check(&self) -> anyhow::Result<()> {
        refuse_verbose(&self.job)
    }

    fn run(&self, rank: Rank, _termination: Option<&Termination>) -> anyhow::Result<()> {
        run(self, &rank)
    }
}

fn run(args: &SampleArgs, rank: &Rank) -> anyhow::Result<()> {
    let given = GivenSeeds::read(args)?;
    let old = reserve(&args.out, "batches", is_batch, args.overwrite, rank.rank == 0)?;
    let staged = StagedBatches::new(&args.out, !old.is_empty())?;
    let flags = SampleFlags { args, seeds: given.as_ref().map(GivenSeeds::checksum) };
    graph_session::run(&args.job, &args.part, rank, WantedLabels::First, &flags, |job| {
        let loader = loader(args, given, job)?;
        if loader.total_seeds() == 0 {
            bail!(
                "dataset {} has no training nodes to use as seeds: list seeds with --seeds",
                job.graph.part().meta().dataset
            );
        }
        let written = write_batches(args, staged.dir(), &loader, job)?;
        if job.world.rank() == 0 {
            result!("{written} batches in {}", args.job.stores.given("out", &args.out).display())?;
        }
        Ok(())
    })?;
    staged.publish()?;
    old.remove()
}

/// Returns true for the names of files of batches.
pub(crate) fn is_batch(file: &str) -> bool {
    let number = file.strip_prefix("batch_").and_then(|rest| rest.strip_suffix(".npz"));
    number.is_some_and(|number| number.len() >= FEWEST_DIGITS && number.bytes().all(|digit| digit.is_ascii_digit()))
}

/// The seeds in the file of `--seeds`, and their times in the file of `--seed-times`.
struct GivenSeeds {
    ids: NodeIdFile,
    times: Option<Vec<i64>>,
}

impl GivenSeeds {
    fn read(args: &SampleArgs) -> anyhow::Result<Option<Self>> {
        let Some(path) = &args.seeds else { return Ok(None) };
        let ids = NodeIdFile::read("--seeds", path, IdFileForm::Nodes, args.row_numbers)?;
        let times = args.seed_times.as_deref().map(|path| read_numbers(path, "time")).transpose()?;
        Ok(Some(Self { ids, times }))
    }

    fn checksum(&self) -> String {
        let times = edgecut_graph::checksum(bytemuck::cast_slice(self.times.as_deref().unwrap_or_default()));
        format!("{} {times}", self.ids.checksum())
    }

    /// Returns the seeds as global ids. Every rank must call this.
    fn find(self, args: &SampleArgs, seed_type: NodeTypeId, job: &mut GraphSession<'_>) -> anyhow::Result<Seeds> {
        let root = args.part.dataset_root_dir.as_deref();
        let ids = self.ids.find(&[seed_type], root, &job.graph, job.world)?.concat();
        if let (Some(times), Some(file), Some(path)) = (&self.times, &args.seed_times, &args.seeds)
            && times.len() != ids.len()
        {
            bail!("{}: it has {} times for the {} seeds of {}", file.display(), times.len(), ids.len(), path.display());
        }
        job.graph.make_directory(seed_type, false, job.world)?;
        let nodes = job.graph.handle().block_on(job.graph.find_originals(seed_type, &ids))?;
        Ok(match self.times {
            Some(times) => Seeds::Timed(nodes.into_iter().zip(times).collect()),
            None => Seeds::Listed(nodes),
        })
    }
}

fn loader(
    args: &SampleArgs,
    given: Option<GivenSeeds>,
    job: &mut GraphSession<'_>,
) -> anyhow::Result<DistNeighborLoader> {
    let meta = job.graph.part().meta().clone();
    let seed_type = seed_type(args, &meta)?;
    let (shuffle, seeds) = match given {
        Some(given) => (false, given.find(args, seed_type, job)?),
        None => (true, Seeds::Split(Split::Train)),
    };
    let of_edges = EdgeFields::of_batches(&meta);
    let sampler_config = args.sampling.config(args.num_neighbors.value.clone())?.with_edge_attributes(of_edges);
    let sampler = Arc::new(DistNeighborSampler::new(job.graph.clone(), sampler_config)?);
    let wanted = NodeFields {
        labels: meta.node_types[seed_type.index()].is_labeled(),
        features: meta.node_types.iter().any(|nodes| nodes.feature_dim > 0),
        original_ids: true,
        times: meta.node_types.iter().any(|nodes| nodes.has_times),
        ..NodeFields::default()
    };
    let config = LoaderConfig {
        shuffle,
        seed: args.seed,
        concurrency: args.concurrency as usize,
        prefetch_bytes: usize::try_from(args.prefetch_bytes).unwrap_or(usize::MAX),
        ..LoaderConfig::new(args.batch_size as usize, wanted)
    };
    Ok(DistNeighborLoader::new(sampler, seed_type, seeds, config, job.world)?)
}

/// Returns the node type of the seeds: the type in `--seed-type`, or else the only type with training nodes.
fn seed_type(args: &SampleArgs, meta: &Meta) -> anyhow::Result<NodeTypeId> {
    let names: Vec<&str> = meta.node_types.iter().map(|nodes| nodes.name.as_str()).collect();
    if let Some(wanted) = &args.seed_type {
        let Some(at) = names.iter().position(|name| name == wanted) else {
            bail!("--seed-type {wanted}: dataset {} has node types {}", meta.dataset, names.join(", "));
        };
        return Ok(NodeTypeId(at as u16));
    }
    let mut trained = Vec::new();
    for (at, nodes) in meta.node_types.iter().enumerate() {
        if nodes.split_sizes[0] > 0 {
            trained.push(NodeTypeId(at as u16));
        }
    }
    match (&trained[..], names.len()) {
        ([only], _) => Ok(*only),
        (_, 1) => Ok(NodeTypeId(0)),
        _ => bail!(
            "dataset {} has node types {}: select the type of the seeds with --seed-type",
            meta.dataset,
            names.join(", ")
        ),
    }
}

/// Writes this rank's batches to `dir`, epoch after epoch, until the job has written the requested number. Returns the number of
/// batches over all ranks. Batches are numbered by step and, within a step, by rank; empty batches have no number.
fn write_batches(
    args: &SampleArgs,
    dir: &Path,
    loader: &DistNeighborLoader,
    job: &mut GraphSession<'_>,
) -> anyhow::Result<u64> {
    let mine = loader.num_batches() as u64;
    let counts: Vec<u64> =
        job.world.all_gather(&mine.to_le_bytes())?.iter().map(|bytes| u64_of(bytes)).collect::<anyhow::Result<_>>()?;
    let per_epoch: u64 = counts.iter().sum();
    let wanted = args.num_batches.unwrap_or(per_epoch);
    let rank = job.world.rank();
    // Names of equal length sort by number.
    let digits = wanted.saturating_sub(1).to_string().len().max(FEWEST_DIGITS);
    for epoch in 0..wanted.div_ceil(per_epoch.max(1)) {
        for (step, batch) in loader.epoch(epoch).enumerate() {
            let step = step as u64;
            // A rank with fewer batches contributes to its first steps only, so the earlier steps hold
            // sum(min(count, step)) batches, and this step one for each lower rank that still has batches.
            let before = epoch * per_epoch + counts.iter().map(|&count| count.min(step)).sum::<u64>();
            if before >= wanted {
                break;
            }
            let number = before + counts[..rank].iter().filter(|&&count| count > step).count() as u64;
            let batch = batch?;
            if batch.num_seeds > 0 && number < wanted {
                let name = format!("batch_{number:0digits$}.npz");
                write_batch(&dir.join(name), &batch, job.graph.part().meta(), loader.node_type())?;
            }
            // Meeting at every step bounds the wait for a slow rank to the time of one batch.
            job.world.barrier()?;
        }
    }
    Ok(wanted)
}

fn u64_of(bytes: &[u8]) -> anyhow::Result<u64> {
    Ok(u64::from_le_bytes(bytes.try_into().context("a rank sent an invalid number of batches")?))
}

/// The fewest digits of the number in a file's name.
const FEWEST_DIGITS: usize = 5;

/// Writes a batch to a temporary file and renames it. Node ids are original ids, stored as `int64` as PyTorch
/// expects them. In a graph with several types, the type's name precedes the names of its arrays.
fn write_batch(path: &Path, batch: &MiniBatch, meta: &Meta, seed_type: NodeTypeId) -> anyhow::Result<()> {
    let written = write_npz(path, |npz| add_batch(npz, batch, meta, seed_type));
    written.with_context(|| format!("write {}", path.display()))
}

/// Adds the arrays of a batch to an archive.
fn add_batch(npz: &mut Npz<'_>, batch: &MiniBatch, meta: &Meta, seed_type: NodeTypeId) -> anyhow::Result<()> {
    npz.ids("seeds", &batch.nodes[seed_type.index()].original_ids[..batch.num_seeds])?;
    let typed = meta.node_types.len() > 1 || meta.edge_types.len() > 1;
    let before = |name: String| if typed { format!("{name}/") } else { String::new() };
    for (nodes, t) in batch.nodes.iter().zip(&meta.node_types) {
        npz.nodes(&before(t.name.clone()), nodes)?;
    }
    for (edges, t) in batch.edges.iter().zip(&meta.edge_types) {
        npz.edges(&before(t.full_name()), edges)?;
    }
    if !batch.labels.is_empty() {
        npz.array("y", &[batch.labels.len()], &batch.labels)?;
    }
    if !batch.targets.is_empty() {
        npz.array("y", &[batch.num_seeds, batch.target_dim], &batch.targets)?;
    }
    Ok(())
}

impl Npz<'_> {
    fn nodes(&mut self, before: &str, nodes: &NodeBatch) -> anyhow::Result<()> {
        self.ids(&format!("{before}input_nodes"), &nodes.original_ids)?;
        self.ids(&format!("{before}hop_offsets"), &nodes.hop_offsets)?;
        if !nodes.batch.is_empty() {
            self.ids(&format!("{before}batch"), &nodes.batch)?;
        }
        if nodes.feature_dim > 0 {
            let shape = [nodes.original_ids.len(), nodes.feature_dim];
            self.array(&format!("{before}x"), &shape, &nodes.features)?;
        }
        if !nodes.times.is_empty() {
            self.array(&format!("{before}time"), &[nodes.times.len()], &nodes.times)?;
        }
        Ok(())
    }

    fn edges(&mut self, before: &str, edges: &EdgeBatch) -> anyhow::Result<()> {
        self.ids(&format!("{before}indptr"), &edges.indptr)?;
        self.ids(&format!("{before}indices"), &edges.indices)?;
        let SampledEdgeAttributes { times, weights, features, feature_dim, ids, .. } = &edges.attributes;
        if !weights.is_empty() {
            self.array(&format!("{before}edge_weight"), &[weights.len()], weights)?;
        }
        if !times.is_empty() {
            self.array(&format!("{before}edge_time"), &[times.len()], times)?;
        }
        if !features.is_empty() {
            self.array(&format!("{before}edge_attr"), &[edges.indices.len(), *feature_dim], features)?;
        }
        if !ids.is_empty() {
            self.array(&format!("{before}e_id"), &[ids.len()], ids)?;
        }
        Ok(())
    }

    fn ids(&mut self, name: &str, ids: &[u32]) -> anyhow::Result<()> {
        let ids: Vec<i64> = ids.iter().map(|&id| i64::from(id)).collect();
        self.array(name, &[ids.len()], &ids)
    }
}

#[cfg(test)]
mod tests {
    use super::is_batch;

    #[test]
    fn only_numbered_files_are_batches() {
        for name in ["batch_00000.npz", "batch_123456.npz"] {
            assert!(is_batch(name), "{name}");
        }
        // Files of a user, which `--overwrite` must not remove.
        for name in ["batch_norm.npz", "batch_.npz", "batch_1.npz", "batch_00000.npz.bak", "batch_0000x.npz"] {
            assert!(!is_batch(name), "{name}");
        }
    }
}
