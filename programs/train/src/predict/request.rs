//! The kinds of rows that `train predict` writes, one of which the flags choose.

use super::args::PredictArgs;
use crate::job::process_role::Rank;
use crate::saved_model::Items;
use edgecut_gpu::Resolved;

/// The ids of flags, or the names of files.
type Names = &'static [&'static str];

/// The flags of the data.
pub(super) const DATA: Names = &["dataset", "dataset_root_dir"];
/// The flags of parts.
pub(super) const PARTS: Names = &["copy_edges", "feature_dtype", "map_edges", "new_embeddings", "servers", "verify"];
/// The flags of a graph that is not partitioned.
pub(super) const WHOLE: Names = &["add_reverse_edges", "hold_out_edges", "overlap", "split", "to_undirected"];
/// The flags of sampled neighbors.
pub(super) const SAMPLING: Names = &["batch_size", "num_neighbors", "seed", "seed_time", "time_attr"];

/// Computes and writes the rows of a request. Every rank must call this.
type Run = fn(&PredictArgs, &Rank, Resolved) -> anyhow::Result<()>;

/// A kind of rows that `train predict` writes.
///
/// A new kind is a constant of this type in a file of its own, beside its flags, and an entry of `requests!` in `mod.rs`.
/// Checks of the flags, the dispatch and the errors of other models follow.
pub(super) struct Request {
    /// The items whose models have such rows.
    pub(super) items: Items,
    /// The flags that make the request, for errors.
    pub(super) flags: &'static str,
    /// Returns true if the flags make this request.
    pub(super) is_made: fn(&PredictArgs) -> bool,
    pub(super) run: Run,
    /// The flags that have an effect on this request, out of the flags that have none on others.
    pub(super) reads: &'static [Names],
    /// The beginning of the names of the files.
    pub(super) stem: &'static str,
    /// The names of the files beside them.
    pub(super) beside: Names,
    /// Checks flags that contradict each other.
    pub(super) check: fn(&PredictArgs) -> Result<(), &'static str>,
    /// Returns true if a process of the job reads the ids of the nodes of all parts. The argument is true for rank 0.
    pub(super) needs_all_ids: fn(&PredictArgs, bool) -> bool,
}

impl Request {
    /// Returns a request for predictions without flags of its own.
    pub(super) const fn new(items: Items, flags: &'static str, is_made: fn(&PredictArgs) -> bool, run: Run) -> Self {
        Self {
            items,
            flags,
            is_made,
            run,
            reads: &[],
            stem: "predictions",
            beside: &[],
            check: |_| Ok(()),
            needs_all_ids: |_, _| false,
        }
    }

    /// Returns true if a flag has an effect on this request.
    pub(super) fn reads(&self, flag: &str) -> bool {
        self.reads.iter().any(|flags| flags.contains(&flag))
    }

    /// Returns true if the parts of a graph are read.
    pub(super) fn reads_parts(&self) -> bool {
        self.reads.contains(&PARTS)
    }
}

/// Returns a function of [`Request`] that calls a generic one with the backend of a device.
macro_rules! on_backend {
    ($run:ident) => {
        |args, rank, device| {
            crate::job::device::on_device!(device, |B, device| {
                args.device.check_types::<B>(edgecut_gnn::ops::Precision::F32, device)?;
                $run::<B>(args, rank, device)
            })
        }
    };
}
pub(super) use on_backend;
