//! Data that the processes of one machine share: a dataset that is not partitioned first, and a set of graphs.

use crate::SampleError;
use crate::scratch::Scratch;
use edgecut_cluster::{Cluster, ClusterError};
use edgecut_graph::parts::write_one_part;
use edgecut_graph::{Dataset, GraphDataset, GraphError, Part, PartitionId};
use std::ffi::OsStr;
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The dataset that `load` reads, as the only part of a job whose processes all run on this machine. All of them must call
/// this.
///
/// The first process reads the dataset and writes it to the system's temporary folder (`TMPDIR` chooses another); all map
/// the files, which are in memory once for all, and remove them as soon as they are mapped, so that nothing is left
/// behind however the job ends. The others do not call `load`.
///
/// ```
/// use edgecut_cluster::Cluster;
/// use edgecut_dist_sampler::share_dataset;
/// use edgecut_graph::datasets::{DatasetSource, load};
///
/// let cluster = Cluster::join_local(1, |_| {})?.remove(0);
/// let mut source = DatasetSource::new("fake", "data");
/// source.fake.avg_num_nodes = 100;
/// let part = share_dataset(&cluster, || load(&source))?;
/// assert_eq!(part.meta().node_types[0].book.num_nodes(), 100);
/// # cluster.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`SampleError::Layout`] in a job of several machines; on the first process the error of `load`, or of writing, as
/// [`SampleError::Dataset`]; on the others [`SampleError::NotShared`] when they hear of that.
pub fn share_dataset<E: Display>(
    cluster: &Cluster,
    load: impl FnOnce() -> Result<Dataset, E>,
) -> Result<Part, SampleError> {
    let config = cluster.config();
    if config.local_world_size != config.world_size {
        let (world_size, here) = (config.world_size, config.local_world_size);
        let what = format!(
            "of {world_size} processes {here} run on this machine, but a dataset that is not partitioned can be shared by the processes of one machine only: partition it first, with partition-graph"
        );
        return Err(SampleError::Layout { what });
    }
    share_files(
        cluster,
        load,
        |dataset, dir| write_one_part(dataset, dir).map(drop),
        |dir| Part::open(dir, PartitionId(0), false),
    )
}

/// The set of graphs that `load` reads, once for all processes of this machine, as [`share_dataset`] does it; a job may run on
/// several machines, each of which reads the set. A process that is alone on its machine keeps what it has read.
///
/// # Errors
/// As [`share_dataset`]; and [`SampleError::Layout`] if processes have read different sets.
pub fn share_graphs<E: Display>(
    cluster: &Cluster,
    load: impl FnOnce() -> Result<GraphDataset, E>,
) -> Result<GraphDataset, SampleError> {
    let graphs = match cluster.config().local_world_size {
        1 => load().map_err(dataset_error)?,
        _ => share_files(cluster, load, |graphs, dir| graphs.write(dir), GraphDataset::open)?,
    };
    let own = graphs.fingerprint();
    let all = cluster.world()?.all_gather(&own.to_le_bytes())?;
    match all.iter().position(|other| *other != all[0]) {
        None => Ok(graphs),
        Some(rank) => {
            let name = graphs.name();
            let what =
                format!("rank {rank} has read another set of graphs {name} than rank 0: give all machines the same");
            Err(SampleError::Layout { what })
        }
    }
}

/// What the first process of this machine loads and writes to a folder, and all open.
fn share_files<D, T, E: Display>(
    cluster: &Cluster,
    load: impl FnOnce() -> Result<D, E>,
    write: impl FnOnce(D, &Path) -> Result<(), GraphError>,
    open: impl FnOnce(&Path) -> Result<T, GraphError>,
) -> Result<T, SampleError> {
    let mut local = cluster.local_group()?;
    let first = cluster.config().local_rank == 0;
    let scratch = if first { Some(to_scratch(load, write)?) } else { None };
    let mut dir = scratch.as_ref().map(|scratch| scratch.dir().as_os_str().as_bytes().to_vec()).unwrap_or_default();
    local.broadcast_bytes(&mut dir, 0).map_err(|error| not_shared(cluster, error))?;
    let opened = open(Path::new(OsStr::from_bytes(&dir))).map_err(dataset_error)?;
    // Once all have mapped the files, their names are of no use.
    local.barrier()?;
    Ok(opened)
}

/// Reads the data, and writes it to a folder of its own.
fn to_scratch<D, E: Display>(
    load: impl FnOnce() -> Result<D, E>,
    write: impl FnOnce(D, &Path) -> Result<(), GraphError>,
) -> Result<Scratch, SampleError> {
    let data = load().map_err(dataset_error)?;
    let parent = std::env::temp_dir();
    let failed = |error: GraphError| {
        let what = format!(
            "{error} (for the processes of this machine the dataset is written to {}; TMPDIR chooses another folder)",
            parent.display()
        );
        SampleError::Dataset { what }
    };
    let scratch = Scratch::create(&parent).map_err(|error| failed(GraphError::io(&parent, error)))?;
    write(data, scratch.dir()).map_err(failed)?;
    Ok(scratch)
}

fn dataset_error(error: impl Display) -> SampleError {
    SampleError::Dataset { what: format!("{error:#}") }
}

/// While the others wait, the first process may fail, which is told as that.
fn not_shared(cluster: &Cluster, error: ClusterError) -> SampleError {
    match cluster.failure() {
        Some(failure) if failure.rank == cluster.config().local_ranks().start => {
            SampleError::NotShared { who: failure.head() }
        }
        _ => error.into(),
    }
}
