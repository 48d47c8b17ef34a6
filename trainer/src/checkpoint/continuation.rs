//! The decision which checkpoint a run continues from.

use super::data_identity::DataIdentity;
use super::manifest::{Found, folder_of};
use super::state_file::{rank_of_state_file, state_file_name};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The way in which the ranks of a run read a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Each rank reads its own file.
    Own,
    /// Each rank reads the files of all ranks that wrote the checkpoint.
    All { num_old: usize },
}

/// A checkpoint as a rank sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sighting {
    world_size: usize,
    num_groups: usize,
    parts: String,
    is_between_epochs: bool,
    /// The ranks whose files the manifests list that this rank can read.
    ranks: BTreeSet<usize>,
}

/// The checkpoints that a rank sees.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Sightings {
    /// By number of steps and name of the process group that wrote them.
    checkpoints: BTreeMap<u64, BTreeMap<String, Sighting>>,
    /// By number of steps, the ranks whose files there are, with or without a manifest.
    written: BTreeMap<u64, BTreeSet<usize>>,
}

/// The job that is to continue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Successor<'a> {
    pub(super) dir: &'a Path,
    pub(super) world_size: usize,
    pub(super) data: &'a DataIdentity,
}

/// A checkpoint that a run can continue from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Usable {
    pub(super) steps: u64,
    pub(super) run: String,
    pub(super) reading: Reading,
}

impl Sightings {
    pub(super) fn new(found: &[Found]) -> Self {
        let mut sightings = Self::default();
        for found in found {
            let written = found.files.iter().filter_map(|name| rank_of_state_file(name));
            sightings.written.entry(found.steps).or_default().extend(written);
            for manifest in found.manifests.values() {
                let of_steps = sightings.checkpoints.entry(found.steps).or_default();
                let sighting = of_steps.entry(manifest.run.clone()).or_insert_with(|| Sighting {
                    world_size: manifest.world_size,
                    num_groups: manifest.num_groups,
                    parts: manifest.parts.clone(),
                    is_between_epochs: manifest.position.step == 0,
                    ranks: BTreeSet::new(),
                });
                let is_listed = |rank: &usize| manifest.files.iter().any(|file| file.name == state_file_name(*rank));
                sighting.ranks.extend((0..manifest.world_size).filter(is_listed));
            }
        }
        sightings
    }

    /// Returns true if a manifest lists the file of an old rank.
    fn lists(&self, steps: u64, run: &str, old: usize) -> bool {
        let sighting = self.checkpoints.get(&steps).and_then(|by_run| by_run.get(run));
        sighting.is_some_and(|sighting| sighting.ranks.contains(&old))
    }

    /// Returns true if there is a file of an old rank.
    fn has_file(&self, steps: u64, old: usize) -> bool {
        self.written.get(&steps).is_some_and(|ranks| ranks.contains(&old))
    }
}

