//! Splits a graph into parts on one machine before training, and verifies and describes parts.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod interrupt;
mod memory_limit;
mod output;
mod plan;
mod report;
mod stored_tables;
mod terminal;
mod update;
mod urls;

use anyhow::Context;
use args::{Cli, Command, FeaturesArgs, InfoArgs, Job, PartitionArgs, VerifyArgs, with_flags};
use edgecut_cli::{CommandLine, Dialect, MeaninglessFlag, message, parse_command_line, with_near_argument};
use edgecut_graph::part_writer::ExtraFiles;
use edgecut_graph::readers::{self, Loaded};
use edgecut_graph::{
    Dataset, DiskPartId, FeatureDtype, FeatureDtypes, Meta, OverlapPolicy, Overlaps, Provenance, Workspace,
    end_on_unreadable_pages, shown_bytes,
};
use edgecut_output::check_output;
use edgecut_partition::{Assignment, Inputs, PartitionError, PartitionOptions, check_free, partition_loaded, verify};
use edgecut_tables::{DroppedRows, PartFeatures, TableOptions, build_part_features, read_tables};
use memory_limit::AnonymousMemory;
use output::{Described, Results, Run};
use report::write_report;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use stored_tables::StoredTables;
use terminal::Terminal;
use urls::{URL_FLAGS, located, upload_if_url, upload_parts};

/// The flags of PyG's `partition_graph.py` that have no meaning here.
const MEANINGLESS: &[MeaninglessFlag] = &[MeaninglessFlag {
    name: "use-sparse-tensor",
    has_value: false,
    why: "graphs are always stored as sparse matrices",
}];

/// The flags that `-h` shows.
const ESSENTIAL: &[&str] = &[
    "dataset",
    "root_dir",
    "dataset_dir",
    "conf",
    "num_partitions",
    "output_dir",
    "method",
    "split",
    "to_undirected",
    "hold_out_edges",
    "feature_dtype",
    "memory_limit",
    "plan",
    "overwrite",
    "json",
];

/// The note for a dataset that has labels, but no splits.
const NO_SPLITS: &str = "no node is in a split, so there are no training nodes for `train`: add masks to the dataset, or divide \
                         the nodes by --split-nodes 0.8,0.1,0.1";

const DIALECT: Dialect =
    Dialect { meaningless: MEANINGLESS, essential: ESSENTIAL, has_config: false, aliases: &[], urls: URL_FLAGS };

fn main() -> ExitCode {
    let line = parse_command_line::<Cli>(&DIALECT);
    note(&line.notes);
    match run(line) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            message!("error: {}", with_near_argument(with_flags(&describe(&error))));
            let cancelled = matches!(error.downcast_ref(), Some(PartitionError::Cancelled));
            ExitCode::from(if cancelled { terminal::INTERRUPTED } else { 1 })
        }
    }
}

fn run(line: CommandLine<Cli>) -> anyhow::Result<()> {
    end_on_unreadable_pages().context("handle SIGBUS")?;
    let (cli, copies) = located(line)?;
    match &cli.command {
        None => run_partition(&cli.partition)?,
        Some(Command::Verify(args)) => run_verify(args)?,
        Some(Command::Info(args)) => run_info(args)?,
        Some(Command::Features(args)) => run_features(args)?,
        Some(Command::Update(args)) => update::run(args)?,
        Some(Command::Upload(args)) => upload_parts(args)?,
    }
    // The copies are in use until now.
    drop(copies);
    Ok(())
}

