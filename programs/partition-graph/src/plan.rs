//! The text of `--plan`.

use edgecut_cli::counted;
use edgecut_graph::shown_bytes;
use edgecut_partition::Plan;
use std::fmt::Write as _;

/// Formats a plan: a line per phase, the disk space, and the memory of a training process.
pub(crate) fn table(plan: &Plan) -> String {
    let mut text = format!(
        "{} nodes, up to {} stored edges, in {} by {}\n",
        plan.num_nodes,
        plan.num_edges,
        counted(plan.num_parts, "part", "parts"),
        plan.method
    );
    if plan.instead.is_some() {
        let _ = writeln!(text, "METIS does not fit into --memory-limit, so {} takes its place", plan.method);
    }
    // Writing to a string does not fail.
    let mut line = |name: &str, bytes: u64, more: &str| {
        let _ = writeln!(text, "{name:<26}{:>12}{more}", shown_bytes(bytes));
    };
    for phase in &plan.phases {
        line(phase.phase, phase.memory_bytes, &format!(" of memory, about {} s", phase.seconds.ceil()));
    }
    line("peak memory", plan.peak_memory_bytes, "");
    if let Some(limit) = plan.memory_limit {
        line("--memory-limit", limit, "");
        line("scratch files, up to", plan.scratch_bytes, " of disk");
    }
    line("parts", plan.output_bytes, " of disk");
    let rank = &plan.rank;
    line("a training process: part", rank.part_bytes, " of memory");
    line("  features", rank.mapped_feature_bytes, " in a mapped file");
    line("  --cache-ratio 0.1", rank.cache_bytes, " of memory per machine, if set");
    line("  a batch, up to", rank.batch_bytes, " of memory");
    line("  batches ahead, up to", rank.prefetch_bytes, " of memory (--prefetch-bytes)");
    text
}
