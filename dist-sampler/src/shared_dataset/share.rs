//! Data that the processes of one machine share: a dataset without partitioning, or a set of graphs.

use crate::error::SampleError;
use crate::shared_dataset::space::check_space;
use crate::shared_dataset::temporary_folder;
use edgecut_cluster::{Cluster, ClusterError, share_of_cores, with_causes};
use edgecut_graph::part_writer::write_one_part;
use edgecut_graph::{Dataset, DiskPartId, GraphDataset, GraphError, Part};
use edgecut_output::TemporaryFolder;
use rayon::ThreadPoolBuilder;
use std::error::Error;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Reads a dataset with `load` and shares it as the only part of a job whose processes all run on this machine. All
/// processes must call this.
///
/// Only the first process calls `load`. It writes the dataset to the system's temporary folder (set `TMPDIR` to choose
/// another). It fails before it writes if the folder has too little space. All processes map the files, so the machine
/// holds them in memory once. The files are removed as soon as all have mapped them. Files of a process that was killed
/// before that are removed by the next call.
///
/// Invariant: training gives the same bits as on the same dataset in one part (`programs/train/tests/unpartitioned.rs`).
///
/// ```
/// use edgecut_cluster::Cluster;
/// use edgecut_dist_sampler::share_dataset;
/// use edgecut_graph::readers::{DatasetSource, load};
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
/// - [`SampleError::Layout`] in a job of several machines.
/// - [`SampleError::Dataset`] on the first process, if loading or writing fails.
/// - [`SampleError::NotShared`] on the other processes, if the first one fails.
pub fn share_dataset<E: Into<Box<dyn Error + Send + Sync>>>(
    cluster: &Cluster,
    load: impl FnOnce() -> Result<Dataset, E> + Send,
) -> Result<Part, SampleError> {
    let config = cluster.config();
    if config.local_world_size != config.world_size {
        let world_size = config.world_size;
        let here = config.local_world_size;
        let what = format!(
            "of {world_size} processes {here} run on this machine, but only processes of one machine can share a \
             dataset that is not partitioned: partition it first, with partition-graph"
        );
        return Err(SampleError::Layout { what });
    }
    share_files(
        cluster,
        load,
        Dataset::stored_bytes,
        |dataset, dir| write_one_part(dataset, dir).map(drop),
        |dir| Part::open(dir, DiskPartId(0), false),
    )
}

/// Reads a set of graphs with `load` and shares it among the processes of this machine, as [`share_dataset`] does. A
/// job may run on several machines. Then each machine reads the set. A process that is alone on its machine keeps the
/// set that it has read in memory.
///
/// # Errors
/// The errors of [`share_dataset`], and [`SampleError::Layout`] if processes have read different sets.
pub fn share_graphs<E: Into<Box<dyn Error + Send + Sync>>>(
    cluster: &Cluster,
    load: impl FnOnce() -> Result<GraphDataset, E> + Send,
) -> Result<GraphDataset, SampleError> {
    let graphs = match cluster.config().local_world_size {
        1 => load().map_err(dataset_error)?,
        _ => {
            share_files(cluster, load, GraphDataset::stored_bytes, |graphs, dir| graphs.write(dir), GraphDataset::open)?
        }
    };
    // Machines read their own files, which may differ. Training on different sets would go wrong silently.
    let own = graphs.fingerprint();
    let all = cluster.world()?.all_gather(&own.to_le_bytes())?;
    match all.iter().position(|other| *other != all[0]) {
        None => Ok(graphs),
        Some(rank) => {
            let name = graphs.name();
            let what = format!(
                "rank {rank} has read a different set of graphs {name} than rank 0: give all machines the same files"
            );
            Err(SampleError::Layout { what })
        }
    }
}

/// Loads and writes the data on the first process of this machine, and opens it on all of them.
fn share_files<D, T, E: Into<Box<dyn Error + Send + Sync>>>(
    cluster: &Cluster,
    load: impl FnOnce() -> Result<D, E> + Send,
    size: fn(&D) -> u64,
    write: impl FnOnce(D, &Path) -> Result<(), GraphError> + Send,
    open: impl FnOnce(&Path) -> Result<T, GraphError>,
) -> Result<T, SampleError> {
    let mut local = cluster.local_group()?;
    let first = cluster.config().local_rank == 0;
    let folder = if first { Some(to_temporary_folder(load, size, write)?) } else { None };
    let mut dir = folder.as_ref().map(|folder| folder.dir().as_os_str().as_bytes().to_vec()).unwrap_or_default();
    local.broadcast_bytes(&mut dir, 0).map_err(|error| not_shared(cluster, error))?;
    let opened = open(Path::new(OsStr::from_bytes(&dir))).map_err(dataset_error)?;
    // Once all processes have mapped the files, dropping `folder` may remove their names.
    local.barrier()?;
    Ok(opened)
}