fn run_partition(args: &PartitionArgs) -> anyhow::Result<()> {
    // Signals are blocked before any thread is started, since each thread inherits the mask.
    let signals = interrupt::block()?;
    let results = Results::capture()?;
    let mut job = args.job()?;
    let terminal = Arc::new(Terminal::new(&job.options));
    interrupt::handle(signals, &terminal)?;
    if args.plan {
        let plan = memory_limit::plan(&job, "--plan")?;
        return if args.json { results.json(&plan) } else { results.text(&plan::table(&plan)) };
    }
    check_report(args.report.as_deref())?;
    // Reading a large graph takes long.
    check_free(&job.out_dir, job.options.overwrite)?;
    let memory = AnonymousMemory::watch()?;
    terminal.enter("reading");
    memory_limit::apply(&mut job, &terminal).inspect_err(|_| terminal.clear())?;
    let (meta, dropped) = load_and_partition(&job, &terminal).inspect_err(|_| terminal.clear())?;
    let seconds = terminal.finish();
    if let Some(report) = &args.report {
        write_report(&job.out_dir, &meta, report)?;
    }
    let run = Run {
        seconds,
        peak_memory_bytes: output::peak_memory_bytes(),
        peak_anonymous_bytes: memory.peak_bytes(),
        dropped_rows: dropped,
    };
    let shown_dir = upload_if_url(&args.stores, &job.out_dir, args.overwrite, &terminal)?;
    if let Some(bytes) = run.peak_memory_bytes {
        let anonymous = shown_bytes(run.peak_anonymous_bytes.unwrap_or(bytes));
        let total = shown_bytes(bytes);
        message!("peak memory {total}, {anonymous} of it anonymous, written to {}", shown_dir.display());
    }
    let described = Described::new(&shown_dir, &meta, Some(run));
    if args.json { results.json(&described) } else { results.text(&described.table()) }
}

/// Returns the description of the parts, and the rows of tables that were left out.
fn load_and_partition(job: &Job, terminal: &Terminal) -> anyhow::Result<(Meta, Vec<DroppedRows>)> {
    let Some(tables) = &job.tables else {
        let Loaded { mut dataset, warnings } = readers::load_with_warnings(&job.source)?;
        terminal.suspended(|| warn(&warnings));
        if dataset.lacks_splits() {
            terminal.note(NO_SPLITS);
        }
        dataset.convert_features_in(&job.source.space, &job.feature_dtypes)?;
        return Ok((partition(dataset, job, terminal, ExtraFiles::default())?, Vec::new()));
    };
    let read = read_tables(&tables.conf, &job.source.name, &tables.options)?;
    let loaded = Loaded { dataset: read.dataset, warnings: read.warnings };
    let Loaded { mut dataset, warnings } = readers::prepare(loaded, &job.source, &read.id_maps)?;
    terminal.suspended(|| {
        note(&read.notes);
        warn(&warnings);
    });
    let mut deferred = read.deferred_features;
    if tables.options.defers_features {
        defer_feature_dtypes(&dataset, &mut deferred, &job.feature_dtypes)?;
    } else {
        dataset.convert_features_in(&job.source.space, &job.feature_dtypes)?;
    }
    let transforms = (!read.transforms.is_empty()).then(|| read.transforms.to_json());
    let extra = ExtraFiles {
        nodes: &read.id_maps,
        transforms: transforms.as_deref(),
        deferred_features: &deferred,
        node_facts: &read.node_facts,
        time_unit: read.time_unit,
    };
    Ok((partition(dataset, job, terminal, extra)?, read.dropped))
}

/// Sets the stored types of features that are built after the parts.
fn defer_feature_dtypes(
    dataset: &Dataset,
    deferred: &mut [Option<(usize, FeatureDtype)>],
    dtypes: &FeatureDtypes,
) -> anyhow::Result<()> {
    let with_features: Vec<&str> = dataset
        .node_types
        .iter()
        .zip(&*deferred)
        .filter(|(_, d)| d.is_some())
        .map(|(nodes, _)| &nodes.name[..])
        .collect();
    if let Some(name) = dtypes.unknown(&with_features) {
        anyhow::bail!(
            "--feature-dtype names node type {name}, which does not exist or has no features. Node types with features: {}",
            with_features.join(", ")
        );
    }
    for (nodes, deferred) in dataset.node_types.iter().zip(deferred) {
        if let (Some((_, dtype)), Some(wanted)) = (deferred, dtypes.of(&nodes.name)) {
            *dtype = wanted;
        }
    }
    Ok(())
}

/// Writes the parts, by the assignment that the job names or by its method.
fn partition(dataset: Dataset, job: &Job, terminal: &Terminal, extra: ExtraFiles) -> anyhow::Result<Meta> {
    let read = |path: &PathBuf| readers::read_assignment(path, &dataset.node_types, job.options.num_parts);
    let given =
        job.assignment.as_ref().map(read).transpose().context("--assignment")?.map(|parts| Assignment { parts });
    let inputs = Inputs { space: job.source.space.clone(), given, extra };
    Ok(partition_loaded(dataset, inputs, &job.options, &job.out_dir, terminal)?)
}