impl Successor<'_> {
    /// Returns the checkpoints that this job can continue from, in the order of their steps. `all` has what each rank of
    /// the job sees.
    ///
    /// # Errors
    /// A message if a complete checkpoint after the last of these cannot be used, since to continue would remove it.
    pub(super) fn usable(&self, all: &[Sightings]) -> Result<Vec<Usable>, String> {
        let mut known: BTreeMap<(u64, &String), &Sighting> = BTreeMap::new();
        for rank in all {
            for (steps, by_run) in &rank.checkpoints {
                known.extend(by_run.iter().map(|(run, sighting)| ((*steps, run), sighting)));
            }
        }
        let mut usable: Vec<Usable> = Vec::new();
        let mut obstacle = None;
        for ((steps, run), sighting) in known {
            match self.reading(all, steps, run, sighting) {
                Ok(reading) => usable.push(Usable { steps, run: run.clone(), reading }),
                Err(Some(why)) => obstacle = Some((steps, why)),
                // An interrupted run has not completed it.
                Err(None) => {}
            }
        }
        let newest = usable.last().map(|usable| usable.steps);
        match (obstacle, newest) {
            (Some((_, why)), None) => Err(why),
            (Some((unusable, why)), Some(newest)) if unusable > newest => Err(format!(
                "{why}. To continue from the older checkpoint {}, remove all later ones on all nodes",
                folder_of(self.dir, newest).display()
            )),
            _ => Ok(usable),
        }
    }

    /// Returns how the ranks read a checkpoint.
    ///
    /// # Errors
    /// The obstacle, if the checkpoint is complete but cannot be used; `None` if it is incomplete.
    fn reading(
        &self,
        all: &[Sightings],
        steps: u64,
        run: &str,
        sighting: &Sighting,
    ) -> Result<Reading, Option<String>> {
        let num_old = sighting.world_size;
        let folder = folder_of(self.dir, steps);
        let folder = folder.display();
        let has_same_parts = sighting.parts == self.data.parts;
        let has_same_layout = num_old == self.world_size && sighting.num_groups == self.data.num_groups;
        // A node writes its manifest after the files of all ranks. Without the manifest that lists a file, the checkpoint is
        // incomplete, for whatever layout. If nobody sees the file either, it may be on a node that is not part of this job.
        let mut unlisted = (0..num_old).filter(|&old| !all.iter().any(|rank| rank.lists(steps, run, old)));
        if unlisted.any(|old| all.iter().any(|rank| rank.has_file(steps, old))) {
            return Err(None);
        }
        let lists = |rank: usize, old: usize| all.get(rank).is_some_and(|rank| rank.lists(steps, run, old));
        if has_same_layout && let Some(rank) = (0..num_old).find(|&rank| !lists(rank, rank)) {
            return Err(Some(format!(
                "rank {rank} cannot read its file in the checkpoint {folder}: start every rank on the node on which it ran, \
                 share the folder between all nodes, or remove it on all nodes to start anew"
            )));
        }
        if has_same_layout && has_same_parts {
            return Ok(Reading::Own);
        }
        let unseen = |rank: usize| (0..num_old).find(|&old| !lists(rank, old));
        if let Some((rank, old)) = (0..self.world_size).find_map(|rank| Some((rank, unseen(rank)?))) {
            return Err(Some(format!(
                "the checkpoint {folder} is that of {num_old} processes, and rank {rank} cannot read the file of rank {old}: \
                 to continue with {} processes, share the folder between all nodes; or start {num_old} processes on the nodes \
                 on which they ran",
                self.world_size
            )));
        }
        if !has_same_parts && !sighting.is_between_epochs {
            return Err(Some(format!(
                "the checkpoint {folder} is within an epoch of a run with other parts of the dataset: resume with these \
                 parts, or start a new run in another `checkpoint_dir`. Other parts can continue from a checkpoint at \
                 the end of an epoch"
            )));
        }
        Ok(Reading::All { num_old })
    }
}

#[cfg(test)]
mod tests {
    use super::super::manifest::Manifest;
    use super::super::rank_state::Position;
    use super::super::state_file::StateFile;
    use super::*;

    const STEPS: u64 = 7;

    /// The files of a checkpoint after an interruption.
    #[derive(Clone, Copy, Debug)]
    struct Remains {
        num_old: usize,
        ranks_per_node: usize,
        /// The old ranks with a file, as bits.
        files: u32,
        /// The old nodes with a manifest, as bits.
        manifests: u32,
    }

    impl Remains {
        fn node_of(self, old: usize) -> usize {
            old / self.ranks_per_node
        }

        fn num_nodes(self) -> usize {
            self.num_old.div_ceil(self.ranks_per_node)
        }

        fn has_file(self, old: usize) -> bool {
            self.files >> old & 1 == 1
        }

        fn has_manifest(self, node: usize) -> bool {
            self.manifests >> node & 1 == 1
        }

        /// Returns true if a node that `sees` selects has written a file, but no manifest.
        fn is_interrupted(self, sees: impl Fn(usize) -> bool) -> bool {
            let node_of = |old: usize| self.node_of(old);
            (0..self.num_old).any(|old| self.has_file(old) && !self.has_manifest(node_of(old)) && sees(node_of(old)))
        }

        /// Returns what a rank finds that sees the files of some nodes.
        fn found(self, steps: u64, sees: impl Fn(usize) -> bool) -> Found {
            let ranks = (0..self.num_old).filter(|&old| self.has_file(old) && sees(self.node_of(old)));
            let mut manifests = BTreeMap::new();
            for node in (0..self.num_nodes()).filter(|&node| self.has_manifest(node) && sees(node)) {
                let of_node = (0..self.num_old).filter(|&old| self.node_of(old) == node).map(state_file_name);
                let files = of_node.map(|name| StateFile { name, bytes: 1, xxh3: String::new() }).collect();
                let manifest = Manifest::new("run".into(), Position::default(), self.num_old);
                manifests.insert(format!("node-{node}"), Manifest { files, num_groups: 1, ..manifest });
            }
            Found { path: "step".into(), steps, manifests, files: ranks.map(state_file_name).collect() }
        }
    }

