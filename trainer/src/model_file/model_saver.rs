//! The saver of the best model of a run.

use super::embedding_index::{EmbeddingIndex, SAVE_LEN, ShardEntry, embedding_files, shard_folder};
use super::file_header::FileHeader;
use super::model_origin::ModelOrigin;
use super::shard_writer::{check_folder, remove_other_saves, write_shard};
use super::trained_on::{TRAINED_ON, TrainedOn};
use super::write::{Notes, model_bytes};
use super::{BestModel, EmbeddingSize, ModelFileError};
use crate::metrics::Selection;
use edgecut_cluster::{Attempt, ClusterError, ProcessGroup, ReduceOp};
use edgecut_output::{FolderLock, check_output, write_output};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The saver of the best model of a run, which all ranks use together.
///
/// Rank 0 writes the network. Each rank writes the embedding rows that it holds to its own file. The model file is
/// written last and lists the other files, so that the old model stays complete until the new model is complete.
///
/// A restarted attempt replaces the model of an earlier attempt of the same run, settings and data only by a better model, if
/// its files are still there. Another job that saves to the same path meanwhile is refused.
pub struct ModelSaver {
    path: PathBuf,
    attempt: Attempt,
    /// A digest of the settings of the run; `None` if it was not told.
    settings: Option<String>,
    /// The origin of the model of an earlier attempt, while that model is in place.
    kept: Option<ModelOrigin>,
    /// The description of the data in the file of that model, as JSON. Only rank 0 has it.
    kept_data: Value,
    why_not_kept: Option<String>,
    trained_on: Option<TrainedOn>,
    /// Keeps other jobs from the file. Only rank 0 has it.
    _lock: Option<FolderLock>,
}

/// The model of an earlier attempt.
#[derive(Serialize, Deserialize)]
struct EarlierModel {
    origin: ModelOrigin,
    /// The names of the files with its embeddings.
    files: Vec<String>,
    /// The description of its data as JSON. Only rank 0 has it.
    #[serde(skip)]
    data: Value,
}

impl ModelSaver {
    /// Checks that the files can be written and, in a restarted attempt, looks for the model of an earlier attempt.
    ///
    /// Every rank must call this. `has_embeddings` is true if the model will be saved with embeddings.
    ///
    /// # Errors
    /// [`ModelFileError::Write`] if the folder does not exist, `path` is not a regular file, or another job saves its model
    /// there; [`ModelFileError::Job`] if a collective fails.
    pub fn new(
        path: &Path,
        attempt: Attempt,
        has_embeddings: bool,
        world: &mut ProcessGroup,
    ) -> Result<Self, ModelFileError> {
        let mut told = Vec::new();
        let mut kept_data = Value::Null;
        let mut lock = None;
        if world.rank() == 0 {
            let reserved = check_output(path).and_then(|()| FolderLock::take_file(path));
            lock = Some(reserved.map_err(ModelFileError::write(path))?);
            let mut earlier = None;
            if attempt.is_restart()
                && let Some(mut found) = EarlierModel::read(path, &attempt)?
            {
                kept_data = std::mem::take(&mut found.data);
                earlier = Some(found);
            }
            // All ranks use the attempt of rank 0, so that they decide alike even if their environments differ.
            told =
                serde_json::to_vec(&(earlier, attempt.number, &attempt.run)).map_err(ModelFileError::config(path))?;
        }
        let folder = shard_folder(path)?;
        if has_embeddings {
            check_folder(&folder, world.rank(), world.size())?;
        }
        let mut saver = Self {
            path: path.to_owned(),
            attempt,
            settings: None,
            kept: None,
            kept_data,
            why_not_kept: None,
            trained_on: None,
            _lock: lock,
        };
        world.broadcast_bytes(&mut told, 0).map_err(saver.job_error())?;
        let (earlier, number, run): (Option<EarlierModel>, u64, Option<String>) =
            serde_json::from_slice(&told).map_err(ModelFileError::config(path))?;
        saver.attempt = Attempt { number, run };
        let Some(EarlierModel { origin, files, .. }) = earlier else { return Ok(saver) };
        let num_absent = num_absent(&folder, &files, world).map_err(saver.job_error())?;
        if num_absent == 0 {
            saver.kept = Some(origin);
        } else {
            saver.why_not_kept = Some(format!(
                "{num_absent} of the {} files with the embeddings of the model of attempt {} are on no node of this job, so \
                 that the next model replaces it",
                files.len(),
                origin.attempt
            ));
        }
        Ok(saver)
    }

    /// Returns why the model of an earlier attempt is replaced by a model that may be worse; `None` if it is not.
    pub fn why_not_kept(&self) -> Option<&str> {
        self.why_not_kept.as_deref()
    }

    /// Tells a digest of the settings of this run. Models of earlier attempts with other settings are models of other runs.
    /// Every rank must tell the same one.
    pub fn describe_settings(&mut self, digest: String) {
        self.settings = Some(digest);
    }

    /// Stores a description of the data with each model. Rank 0 must call this; it has no effect on other ranks.
    pub fn describe_data(&mut self, trained_on: TrainedOn) {
        self.trained_on = Some(trained_on);
    }

