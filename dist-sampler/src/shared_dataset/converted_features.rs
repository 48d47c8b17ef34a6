//! Node features in another stored type, which the processes of one machine share.

use crate::error::SampleError;
use crate::shared_dataset::temporary_folder;
use edgecut_cluster::{Cluster, PartLayout, share_of_cores, with_causes};
use edgecut_graph::{FeatureDtype, FeatureDtypes, GraphError, NodeTypeId, Part, map_features, write_features};
use rayon::ThreadPoolBuilder;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Converts the node features of this process's part to other stored types, such as `int8`, which take less memory and
/// less time on the wire. All processes of a job must call this, with the same types, before [`DistGraph::start`](crate::DistGraph::start): the
/// features of a node are then the same on all of them, for any partitioning.
///
/// The processes of a machine that hold the same part share one copy: a mapped file in the system's temporary folder
/// (set `TMPDIR` to choose another), which is removed once all have mapped it. A process that is alone on its machine
/// has the features in its own memory.
///
/// The description of the part has the new type, so no other code knows of the conversion.
///
/// # Errors
/// [`SampleError::Dataset`] for a named type that does not exist or has no features, for a value that the type cannot
/// represent, and if the files cannot be written or mapped. [`SampleError::Layout`] if the processes have different
/// types.
pub fn convert_features(cluster: &Cluster, part: Part, dtypes: &FeatureDtypes) -> Result<Part, SampleError> {
    let planned = part.meta().new_feature_dtypes(dtypes).map_err(invalid)?;
    let is_alone = cluster.config().local_world_size == 1;
    let converted = if is_alone || planned.is_empty() {
        part.with_feature_dtypes(dtypes).map_err(invalid)?
    } else {
        share_converted(cluster, part, planned)?
    };
    // Rows of two types may have the same length, so a process could not recognize the wrong type.
    let own = converted.meta().fingerprint();
    let all = cluster.world()?.all_gather(own.as_bytes())?;
    match all.iter().position(|other| *other != all[0]) {
        None => Ok(converted),
        Some(rank) => {
            let what = format!("rank {rank} has converted the features to other types than rank 0: use the same types");
            Err(SampleError::Layout { what })
        }
    }
}

/// Converts the features of a part once for all processes of this machine that hold it.
fn share_converted(
    cluster: &Cluster,
    part: Part,
    planned: Vec<(NodeTypeId, FeatureDtype)>,
) -> Result<Part, SampleError> {
    let config = cluster.config();
    let layout = PartLayout::new(part.meta().num_parts as usize, config.world_size);
    let held: Vec<usize> = config.local_ranks().map(|rank| layout.group_of(rank)).collect();
    let num_parts = held.iter().collect::<HashSet<_>>().len();
    let is_first = held.iter().position(|held| *held == part.id().index()) == Some(config.local_rank);
    let convert = |&(t, dtype): &(NodeTypeId, FeatureDtype)| part.converted_features(t, dtype).map_err(invalid);
    let converted = if is_first {
        // The first process of each part uses the cores of those that wait for it.
        let pool = ThreadPoolBuilder::new().num_threads(share_of_cores(num_parts)).build();
        let pool = pool.map_err(|source| SampleError::process("start threads that convert features", source))?;
        pool.install(|| planned.iter().map(convert).collect::<Result<Vec<_>, _>>())?
    } else {
        Vec::new()
    };
    let parent = std::env::temp_dir();
    let failed = |error: GraphError| {
        let why = with_causes(&error);
        let folder = parent.display();
        let what = format!(
            "{why} (the processes of this machine share the converted features through {folder}; set TMPDIR to choose \
             another folder)"
        );
        SampleError::Dataset { what }
    };
    let mut local = cluster.local_group()?;
    let folder = match config.local_rank {
        0 => {
            let folder = temporary_folder::create(&parent);
            Some(folder.map_err(|error| failed(GraphError::io(&parent, error)))?)
        }
        _ => None,
    };
    let mut dir = folder.as_ref().map(|folder| folder.dir().as_os_str().as_bytes().to_vec()).unwrap_or_default();
    local.broadcast_bytes(&mut dir, 0)?;
    let dir = Path::new(OsStr::from_bytes(&dir));
    for (features, (t, _)) in converted.iter().zip(&planned) {
        write_features(&file(dir, &part, *t), features).map_err(failed)?;
    }
    drop(converted);
    local.barrier()?;
    let mut shared = part;
    for (t, dtype) in planned {
        let shape = [shared.owned(t).len(), shared.meta().node_types[t.index()].feature_dim];
        let features = map_features(&file(dir, &shared, t), shape, dtype).map_err(failed)?;
        shared = shared.with_features(t, features);
    }
    // Once all processes have mapped the files, dropping `folder` may remove their names.
    local.barrier()?;
    Ok(shared)
}

