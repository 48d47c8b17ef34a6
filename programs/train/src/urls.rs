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
use edgecut_cli::{CommandLine, GivenUrl, message};
use edgecut_cluster::{EnvRanks, PartLayout};
use edgecut_stores::{CopiesInUse, StoreError, StoreUrl, Stores};
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The end of the name of the folder with the embeddings of a model.
const EMBEDDINGS: &str = ".embeddings";
/// The end of the name of the file with the flags of a run, beside its model.
const CONFIG: &str = ".config.yaml";

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
    /// True if other machines upload to the same URLs.
    has_other_nodes: bool,
}

struct Output {
    url: StoreUrl,
    path: PathBuf,
    kind: OutputKind,
}

enum OutputKind {
    Model,
    /// The folder has files whose names the function accepts.
    Folder(fn(&str) -> bool),
    /// The ranks upload the files.
    Checkpoints,
}

/// The ranks of this machine, or this rank.
struct Place {
    ranks: Range<usize>,
    world_size: usize,
    has_other_nodes: bool,
    /// True if this attempt to run the job is a restart.
    is_restart: bool,
}

/// Fetches what the URLs on the command line name.
///
/// # Errors
/// URLs that cannot be read, or outputs that exist.
pub(crate) fn located(line: CommandLine<Cli>) -> anyhow::Result<Located> {
    if line.urls.is_empty() {
        let outputs = Outputs::default();
        return Ok(Located { cli: line.args, words: None, outputs, copies: CopiesInUse::default() });
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
    let mut stores = Stores::new(cache_dir.as_deref(), say)?;
    let mut outputs = Outputs { cache_dir, outputs: Vec::new(), has_other_nodes: place.has_other_nodes };
    let mut paths = Vec::new();
    for given in &line.urls {
        let url = StoreUrl::parse(&given.url)?;
        let path = match given.id.as_str() {
            "dataset_root_dir" => stores.fetch_parts(&url, |num_parts| place.parts(num_parts))?,
            "init_from" | "load_model" => {
                let model = stores.file(&url, &[EMBEDDINGS])?;
                stores.fetch(&model, |_| true)?
            }
            _ => {
                let (path, kind) = located_output(given, &url, &line.args.command, &flags, &place, &mut stores)?;
                outputs.outputs.push(Output { url, path: path.clone(), kind });
                path
            }
        };
        paths.push((given.clone(), path));
    }
    let (cli, words) = line.with_paths(&paths).unwrap_or_else(|error| error.exit());
    // Threads of the requests must end before the ranks block their signals.
    Ok(Located { cli, words: Some(words), outputs, copies: stores.into_copies() })
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
        return Ok((stores.staging(url, !place.is_restart)?, OutputKind::Model));
    }
    if given.id == "checkpoint_dir" {
        let resumes = flags.training.is_some_and(|training| training.checkpoints.resume);
        if resumes {
            return Ok((stores.mirror(url)?, OutputKind::Checkpoints));
        }
        if stores.folder_if_any(url)?.is_some_and(|folder| folder.names().any(|name| name.ends_with(".json"))) {
            bail!(
                "{url} holds checkpoints of an earlier run: add --resume to continue it, or choose another --checkpoint-dir"
            );
        }
        return Ok((stores.staging(url, true)?, OutputKind::Checkpoints));
    }
    let (overwrite, is_output): (bool, fn(&str) -> bool) = match command {
        Command::Predict(args) => (args.overwrite, predict::is_output),
        Command::Sample(args) => (args.overwrite, sample::is_batch),
        _ => bail!(UsageError(format!("--{}: this command takes a local path", given.id.replace('_', "-")))),
    };
    let has_old = stores.folder_if_any(url)?.is_some_and(|folder| folder.names().any(is_output));
    if has_old && !overwrite {
        bail!("{url} holds files of an earlier run: choose another --out, or add --overwrite");
    }
    if has_old && place.has_other_nodes {
        bail!(
            "{url} holds files of an earlier run, which --overwrite replaces in an object store only for jobs on one \
             machine: choose another --out"
        );
    }
    Ok((stores.staging(url, true)?, OutputKind::Folder(is_output)))
}

impl Place {
    fn find(flags: &JobFlags<'_>) -> anyhow::Result<Self> {
        let has_servers = flags.part.is_some_and(|part| part.server_list().is_some());
        let role = ProcessRole::find(flags.job, has_servers)?;
        let (ranks, world_size) = match &role {
            ProcessRole::Parent(ranks) => {
                (ranks.first_rank..ranks.first_rank + ranks.local_world_size, ranks.world_size)
            }
            ProcessRole::Rank(rank) => (rank.rank..rank.rank + 1, rank.world_size),
        };
        let is_restart = EnvRanks::read()?.attempt.is_some_and(|attempt| attempt > 0);
        Ok(Self { ranks, world_size, has_other_nodes: role.has_other_nodes(), is_restart })
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
        let mut stores = Stores::new(self.cache_dir.as_deref(), say)?;
        for output in &self.outputs {
            let Output { url, path, kind } = output;
            let uploaded = match kind {
                OutputKind::Model => self.upload_model(&mut stores, url, path),
                OutputKind::Folder(is_output) if path.exists() => {
                    stores.upload_folder(path, url, None, |name| !self.has_other_nodes && is_output(name))
                }
                OutputKind::Folder(_) | OutputKind::Checkpoints => Ok(()),
            };
            uploaded.with_context(|| format!("{} is complete, but not uploaded", path.display()))?;
            stores.remove_staging(url)?;
        }
        Ok(())
    }

    /// Uploads the files of a model. Readers find the embeddings by the model, which comes last.
    fn upload_model(&self, stores: &mut Stores, url: &StoreUrl, path: &Path) -> Result<(), StoreError> {
        let to = url.with_ending(EMBEDDINGS)?;
        let embeddings = with_ending(path, EMBEDDINGS);
        let old = stores.folder_if_any(&to)?;
        if embeddings.exists() {
            stores.upload_folder(&embeddings, &to, None, |_| false)?;
        }
        // Only the machine of rank 0 has the model and its flags.
        for (file, to) in [(with_ending(path, CONFIG), url.with_ending(CONFIG)?), (path.to_owned(), url.clone())] {
            if file.exists() {
                stores.upload_file(&file, &to)?;
                say(&format!("uploaded {to}"));
            }
        }
        // Without a new model, the old one and its embeddings stay. Other machines have embeddings of the new one.
        if !path.exists() || self.has_other_nodes {
            return Ok(());
        }
        let of_old = old.iter().flat_map(|old| old.names());
        let left: Vec<String> = of_old.filter(|name| !embeddings.join(name).exists()).map(str::to_owned).collect();
        stores.remove(&to, &left)
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

fn say(line: &str) {
    message!("{line}");
}