/// Reads the data and writes it to a new folder, using all cores, since the other processes wait.
fn to_temporary_folder<D, E: Into<Box<dyn Error + Send + Sync>>>(
    load: impl FnOnce() -> Result<D, E> + Send,
    size: fn(&D) -> u64,
    write: impl FnOnce(D, &Path) -> Result<(), GraphError> + Send,
) -> Result<TemporaryFolder, SampleError> {
    let pool = ThreadPoolBuilder::new().num_threads(share_of_cores(1)).build();
    let pool = pool.map_err(|source| SampleError::process("start threads that read the dataset", source))?;
    pool.install(|| read_and_write(load, size, write))
}

fn read_and_write<D, E: Into<Box<dyn Error + Send + Sync>>>(
    load: impl FnOnce() -> Result<D, E>,
    size: fn(&D) -> u64,
    write: impl FnOnce(D, &Path) -> Result<(), GraphError>,
) -> Result<TemporaryFolder, SampleError> {
    let data = load().map_err(dataset_error)?;
    let parent = std::env::temp_dir();
    let failed = |error: GraphError| {
        let what = format!(
            "{error} (the processes of this machine share the dataset through {}; set TMPDIR to choose another folder)",
            parent.display()
        );
        SampleError::Dataset { what }
    };
    let failed_in_parent = |error: std::io::Error| failed(GraphError::io(&parent, error));
    check_space(&parent, size(&data)).map_err(failed_in_parent)?;
    let folder = temporary_folder::create(&parent).map_err(failed_in_parent)?;
    write(data, folder.dir()).map_err(failed)?;
    Ok(folder)
}

fn dataset_error(error: impl Into<Box<dyn Error + Send + Sync>>) -> SampleError {
    SampleError::Dataset { what: with_causes(&*error.into()) }
}

/// Converts the error of a wait for the first process. If that process has failed, its failure is the cause.
fn not_shared(cluster: &Cluster, error: ClusterError) -> SampleError {
    match cluster.failure() {
        Some(failure) if failure.rank == cluster.config().local_ranks().start => {
            SampleError::NotShared { who: failure.head() }
        }
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_graph::NodeTypeId;
    use edgecut_graph::readers::{FakeOptions, fake};

    /// Runs two ranks as threads of this process, on one machine or on one each. Returns the result of each rank.
    fn share<E>(local_world_size: usize, load: fn() -> Result<Dataset, E>) -> Vec<Result<Part, SampleError>>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let ranks = Cluster::join_local(2, |config| {
            (config.local_rank, config.local_world_size) = (config.rank % local_world_size, local_world_size);
        });
        let share = |cluster: Cluster| {
            let shared = share_dataset(&cluster, load);
            match &shared {
                Ok(_) => cluster.shutdown().unwrap(),
                Err(error) => drop(cluster.blame(error)),
            }
            shared
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = ranks.unwrap().into_iter().map(|rank| scope.spawn(move || share(rank))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    fn small() -> Result<Dataset, GraphError> {
        fake(&FakeOptions { avg_num_nodes: 50, ..FakeOptions::default() })
    }

    #[test]
    fn all_ranks_have_the_dataset_as_it_is() {
        let dataset = small().unwrap();
        for part in share(2, small) {
            let part = part.unwrap();
            let nodes = &dataset.node_types[0];
            let found = part.nodes(NodeTypeId(0));
            assert_eq!(part.owned(NodeTypeId(0)), 0..50);
            assert_eq!(found.original_ids[..], (0..50).collect::<Vec<u32>>());
            assert_eq!(found.labels.as_deref(), nodes.labels.as_deref());
            assert_eq!(found.splits.train[..], nodes.splits.train[..]);
        }
    }

    #[test]
    fn the_others_hear_that_the_first_could_not_read() {
        let shared = share(2, || Err("x.npy: truncated".to_owned()));
        assert!(matches!(&shared[0], Err(SampleError::Dataset { what }) if what == "x.npy: truncated"), "{shared:?}");
        assert!(matches!(&shared[1], Err(SampleError::NotShared { who }) if who.contains("rank 0 at")), "{shared:?}");
    }

    #[test]
    fn ranks_of_several_machines_need_parts() {
        for shared in share(1, small) {
            let error = shared.unwrap_err();
            assert!(matches!(error, SampleError::Layout { .. }), "{error}");
            assert!(error.to_string().contains("of 2 processes 1 run on this machine"), "{error}");
        }
    }
}
