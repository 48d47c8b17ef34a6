//! The decision which checkpoint a run continues from.

use super::data_identity::DataIdentity;
use super::manifest::{Found, folder_of};
use super::state_file::state_file_name;
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
    /// The steps for which there is a file of this rank, with or without a manifest.
    written: BTreeSet<u64>,
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
    pub(super) fn new(found: &[Found], rank: usize) -> Self {
        let mut sightings = Self::default();
        for found in found {
            if found.files.contains(&state_file_name(rank)) {
                sightings.written.insert(found.steps);
            }
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

    fn get(&self, steps: u64, run: &str) -> Option<&Sighting> {
        self.checkpoints.get(&steps)?.get(run)
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
        let sees = |rank: usize, old: usize| {
            all.get(rank).and_then(|rank| rank.get(steps, run)).is_some_and(|seen| seen.ranks.contains(&old))
        };
        let has_same_parts = sighting.parts == self.data.parts;
        let has_same_layout = num_old == self.world_size && sighting.num_groups == self.data.num_groups;
        if has_same_parts && has_same_layout && (0..num_old).all(|rank| sees(rank, rank)) {
            return Ok(Reading::Own);
        }
        let folder = folder_of(self.dir, steps);
        let folder = folder.display();
        let unseen = |rank: usize| (0..num_old).find(|&old| !sees(rank, old));
        if let Some((rank, old)) = (0..self.world_size).find_map(|rank| Some((rank, unseen(rank)?))) {
            if !has_same_layout {
                return Err(Some(format!(
                    "the checkpoint {folder} is that of {num_old} processes, and rank {rank} cannot read the file of \
                     rank {old}: to continue with {} processes, share the folder between all nodes; or start {num_old} \
                     processes on the nodes on which they ran",
                    self.world_size
                )));
            }
            // A manifest is written after the files of all ranks. A rank that has its file but sees no manifest was killed
            // between the two. A rank without a file runs on another node than before.
            let has_file = |rank: usize| sees(rank, rank) || all[rank].written.contains(&steps);
            return Err((0..num_old).find(|&rank| !has_file(rank)).map(|rank| {
                format!(
                    "rank {rank} cannot read its file in the checkpoint {folder}: start every rank on the node on which \
                     it ran, share the folder between all nodes, or remove it on all nodes to start anew"
                )
            }));
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
