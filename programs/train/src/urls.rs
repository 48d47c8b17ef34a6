//! URLs of object stores on the command line.
//!
//! The first process of a machine fetches what the command reads, and uploads what it writes. The ranks that it starts get a
//! command line with local paths. The files of checkpoints are uploaded by the ranks that write them.

use crate::cli::{Cli, Command};
use crate::exit::UsageError;
use crate::job::command::{JobCommand, JobFlags};
use crate::job::process_role::ProcessRole;
use crate::{predict, sample};
use anyhow::{Context, bail};
use edgecut_cli::{CommandLine, GivenUrl};
use edgecut_cluster::{Attempt, PartLayout, say};
use edgecut_graph::ID_MAP_FILE;
use edgecut_stores::{CopiesInUse, OutputRole, StoreError, StoreUrl, Stores};
use edgecut_trainer::model_file::{embedding_files, is_embedding_file};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The end of the name of the folder with the embeddings of a model.
const EMBEDDINGS: &str = ".embeddings";
/// The end of the name of the file with the flags of a run, beside its model.
const CONFIG: &str = ".config.yaml";

/// The flags that take URLs of what a command reads.
const INPUTS: [&str; 3] = ["dataset_root_dir", "init_from", "load_model"];

/// A command line without URLs.
pub(crate) struct Located {
    pub(crate) cli: Cli,
    /// The arguments of the processes of ranks, if they differ from the arguments of this process.
    pub(crate) words: Option<Vec<OsString>>,
    pub(crate) outputs: Outputs,
    /// The copies of what the command reads, which stay as long as this value.
    pub(crate) copies: CopiesInUse,
}

/// The files that are uploaded when the job has ended.
#[derive(Default)]
pub(crate) struct Outputs {
    cache_dir: Option<PathBuf>,
    outputs: Vec<Output>,
    /// The number of this machine in a job on several machines, which upload to the same URLs.
    node: Option<usize>,
    /// The name of the run, if it has one.
    run: Option<String>,
}

struct Output {
    url: StoreUrl,
    path: PathBuf,
    kind: OutputKind,
    /// The state of what the output replaces at the URL when the job began; `None` if there was nothing.
    replaced: Option<String>,
}

enum OutputKind {
    Model,
    Folder(FolderKind),
    /// The ranks upload the files.
    Checkpoints,
}

/// The files in a folder of outputs.
#[derive(Clone, Copy)]
struct FolderKind {
    /// Returns true for the names of the files.
    is_output: fn(&str) -> bool,
    /// True if the files of an earlier run are replaced.
    overwrite: bool,
}

/// The ranks of this machine, or this rank.
struct Place {
    ranks: Range<usize>,
    world_size: usize,
    /// The first rank of this machine, if the job has other machines.
    node: Option<usize>,
    /// True for the process that uploads the outputs of this machine.
    uploads: bool,
    /// The attempt to run the job.
    attempt: Attempt,
}

