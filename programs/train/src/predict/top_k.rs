//! The destinations with the highest scores.

use super::args::{Format, PredictArgs, Rows};
use super::checks::check_row_numbers;
use super::done::{Done, in_graph};
use super::files::{Columns, NpyFile, RowsFile, create_table, stem_of_rank, write_ids};
use super::ids::Ids;
use super::links::{Encoded, EndNames, FoundEndNames, OF_LINKS, Relation, encode, relation};
use super::model::open;
use super::ordered_rows::stretch;
use super::progress::Progress;
use super::request::{DATA, PARTS, Request, WHOLE, on_backend};
use super::scratch_dir;
use super::values::Values;
use crate::job::process_role::Rank;
use crate::node_ids::{IdFileForm, NodeIdFile};
use crate::tasks::link::LINKS;
use anyhow::{Context, ensure};
use clap::Args;
use edgecut_cli::counted;
use edgecut_trainer::TrainingBackend;
use edgecut_trainer::inference::{
    ExcludedEdges, RankingMetrics, RankingReport, ScoredNode, TopDestinations, TopDestinationsConfig,
};
use serde::Serialize;
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

/// The result that `--json` prints.
#[derive(Serialize)]
struct TopKResult {
    sources: usize,
    top_k: usize,
    /// The lists compared with held-out test edges.
    #[serde(skip_serializing_if = "Option::is_none")]
    test: Option<RankingMetrics>,
    /// The same metrics of the destinations with the most edges.
    #[serde(skip_serializing_if = "Option::is_none")]
    popularity: Option<RankingMetrics>,
}

/// The flags of best destinations.
#[derive(Clone, Debug, Args, Serialize)]
pub(crate) struct TopKFlags {
    /// --output top-k: the sources, all or a file of ids as for --nodes
    #[arg(long, value_name = "all|FILE")]
    sources: Option<String>,
    /// --output top-k: destinations per source. They are the best of all nodes of their type
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    top_k: Option<u32>,
    /// --output top-k: leave out the destinations of known edges of the source: training edges (train), or training and
    /// held-out edges (all, and the flag without a value). With train or none, the lists are compared with held-out test
    /// edges [default: none]
    #[arg(long, value_name = "train|all|none", value_parser = ["train", "all", "none"], num_args = 0..=1, default_missing_value = "all")]
    exclude_known: Option<String>,
}

/// The best destinations of sources.
pub(super) const REQUEST: Request = Request {
    reads: &[DATA, PARTS, WHOLE, OF_LINKS, &["exclude_known", "sources", "top_k"]],
    stem: "top_k",
    beside: &["destinations.npy", "scores.npy", "source_ids.npy"],
    check,
    ..Request::new(LINKS, "--output top-k", |args| args.output == Rows::TopK, on_backend!(run))
};

fn check(args: &PredictArgs) -> Result<(), &'static str> {
    let TopKFlags { sources, top_k, .. } = &args.own.top_k;
    match (sources, top_k) {
        (None, _) => Err("--sources is missing: --output top-k needs all, or a file of ids"),
        (_, None) => Err("--top-k is missing: --output top-k needs the number of destinations per source"),
        (Some(sources), _) => check_row_numbers(args, sources),
    }
}

fn run<B: TrainingBackend>(args: &PredictArgs, rank: &Rank, device: &B::Device) -> anyhow::Result<()> {
    let flags = &args.own.top_k;
    let text = flags.sources.as_deref().context("--sources is missing")?;
    let top_k = flags.top_k.context("--top-k is missing")? as usize;
    let mut listed = None;
    if text != "all" {
        let file = NodeIdFile::read("--sources", Path::new(text), IdFileForm::Nodes, args.row_numbers);
        listed = Some(file.context("expected all or a file of ids")?);
    }
    let scratch_dir = scratch_dir(args)?;
    in_graph(args, rank, listed.as_ref().map(NodeIdFile::checksum), |job| {
        let start = Instant::now();
        let opened = open::<B>(args, Some(job.graph.part().meta()), job.world, device)?;
        let relation = relation(&opened, job.graph.part())?;
        let Relation { edge_type, num_destinations, num_sources: num_nodes, .. } = relation;
        ensure!(
            top_k <= num_destinations,
            "--top-k {top_k}: there are only {num_destinations} destinations: ask for at most as many"
        );
        let mut sources = Ids::All;
        if let Some(file) = &listed {
            let root = args.part.dataset_root_dir.as_deref();
            sources = Ids::Listed(file.find(&relation.ends[..1], root, &job.graph, job.world)?.concat());
        }
        let progress = Progress::new(&args.job, job.world.rank());
        let Encoded { model, ends, reads_later_neighbors } =
            encode(&opened, edge_type, scratch_dir, &progress, job, device)?;
        let num_sources = sources.len(num_nodes);
        let config = TopDestinationsConfig {
            k: top_k,
            excluded: match flags.exclude_known.as_deref() {
                Some("train") => ExcludedEdges::Train,
                Some("all") => ExcludedEdges::All,
                _ => ExcludedEdges::None,
            },
            memory_bytes: args.memory_bytes as usize,
        };
        let search = TopDestinations::new(ends, sources.listed(), config, job.world)?;
        let names = EndNames::open(args, &relation, job)?;
        let mut file = TopKFile::create(args, &names, num_sources, top_k, (job.world.rank(), job.world.size()))?;
        // Without held-out edges in the lists, there is nothing to compare. Rows that later edges have reached would foresee
        // the test edges.
        let is_compared = config.excluded != ExcludedEdges::All && search.has_test_edges() && !reads_later_neighbors;
        let mut reports = [RankingReport::new(top_k, num_destinations), RankingReport::new(top_k, num_destinations)];
        let block = search.sources_at_once();
        let num_steps = num_sources.div_ceil(block);
        for (step, first) in (1..).zip((0..num_sources).step_by(block)) {
            let rows = first..(first + block).min(num_sources);
            let ids = sources.range(rows.clone());
            let best = B::find_top_destinations(&search, model, &ids, job.world, device)?;
            if is_compared {
                let test = search.held_out_destinations(&ids, job.world)?;
                let popular = search.popular_destinations(&ids, job.world)?;
                reports[0].add(&best, &test);
                reports[1].add(&popular, &test);
            }
            let destinations = best.iter().flatten().map(|node| node.id).collect();
            let found = names.of([ids.clone(), destinations], job.world)?;
            file.push(rows, &ids, &best, &found)?;
            progress.show("ranking", step, num_steps);
        }
        progress.finish();
        file.commit(|path| write_ids(path, &sources.range(0..num_sources)))?;
        job.world.barrier()?;
        let time = start.elapsed();
        let [test, popularity] = reports.map(|report| report.metrics());
        let result = TopKResult { sources: num_sources, top_k, test, popularity };
        let destinations = counted(top_k, "destination", "destinations");
        let what = format!("{destinations} for {}", counted(num_sources, "source", "sources"));
        let mut done = Done::new(what, result, Some(time));
        for (name, metrics) in [("test edges", test), ("the most popular destinations", popularity)] {
            let Some(RankingMetrics { sources, recall, ndcg, map, hit_rate, coverage }) = metrics else { continue };
            done.lines.push(format!(
                "{name}: recall@{top_k} {recall:.4}, NDCG@{top_k} {ndcg:.4}, MAP@{top_k} {map:.4}, hit rate \
                 {hit_rate:.4}, coverage {coverage:.4} ({sources} sources)"
            ));
        }
        Ok(done)
    })
}