    /// Saves a model. If the model of an earlier attempt is at least as good, nothing is written and its origin is
    /// returned.
    ///
    /// Every rank must call this.
    ///
    /// # Errors
    /// [`ModelFileError`] if a file cannot be written or a collective fails. The old model is kept if the new model
    /// file was not written.
    pub fn save(
        &mut self,
        best: &BestModel<'_>,
        world: &mut ProcessGroup,
    ) -> Result<Option<&ModelOrigin>, ModelFileError> {
        let origin = ModelOrigin {
            run: self.attempt.run.clone(),
            // Runs without a name are all different.
            settings: self.settings.clone().filter(|_| self.attempt.run.is_some()),
            attempt: self.attempt.number,
            epoch: best.epoch,
            metric: best.selection.metric.clone(),
            valid_metric: best.valid_metric,
        };
        if self.kept.is_some() {
            // Rank 0 decides for all ranks, since it alone has read the file.
            let mut stays = vec![u8::from(self.keeps_file(&origin, &best.selection))];
            world.broadcast_bytes(&mut stays, 0).map_err(self.job_error())?;
            if stays == [1] {
                return Ok(self.kept.as_ref());
            }
        }
        self.kept = None;
        let folder = shard_folder(&self.path)?;
        let index = if best.embeddings.is_empty() { None } else { Some(self.write_shards(best, &folder, world)?) };
        if world.rank() == 0 {
            let notes = Notes {
                origin: Some(&origin),
                trained_on: self.trained_on.as_ref(),
                index: index.as_ref(),
                loss: best.loss.as_ref(),
                decision: best.decision.as_ref(),
                target_decisions: Some(&best.target_decisions),
            };
            let bytes = model_bytes(&self.path, &best.model, &[], notes)?;
            write_output(&self.path, &bytes).map_err(ModelFileError::write(&self.path))?;
        }
        match &index {
            Some(index) => {
                // The old model needs its shards until the new model file replaces the old one, which rank 0 has done
                // before it reaches the barrier.
                world.barrier().map_err(self.job_error())?;
                remove_other_saves(&folder, &index.save);
            }
            None if world.rank() == 0 => remove_other_saves(&folder, ""),
            None => {}
        }
        Ok(None)
    }

    /// Returns true if the file has a model of the same data that is at least as good as the model of `origin`.
    fn keeps_file(&self, origin: &ModelOrigin, selection: &Selection) -> bool {
        let has_same_data = serde_json::to_value(&self.trained_on).is_ok_and(|data| data == self.kept_data);
        has_same_data && self.kept.as_ref().is_some_and(|kept| kept.is_as_good_as(origin, selection))
    }

    /// Writes this rank's shard and returns the index of the shards of all ranks.
    fn write_shards(
        &self,
        best: &BestModel<'_>,
        folder: &Path,
        world: &mut ProcessGroup,
    ) -> Result<EmbeddingIndex, ModelFileError> {
        // A random id for each save keeps the new shards from overwriting the old model's.
        let mut save = match world.rank() {
            0 => format!("{:0SAVE_LEN$x}", RandomState::new().build_hasher().finish()).into_bytes(),
            _ => Vec::new(),
        };
        world.broadcast_bytes(&mut save, 0).map_err(self.job_error())?;
        let save = String::from_utf8_lossy(&save).into_owned();
        let mine = write_shard(folder, &save, (world.rank(), world.size()), &best.embeddings)?;
        let mine = serde_json::to_vec(&mine).map_err(ModelFileError::config(&self.path))?;
        let all = world.all_gather(&mine).map_err(self.job_error())?;
        let mut shards = Vec::with_capacity(all.len());
        for shard in &all {
            let shard: Option<ShardEntry> =
                serde_json::from_slice(shard).map_err(ModelFileError::config(&self.path))?;
            shards.extend(shard);
        }
        let tables = best.embeddings.iter().map(|named| EmbeddingSize::of(named.node_type, named.table));
        Ok(EmbeddingIndex { save, tables: tables.collect(), shards })
    }

    fn job_error(&self) -> impl Fn(ClusterError) -> ModelFileError + use<> {
        let path = self.path.clone();
        move |source| ModelFileError::Job { path: path.clone(), source: Box::new(source) }
    }
}

impl EarlierModel {
    /// Returns the model at `path` if an attempt of the same run saved it. A missing file, or one that is not a model file,
    /// gives `None`.
    ///
    /// # Errors
    /// [`ModelFileError::Read`] if the file cannot be read.
    fn read(path: &Path, attempt: &Attempt) -> Result<Option<Self>, ModelFileError> {
        let metadata = match FileHeader::read(path) {
            Ok(header) => header.metadata(),
            Err(ModelFileError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => return Ok(None),
            Err(ModelFileError::Format { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(origin) = ModelOrigin::from_metadata(&metadata) else { return Ok(None) };
        if origin.run.is_none() || origin.run != attempt.run {
            return Ok(None);
        }
        let data = metadata.get(TRAINED_ON).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        Ok(Some(Self { origin, files: embedding_files(path), data }))
    }
}

/// Returns the number of files that no rank finds in its folder. A node that has failed may have taken its files along. Every
/// rank must call this.
fn num_absent(folder: &Path, files: &[String], world: &mut ProcessGroup) -> Result<usize, ClusterError> {
    let mut holders: Vec<u64> = files.iter().map(|file| u64::from(folder.join(file).is_file())).collect();
    if !holders.is_empty() {
        world.all_reduce(&mut holders, ReduceOp::Sum)?;
    }
    Ok(holders.iter().filter(|&&number| number == 0).count())
}