/// Fetches what the URLs on the command line name. Returns `None` if an earlier attempt at the run has completed its files, which
/// are uploaded now: nothing is left to do.
///
/// # Errors
/// URLs that cannot be read, or outputs that exist.
pub(crate) fn located(line: CommandLine<Cli>) -> anyhow::Result<Option<Located>> {
    if line.urls.is_empty() {
        let outputs = Outputs::default();
        return Ok(Some(Located { cli: line.args, words: None, outputs, copies: CopiesInUse::default() }));
    }
    let flags = match &line.args.command {
        Command::Task(task) => task.args().flags(),
        Command::Sample(args) => args.flags(),
        Command::Predict(args) => args.flags(),
        Command::Report(_) | Command::Sweep(_) => {
            bail!(UsageError("--out: this command takes a local path, no URL of an object store".to_owned()))
        }
    };
    let place = Place::find(&flags)?;
    let cache_dir = flags.job.stores.cache_dir.clone();
    let mut stores = Stores::new(cache_dir.as_deref(), say)?.on_node(place.node).of_run(place.attempt.run.clone());
    let run = place.attempt.run.clone();
    let mut outputs = Outputs { cache_dir, outputs: Vec::new(), node: place.node, run };
    let mut paths = Vec::new();
    // An output that cannot be written is found before anything is fetched.
    let (inputs, given_outputs): (Vec<_>, Vec<_>) = line.urls.iter().partition(|given| INPUTS.contains(&&*given.id));
    for given in given_outputs {
        let url = StoreUrl::parse(&given.url)?;
        if let Some(kind) = FolderKind::of(&line.args.command)
            && has_finished(&url, kind, &place, &mut stores)?
        {
            return Ok(None);
        }
        let (path, kind) = located_output(given, &url, &line.args.command, &flags, &place, &mut stores)?;
        let replaced = if place.uploads { kind.state_of_replaced(&url, place.node, &mut stores)? } else { None };
        outputs.outputs.push(Output { url, path: path.clone(), kind, replaced });
        paths.push((given.clone(), path));
    }
    for given in inputs {
        let url = StoreUrl::parse(&given.url)?;
        let path = match given.id.as_str() {
            "dataset_root_dir" => {
                let needs_all_ids = match &line.args.command {
                    Command::Predict(args) => predict::needs_all_ids(args, place.ranks.start == 0),
                    _ => false,
                };
                stores.fetch_parts(&url, |num_parts| place.parts(num_parts), |name| needs_all_ids && is_id_map(name))?
            }
            _ => fetch_model(&mut stores, &url)?,
        };
        paths.push((given.clone(), path));
    }
    let (cli, words) = line.with_paths(&paths).unwrap_or_else(|error| error.exit());
    // Threads of the requests must end before the ranks block their signals.
    Ok(Some(Located { cli, words: Some(words), outputs, copies: stores.into_copies() }))
}

/// Returns true if an earlier attempt at this run has completed the files of this machine. Uploads them if that attempt could
/// not.
fn has_finished(url: &StoreUrl, kind: FolderKind, place: &Place, stores: &mut Stores) -> anyhow::Result<bool> {
    if !place.attempt.is_restart() {
        if place.uploads {
            stores.forget_uploaded(url)?;
        }
        return Ok(false);
    }
    if !stores.are_complete_of_run(url) {
        return Ok(false);
    }
    if place.uploads {
        let path = stores.output(url, OutputRole::Continuing)?;
        if path.exists() {
            // The earlier attempt may have uploaded some of them.
            let is_old: fn(&str) -> bool = if kind.replaces(place.node) { kind.is_output } else { |_| false };
            stores.upload_folder(&path, url, None, Some(&is_old)).with_context(|| not_uploaded(url, &path))?;
        }
        stores.remove_uploaded(url)?;
        say(&format!("{url} has the files of an earlier attempt at this run: nothing is left to do"));
    }
    Ok(true)
}

impl OutputKind {
    /// Returns the state of what an output of this kind replaces at its URL; `None` if there is nothing.
    fn state_of_replaced(
        &self,
        url: &StoreUrl,
        node: Option<usize>,
        stores: &mut Stores,
    ) -> Result<Option<String>, StoreError> {
        let found = match self {
            Self::Model => stores.file_if_any(url)?,
            Self::Folder(kind) if kind.replaces(node) => stores.folder_if_any(url)?,
            Self::Folder(_) | Self::Checkpoints => None,
        };
        Ok(found.map(|found| found.state()))
    }
}

impl Output {
    /// Checks that no other job has written to the URL since this one began. Jobs on other machines have no lock in common with
    /// this one.
    ///
    /// # Errors
    /// Outputs of another job, which an upload would replace.
    fn check_replaced(&self, node: Option<usize>, stores: &mut Stores) -> anyhow::Result<()> {
        // The model itself is on one machine of the job, which uploads it last.
        if matches!(self.kind, OutputKind::Model) && !self.path.exists() {
            return Ok(());
        }
        let url = &self.url;
        let state = self.kind.state_of_replaced(url, node, stores);
        if state.with_context(|| not_uploaded(url, &self.path))? == self.replaced {
            return Ok(());
        }
        // A restart would begin after the other job, and replace its files.
        stores.keep_from_restarts(url)?;
        let folder = self.path.parent().unwrap_or(&self.path).display();
        bail!(
            "another job has written to {url} since this one began, and keeps its files there: {} is complete, but not uploaded. Copy \
             it to another URL by another program, and remove {folder}",
            self.path.display()
        );
    }
}