fn file(dir: &Path, part: &Part, node_type: NodeTypeId) -> PathBuf {
    dir.join(format!("features-{}-{}.npy", part.id(), node_type.0))
}

fn invalid(error: GraphError) -> SampleError {
    SampleError::Dataset { what: with_causes(&error) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_graph::FeatureDtype;
    use edgecut_graph::readers::{FakeOptions, fake_hetero};
    use edgecut_testing::assert_has;

    #[test]
    fn processes_of_a_machine_share_the_converted_features() {
        let graph = fake_hetero(&FakeOptions { avg_num_nodes: 60, ..FakeOptions::default() }).unwrap();
        let dtypes: FeatureDtypes = "bf16,v1=int8".parse().unwrap();
        for local_world_size in [1, 2] {
            let ranks = Cluster::join_local(2, |config| {
                (config.local_rank, config.local_world_size) = (config.rank % local_world_size, local_world_size);
            });
            let dir = tempfile::tempdir().unwrap();
            edgecut_graph::part_writer::write_one_part(graph.clone(), dir.path()).unwrap();
            let convert = |cluster: Cluster| {
                let part = Part::open(dir.path(), edgecut_graph::DiskPartId(0), false).unwrap();
                let part = convert_features(&cluster, part, &dtypes).unwrap();
                cluster.shutdown().unwrap();
                part
            };
            let convert = &convert;
            let parts: Vec<Part> = std::thread::scope(|scope| {
                let ranks = ranks.unwrap().into_iter();
                let threads: Vec<_> = ranks.map(|rank| scope.spawn(move || convert(rank))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            for part in parts {
                for (t, dtype) in [(0, FeatureDtype::Bf16), (1, FeatureDtype::Int8)] {
                    let found = part.nodes(NodeTypeId(t)).features.as_ref().unwrap();
                    let expected = graph.node_types[t as usize].features.as_ref().unwrap().to_dtype(dtype).unwrap();
                    assert_eq!((found.dtype(), found.is_mapped()), (dtype, local_world_size == 2));
                    assert_eq!(part.meta().node_types[t as usize].feature_dtype, dtype);
                    assert!((0..60).all(|row| found.row_bytes(row) == expected.row_bytes(row)));
                }
            }
        }
    }

    #[test]
    fn ranks_with_different_types_are_told_so() {
        let graph = fake_hetero(&FakeOptions { avg_num_nodes: 60, ..FakeOptions::default() }).unwrap();
        let dir = tempfile::tempdir().unwrap();
        edgecut_graph::part_writer::write_one_part(graph, dir.path()).unwrap();
        let ranks = Cluster::join_local(2, |config| (config.local_rank, config.local_world_size) = (0, 1));
        let convert = |cluster: Cluster| {
            let part = Part::open(dir.path(), edgecut_graph::DiskPartId(0), false).unwrap();
            let dtype = [FeatureDtype::F16, FeatureDtype::Bf16][cluster.rank()];
            let error = convert_features(&cluster, part, &dtype.into()).unwrap_err();
            cluster.shutdown().unwrap();
            error.to_string()
        };
        let convert = &convert;
        std::thread::scope(|scope| {
            let threads: Vec<_> = ranks.unwrap().into_iter().map(|rank| scope.spawn(move || convert(rank))).collect();
            for thread in threads {
                assert_has(thread.join().unwrap(), &["rank 1 has converted the features to other types than rank 0"]);
            }
        });
    }
}