/// The files that a rank writes. All ranks know all destinations.
enum TopKFile {
    /// Arrays with a row per source, and the folder of the array of sources.
    Arrays { destinations: NpyFile, scores: NpyFile, top_k: usize, out: std::path::PathBuf },
    /// A table of the sources in a range.
    Table { table: Box<dyn RowsFile>, sources: Range<usize> },
    /// Another rank writes.
    None,
}

impl TopKFile {
    fn create(
        args: &PredictArgs,
        names: &EndNames,
        num_sources: usize,
        top_k: usize,
        (rank, size): (usize, usize),
    ) -> anyhow::Result<Self> {
        let columns = Columns::of_scores(&["src_id", "rank", "dst_id"]);
        if args.format != Format::Npy && !args.gather {
            let table = create_table(&stem_of_rank("top_k", rank, size), args, &columns, names.named())?;
            return Ok(Self::Table { table, sources: stretch(num_sources, rank, size) });
        }
        if rank != 0 {
            return Ok(Self::None);
        }
        if args.format != Format::Npy {
            let table = create_table("top_k", args, &columns, names.named())?;
            return Ok(Self::Table { table, sources: 0..num_sources });
        }
        let shape = [num_sources, top_k];
        Ok(Self::Arrays {
            destinations: NpyFile::create::<i64>(&args.out.join("destinations.npy"), &shape)?,
            scores: NpyFile::create::<f32>(&args.out.join("scores.npy"), &shape)?,
            top_k,
            out: args.out.clone(),
        })
    }

    /// Appends the destinations of the sources at some positions, which have `ids`. `names` has the names of all nodes.
    fn push(
        &mut self,
        positions: Range<usize>,
        ids: &[u32],
        best: &[Vec<ScoredNode>],
        names: &FoundEndNames,
    ) -> anyhow::Result<()> {
        match self {
            Self::None => Ok(()),
            Self::Arrays { destinations, scores, top_k, .. } => {
                let mut row_ids = vec![-1_i64; *top_k];
                let mut row_scores = vec![f32::NAN; *top_k];
                for best in best {
                    row_ids.fill(-1);
                    row_scores.fill(f32::NAN);
                    for (at, node) in best.iter().enumerate() {
                        row_ids[at] = i64::from(node.id);
                        row_scores[at] = node.score;
                    }
                    destinations.write(&row_ids)?;
                    scores.write(&row_scores)?;
                }
                Ok(())
            }
            Self::Table { table, sources } => {
                let mut columns: [Vec<u32>; 3] = Default::default();
                let mut scores = Vec::new();
                let rows = positions.zip(ids).zip(best);
                for ((_, &source), best) in rows.filter(|((position, _), _)| sources.contains(position)) {
                    for (number, node) in (1..).zip(best) {
                        columns[0].push(source);
                        columns[1].push(number);
                        columns[2].push(node.id);
                        scores.push(node.score);
                    }
                }
                let [sources, ranks, destinations] = &columns;
                let more = names.columns([sources, destinations])?;
                table.push(&[sources, ranks, destinations], &more, &Values::Numbers(scores))
            }
        }
    }

    /// Completes the files. `write_sources` writes the array of sources.
    fn commit(self, write_sources: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
        match self {
            Self::None => Ok(()),
            Self::Table { table, .. } => table.commit(),
            Self::Arrays { destinations, scores, out, .. } => {
                write_sources(&out.join("source_ids.npy"))?;
                scores.commit()?;
                destinations.commit()
            }
        }
    }
}