/// Describes complete outputs whose upload has failed.
fn not_uploaded(url: &StoreUrl, path: &Path) -> String {
    let folder = path.parent().unwrap_or(path).display();
    let path = path.display();
    format!("{path} is complete, but not uploaded: copy it to {url} by another program, and remove {folder}")
}

impl FolderKind {
    /// Returns the kind of the folder that a command writes; `None` for commands that write none.
    fn of(command: &Command) -> Option<Self> {
        match command {
            Command::Predict(args) => Some(Self { is_output: predict::is_output, overwrite: args.overwrite }),
            Command::Sample(args) => Some(Self { is_output: sample::is_batch, overwrite: args.overwrite }),
            _ => None,
        }
    }

    /// Returns true if the files of an earlier run are removed. The files of other machines, which a job on several machines has,
    /// are no old ones.
    fn replaces(self, node: Option<usize>) -> bool {
        self.overwrite && node.is_none()
    }
}

/// Returns true for the name of a file with the ids of nodes of a part.
fn is_id_map(name: &str) -> bool {
    name.rsplit_once('/').is_some_and(|(_, file)| file == ID_MAP_FILE)
}

/// Fetches a model with its embeddings. Files of other models may be beside them.
fn fetch_model(stores: &mut Stores, url: &StoreUrl) -> Result<PathBuf, StoreError> {
    let found = stores.file(url, &[EMBEDDINGS])?;
    let path = stores.fetch(&found, |name| name == url.name())?;
    let folder = format!("{}{EMBEDDINGS}/", url.name());
    let wanted: BTreeSet<String> = embedding_files(&path).into_iter().map(|name| folder.clone() + &name).collect();
    stores.fetch(&found, |name| name == url.name() || wanted.contains(name))
}

/// Returns the local path of an output, after a check that its URL may be written.
fn located_output(
    given: &GivenUrl,
    url: &StoreUrl,
    command: &Command,
    flags: &JobFlags<'_>,
    place: &Place,
    stores: &mut Stores,
) -> anyhow::Result<(PathBuf, OutputKind)> {
    if given.id == "save_model" {
        if place.uploads {
            stores.check_file(url)?;
        }
        // A restarted job may keep the model of an earlier attempt.
        return Ok((stores.output(url, place.role(place.attempt.is_restart()))?, OutputKind::Model));
    }
    if given.id == "checkpoint_dir" {
        stores.check_folder(url)?;
        let resumes = flags.training.is_some_and(|training| training.checkpoints.resume);
        if resumes {
            return Ok((stores.mirror(url, place.role(true))?, OutputKind::Checkpoints));
        }
        if stores.folder_if_any(url)?.is_some_and(|folder| folder.names().any(|name| name.ends_with(".json"))) {
            bail!(
                "{url} holds checkpoints of an earlier run: add --resume to continue it, or choose another --checkpoint-dir"
            );
        }
        return Ok((stores.output(url, place.role(false))?, OutputKind::Checkpoints));
    }
    let Some(kind) = FolderKind::of(command) else {
        bail!(UsageError(format!("--{}: this command takes a local path", given.id.replace('_', "-"))));
    };
    let has_old = stores.folder_if_any(url)?.is_some_and(|folder| folder.names().any(kind.is_output));
    if has_old && !kind.overwrite {
        bail!("{url} holds files of an earlier run: choose another --out, or add --overwrite");
    }
    if has_old && place.node.is_some() {
        bail!(
            "{url} holds files of an earlier run, which --overwrite replaces in an object store only for jobs on one \
             machine: choose another --out"
        );
    }
    if place.uploads {
        stores.check_folder(url)?;
    }
    Ok((stores.output(url, place.role(false))?, OutputKind::Folder(kind)))
}