    fn usable(all: &[Vec<Found>]) -> Result<Vec<Usable>, String> {
        let data = DataIdentity { num_groups: 1, ..DataIdentity::default() };
        let all: Vec<Sightings> = all.iter().map(|found| Sightings::new(found)).collect();
        Successor { dir: Path::new("checkpoints"), world_size: all.len(), data: &data }.usable(&all)
    }

    fn all_remains() -> impl Iterator<Item = Remains> {
        let sizes = (1..=4).flat_map(|num_old| [1, 2].map(|ranks_per_node| (num_old, ranks_per_node)));
        sizes.flat_map(|(num_old, ranks_per_node)| {
            (0..1_u32 << num_old).flat_map(move |files| {
                let of = move |manifests| Remains { num_old, ranks_per_node, files, manifests };
                (0..1_u32 << of(0).num_nodes()).map(of)
            })
        })
    }

    #[test]
    fn a_shared_folder_is_judged_alike_by_every_number_of_processes() {
        for remains in all_remains() {
            let older = Remains { files: u32::MAX, manifests: u32::MAX, ..remains };
            let is_complete = (0..remains.num_nodes()).all(|node| remains.has_manifest(node));
            for world_size in 1..=4 {
                let found = || vec![older.found(STEPS - 1, |_| true), remains.found(STEPS, |_| true)];
                let found: Vec<Vec<Found>> = (0..world_size).map(|_| found()).collect();
                let reading = if world_size == remains.num_old {
                    Reading::Own
                } else {
                    Reading::All { num_old: remains.num_old }
                };
                let expected =
                    |steps: &[u64]| steps.iter().map(|&steps| Usable { steps, run: "run".into(), reading }).collect();
                let result = usable(&found);
                if is_complete {
                    assert_eq!(result, Ok(expected(&[STEPS - 1, STEPS])), "{remains:?} {world_size}");
                } else if remains.manifests == 0 || remains.is_interrupted(|_| true) {
                    // It does not exist, so the older one is used.
                    assert_eq!(result, Ok(expected(&[STEPS - 1])), "{remains:?} {world_size}");
                } else {
                    // Files were removed, or are elsewhere.
                    assert!(result.is_err(), "{remains:?} {world_size}: {result:?}");
                }
            }
        }
    }

    #[test]
    fn without_a_shared_folder_no_complete_checkpoint_is_ignored_and_no_file_is_missed() {
        for remains in all_remains() {
            let is_complete = (0..remains.num_nodes()).all(|node| remains.has_manifest(node));
            for world_size in 1..=4 {
                // Ranks run on the nodes of the old ones. There may be fewer nodes than before.
                let node_of = |rank: usize| remains.node_of(rank).min(remains.num_nodes() - 1);
                let found = (0..world_size).map(|rank| vec![remains.found(STEPS, |node| node == node_of(rank))]);
                let result = usable(&found.collect::<Vec<_>>());
                let is_seen = |node: usize| (0..world_size).any(|rank| node_of(rank) == node);
                let lists = |rank: usize, old: usize| {
                    node_of(rank) == remains.node_of(old) && remains.has_manifest(node_of(rank))
                };
                match result.as_deref() {
                    Ok([]) => {
                        let is_unknown = !(0..remains.num_nodes()).any(|n| is_seen(n) && remains.has_manifest(n));
                        assert!(is_unknown || remains.is_interrupted(is_seen), "{remains:?} {world_size}");
                        assert!(!is_complete || is_unknown, "{remains:?} {world_size}");
                    }
                    Ok([Usable { reading: Reading::Own, .. }]) => {
                        assert!((0..world_size).all(|rank| lists(rank, rank)), "{remains:?} {world_size}");
                    }
                    Ok([Usable { reading: Reading::All { num_old }, .. }]) => {
                        let all = (0..world_size).all(|rank| (0..*num_old).all(|old| lists(rank, old)));
                        assert!(all, "{remains:?} {world_size}");
                    }
                    Ok(several) => panic!("{several:?}"),
                    Err(_) => assert!(!remains.is_interrupted(is_seen), "{remains:?} {world_size}: {result:?}"),
                }
            }
        }
    }
}