/// Checks that a report can be written, before the graph is read.
fn check_report(path: Option<&Path>) -> anyhow::Result<()> {
    path.map_or(Ok(()), |path| check_output(path).with_context(|| format!("--report: write {}", path.display())))
}

fn run_verify(args: &VerifyArgs) -> anyhow::Result<()> {
    let results = Results::capture()?;
    let report = verify(&args.dir).context("verify")?;
    let meta = &report.meta;
    let made = &meta.provenance;
    if args.json {
        results.json(&report)?;
        return check_overlaps(&report.overlaps, made);
    }
    check_overlaps(&report.overlaps, made)?;
    let size = shown_bytes(report.bytes);
    let text = format!("{} parts of {}: {} files, {size}, all valid\n", meta.num_parts, meta.dataset, report.files);
    results.text(&text)
}

/// Fails if evaluation data is also training data, unless the parts were made with `--overlap allow`.
fn check_overlaps(overlaps: &Overlaps, made: &Provenance) -> anyhow::Result<()> {
    warn(&overlaps.remarks(made.to_undirected));
    let leaks = overlaps.leaks(made.to_undirected);
    if made.overlap == OverlapPolicy::Allow {
        warn(&leaks);
        return Ok(());
    }
    anyhow::ensure!(
        leaks.is_empty(),
        "{}. Evaluation would use training data: partition again with --overlap remove or --overlap allow",
        leaks.join("; ")
    );
    Ok(())
}

fn note(notes: &[String]) {
    notes.iter().for_each(|note| message!("note: {note}"));
}

fn warn(warnings: &[String]) {
    warnings.iter().for_each(|warning| message!("warning: {}", with_flags(warning)));
}

fn run_info(args: &InfoArgs) -> anyhow::Result<()> {
    let results = Results::capture()?;
    check_report(args.report.as_deref())?;
    let meta = Meta::read(&args.dir)?;
    if let Some(report) = &args.report {
        write_report(&args.dir, &meta, report)?;
    }
    let described = Described::new(&args.dir, &meta, None);
    if args.json { results.json(&described) } else { results.text(&described.table()) }
}

fn run_features(args: &FeaturesArgs) -> anyhow::Result<()> {
    let signals = interrupt::block()?;
    let results = Results::capture()?;
    let terminal = Arc::new(Terminal::new(&PartitionOptions::new(1)));
    interrupt::handle(signals, &terminal)?;
    let scratch_dir = args.scratch_dir.as_ref().unwrap_or(&args.dataset_root_dir);
    // Without this check, the folder of the scratch files would be created.
    Meta::read(&args.dataset_root_dir)?;
    let options = TableOptions {
        on_bad_rows: args.on_bad_rows,
        unsupported: args.unsupported,
        remote: Some(StoredTables::of_conf(&args.stores)?),
        space: Workspace::scratch(
            scratch_dir,
            memory_limit::FEATURE_WORK_BYTES,
            memory_limit::Observer(terminal.clone()),
        )?,
        ..TableOptions::default()
    };
    terminal.enter("features");
    let built =
        build_part_features(&args.conf, &options, &args.dataset_root_dir, DiskPartId(args.part), args.overwrite)
            .inspect_err(|_| terminal.clear())?;
    terminal.finish();
    note(&built.notes);
    if args.json {
        return results.json(&built.node_types);
    }
    let line = |of_type: &PartFeatures| {
        let PartFeatures { node_type, rows, columns, there_already } = of_type;
        let done = if *there_already { "there already" } else { "built" };
        format!("part {}: features of {node_type}, {rows} nodes x {columns}: {done}\n", args.part)
    };
    results.text(&built.node_types.iter().map(line).collect::<String>())
}

/// Formats the error and its causes, except for causes that the text so far contains already.
fn describe(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| {
        if text.contains(&cause) {
            return text;
        }
        if text.is_empty() { cause } else { format!("{text}: {cause}") }
    })
}
