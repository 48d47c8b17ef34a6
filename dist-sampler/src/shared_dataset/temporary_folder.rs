//! Temporary folders that a run removes, including those of killed runs.

use edgecut_graph::{GraphDataset, possible_files};
use edgecut_output::{OwnEntries, TemporaryFolder, remove_dead_folders};
use std::io::Result;
use std::path::Path;

/// The start of the folders' names.
const NAME: &str = "edgecut-dataset";
/// The name of the file of rows in its temporary folder.
pub(crate) const ROWS_FILE: &str = "rows.npy";

/// Makes a temporary folder in `parent` that only its user may read, and removes the folders of dead processes there.
pub(crate) fn create(parent: &Path) -> Result<TemporaryFolder> {
    TemporaryFolder::create(parent, NAME, 0o700, own_entries())
}

/// Removes the folders that killed processes have left in the system's temporary folder.
/// [`share_dataset`](crate::share_dataset) does this too. For programs that have seen such a process end.
pub fn remove_abandoned() {
    remove_dead_folders(&std::env::temp_dir(), NAME, &own_entries());
}

/// Returns the files that are written to such folders: a dataset, a set of graphs, rows, cached and converted features.
fn own_entries() -> OwnEntries {
    possible_files().with_paths(GraphDataset::possible_files()).with_forms(&[
        ROWS_FILE,
        "counts-#-#.npy",
        "rows-#.npy",
        "nodes-#.npy",
        "features-#-#.npy",
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_graph::part_writer::write_one_part;
    use edgecut_graph::readers::{FakeOptions, fake_hetero};
    use edgecut_graph::small_graphs::{FakeGraphsOptions, fake_graphs};
    use edgecut_output::testing::ForeignEntries;

    #[test]
    fn folders_disappear_with_all_that_is_written_to_them_but_not_with_files_of_users() {
        let root = tempfile::tempdir().unwrap();
        for has_foreign in [false, true] {
            let folder = create(root.path()).unwrap();
            let graph = fake_hetero(&FakeOptions { avg_num_nodes: 50, ..FakeOptions::default() }).unwrap();
            write_one_part(graph, folder.dir()).unwrap();
            fake_graphs(&FakeGraphsOptions::default()).unwrap().write(folder.dir()).unwrap();
            for name in [ROWS_FILE, "counts-10-2.npy", "rows-3.npy", "nodes-3.npy", "features-1-0.npy"] {
                std::fs::write(folder.dir().join(name), "").unwrap();
            }
            let foreign = has_foreign.then(|| ForeignEntries::plant(folder.dir()).unwrap());
            let dir = folder.dir().to_owned();
            drop(folder);
            assert_eq!((dir.exists(), dir.join("META.json").exists()), (has_foreign, false));
            assert!(foreign.is_none_or(|foreign| foreign.lost().is_empty()));
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error() {
        assert!(create(Path::new("/nonexistent")).is_err());
    }
}
