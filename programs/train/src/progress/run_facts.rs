//! The line of the metrics file that describes the run.

use chrono::{SecondsFormat, Utc};
use edgecut_cli::version;
use edgecut_cluster::Cluster;
use serde::Serialize;
use serde_json::Value;
use std::ffi::OsString;

/// The names by which a later start of a run recognizes its lines.
#[derive(Serialize)]
pub(crate) struct RunNames<'a> {
    /// The name that the launcher gives to all attempts, if it has a name.
    pub(crate) run: Option<String>,
    /// A digest of the settings, since the commands of a batch script have one name.
    pub(crate) settings: &'a str,
    /// The name in the checkpoints of this start, if it writes any.
    pub(crate) checkpoints: Option<&'a str>,
}

/// The facts about a run, which its report shows.
#[derive(Serialize)]
pub(crate) struct RunFacts<'a> {
    /// The command line, as it can be given to a shell.
    command: String,
    version: &'static str,
    /// The start in UTC.
    date: String,
    processes: usize,
    machines: usize,
    #[serde(flatten)]
    names: RunNames<'a>,
    /// The name and the sizes of the data.
    #[serde(flatten)]
    data: &'a Value,
    /// The names of the classes, if they have any.
    #[serde(skip_serializing_if = "Option::is_none")]
    classes: Option<&'a [String]>,
}

impl<'a> RunFacts<'a> {
    pub(crate) fn new(cluster: &Cluster, names: RunNames<'a>, data: &'a Value, classes: Option<&'a [String]>) -> Self {
        let words = std::env::args_os().skip(1).map(OsString::into_string);
        let words = words.map(|word| word.unwrap_or_else(|word| word.to_string_lossy().into_owned()));
        let words: Vec<String> = std::iter::once("train".to_owned()).chain(words).collect();
        Self {
            command: shell_words::join(words),
            version: version(),
            date: Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true),
            processes: cluster.world_size(),
            machines: cluster.world_size().div_ceil(cluster.local_world_size().max(1)),
            names,
            data,
            classes,
        }
    }
}