impl Place {
    fn find(flags: &JobFlags<'_>) -> anyhow::Result<Self> {
        let has_servers = flags.part.is_some_and(|part| part.server_list().is_some());
        let role = ProcessRole::find(flags.job, has_servers)?;
        let (ranks, world_size, local_rank) = match &role {
            ProcessRole::Parent(ranks) => {
                (ranks.first_rank..ranks.first_rank + ranks.local_world_size, ranks.world_size, 0)
            }
            ProcessRole::Rank(rank) => (rank.rank..rank.rank + 1, rank.world_size, rank.local_rank),
        };
        let attempt = Attempt::read()?;
        let node = role.has_other_nodes().then_some(ranks.start.saturating_sub(local_rank));
        Ok(Self { ranks, world_size, node, uploads: local_rank == 0, attempt })
    }

    /// Returns the role of this process for outputs. `continues` is true if they continue the outputs of an earlier attempt.
    fn role(&self, continues: bool) -> OutputRole {
        match (self.uploads, continues) {
            (true, true) => OutputRole::Continuing,
            (true, false) => OutputRole::First,
            (false, _) => OutputRole::Other,
        }
    }

    /// Returns the parts of these ranks.
    fn parts(&self, num_parts: usize) -> Vec<usize> {
        let layout = PartLayout::new(num_parts, self.world_size);
        self.ranks.clone().flat_map(|rank| layout.parts_of(layout.group_of(rank))).collect()
    }
}

impl Outputs {
    /// Uploads the outputs of this machine. The job must have ended without an error.
    ///
    /// # Errors
    /// A failed upload. The error names the local files.
    pub(crate) fn upload(&self) -> anyhow::Result<()> {
        if self.outputs.is_empty() {
            return Ok(());
        }
        let stores = Stores::new(self.cache_dir.as_deref(), say)?;
        let mut stores = stores.on_node(self.node).of_run(self.run.clone());
        for output in &self.outputs {
            let Output { url, path, kind, .. } = output;
            let is_written = path.exists() || with_ending(path, EMBEDDINGS).exists();
            if is_written && !matches!(kind, OutputKind::Checkpoints) {
                stores.mark_complete(url)?;
                output.check_replaced(self.node, &mut stores)?;
                let uploaded = match kind {
                    OutputKind::Folder(kind) => self.upload_folder(&mut stores, url, path, *kind),
                    _ => upload_model(&mut stores, url, path),
                };
                uploaded.with_context(|| not_uploaded(url, path))?;
            }
            match kind {
                OutputKind::Folder(_) => stores.remove_uploaded(url)?,
                OutputKind::Model | OutputKind::Checkpoints => stores.remove_output(url)?,
            }
        }
        Ok(())
    }

    fn upload_folder(
        &self,
        stores: &mut Stores,
        url: &StoreUrl,
        path: &Path,
        kind: FolderKind,
    ) -> Result<(), StoreError> {
        let is_replaced = kind.replaces(self.node).then_some(&kind.is_output as &dyn Fn(&str) -> bool);
        stores.upload_folder(path, url, None, is_replaced)
    }
}

/// Uploads the files of a model. Readers find the embeddings by the model, which comes last.
fn upload_model(stores: &mut Stores, url: &StoreUrl, path: &Path) -> Result<(), StoreError> {
    let to = url.with_ending(EMBEDDINGS)?;
    let embeddings = with_ending(path, EMBEDDINGS);
    if embeddings.exists() {
        stores.upload_folder(&embeddings, &to, None, Some(&|_| false))?;
    }
    // Only the machine of rank 0 has the model and its flags.
    for (file, to) in [(with_ending(path, CONFIG), url.with_ending(CONFIG)?), (path.to_owned(), url.clone())] {
        if file.exists() {
            stores.upload_file(&file, &to)?;
            say(&format!("uploaded {to}"));
        }
    }
    if !path.exists() {
        return Ok(());
    }
    // The model names the files of all machines, whose uploads may come later. Other files are of earlier models.
    let new = embedding_files(path);
    let old = stores.folder_if_any(&to)?;
    let old = old.iter().flat_map(|old| old.names()).filter(|name| is_embedding_file(name));
    let left: Vec<String> = old.map(str::to_owned).filter(|name| !new.contains(name)).collect();
    stores.remove(&to, &left)
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}
