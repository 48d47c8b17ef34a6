//! Data that the processes of one machine share: a dataset that is not partitioned first, and a set of graphs.

use crate::SampleError;
use crate::scratch::Scratch;
use edgecut_cluster::{Cluster, ClusterError, share_of_cores};
use edgecut_graph::parts::write_one_part;
use edgecut_graph::{Dataset, GraphDataset, GraphError, Part, PartitionId};
use rayon::ThreadPoolBuilder;
use std::ffi::OsStr;
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The dataset that `load` reads, as the only part of a job whose processes all run on this machine. All of them must call
/// this.
///
/// The first process reads the dataset and writes it to the system's temporary folder (`TMPDIR` chooses another); all map
/// the files, which are in memory once for all, and remove them as soon as they are mapped, so that nothing is left
/// behind; what a process leaves that was killed before that, the next call removes. The others do not call `load`.
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
    load: impl FnOnce() -> Result<Dataset, E> + Send,
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
    load: impl FnOnce() -> Result<GraphDataset, E> + Send,
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
    load: impl FnOnce() -> Result<D, E> + Send,
    write: impl FnOnce(D, &Path) -> Result<(), GraphError> + Send,
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

/// Reads the data and writes it to a folder of its own, on all cores: the other processes wait.
fn to_scratch<D, E: Display>(
    load: impl FnOnce() -> Result<D, E> + Send,
    write: impl FnOnce(D, &Path) -> Result<(), GraphError> + Send,
) -> Result<Scratch, SampleError> {
    let pool = ThreadPoolBuilder::new().num_threads(share_of_cores(1)).build();
    let pool = pool.map_err(|error| SampleError::Internal { what: format!("start threads to read with: {error}") })?;
    pool.install(|| read_and_write(load, write))
}

fn read_and_write<D, E: Display>(
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

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_graph::NodeTypeId;
    use edgecut_graph::datasets::{FakeOptions, fake};

    /// Two ranks as threads of this process, each a machine of its own or both of one; what each gets from `load`.
    fn share(local_world_size: usize, load: fn() -> Result<Dataset, String>) -> Vec<Result<Part, SampleError>> {
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

    fn small() -> Result<Dataset, String> {
        fake(&FakeOptions { avg_num_nodes: 50, ..FakeOptions::default() }).map_err(|error| error.to_string())
    }

    #[test]
    fn all_ranks_have_the_dataset_as_it_is() {
        let dataset = small().unwrap();
        for part in share(2, small) {
            let part = part.unwrap();
            let (nodes, found) = (&dataset.node_types[0], part.nodes(NodeTypeId(0)));
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
