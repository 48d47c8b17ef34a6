//! The assignment of ranks to nodes, made before any connection.

use crate::args::{Args, Role};
use crate::hosts::ssh::Target;
use crate::messages::{Check, Listen, PartsCheck, Program, RankStart, SHELL, Start};
use crate::parts::dataset_root_dir;
use anyhow::{Context, anyhow, bail, ensure};
use edgecut_cli::{COMMANDS, EdgecutCommand, Installation, is_url, path_of_file_url};
use edgecut_cluster::{DEFAULT_MASTER_PORT, IpConfig, Token};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

/// The variables of the secret of a job, and of its file.
const TOKEN: &str = "EDGECUT_TOKEN";
const TOKEN_FILE: &str = "EDGECUT_TOKEN_FILE";
/// Parts of the names of variables whose values are secret, as of AWS_SECRET_ACCESS_KEY.
const SECRETS: [&str; 5] = ["CREDENTIAL", "KEY", "PASSW", "SECRET", "TOKEN"];
/// Characters of a run's name.
const RUN_ID_LEN: usize = 16;

/// The layout of a job.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) nodes: Vec<NodePlan>,
    pub(crate) world_size: usize,
    pub(crate) master_addr: String,
    /// True if `--master-addr` gives the address.
    master_given: bool,
    pub(crate) master_port: u16,
    pub(crate) workspace: String,
    pub(crate) program: Program,
    pub(crate) args: Vec<String>,
    /// The name of the run, which all its attempts share.
    run_id: String,
    /// The silence after which a node, or this program, counts as gone.
    pub(crate) silence: Duration,
    /// The time between asking processes to end and killing them.
    pub(crate) grace: Duration,
    /// The folder of the partitioned graph that the command names, relative to the workspace.
    pub(crate) dataset_dir: Option<String>,
    /// The secret that the user gives, if any.
    token: Option<Token>,
    /// True if the processes are servers.
    pub(crate) is_servers: bool,
}

/// The part of a job that runs on one node.
#[derive(Clone, Debug)]
pub(crate) struct NodePlan {
    pub(crate) target: Target,
    pub(crate) ranks: Range<usize>,
    listen: Option<Listen>,
    env: BTreeMap<String, String>,
}

impl Plan {
    /// Lays out the job that the arguments describe. `--master-port`, `--num-training-procs` and `--extra-envs`
    /// override the file; for the SSH port and user the file wins.
    pub(crate) fn new(args: &Args) -> anyhow::Result<Self> {
        let config = IpConfig::read(&args.ip_config).context("--ip-config")?;
        let servers = config.servers().iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let config = of_role(config, args)?;
        let token = args.token_file.as_deref().map(Token::from_file).transpose()?;
        let listed = config.nodes().len();
        let num_nodes = args.num_nodes.unwrap_or(listed);
        if num_nodes > listed {
            bail!("--num-nodes is {num_nodes}, but {} names {listed} nodes", args.ip_config.display());
        }
        let master_port = args.master_port.or(config.master_port()).unwrap_or(DEFAULT_MASTER_PORT);
        let config = config.take(num_nodes);
        let extra = args.extra_envs.iter().map(|pair| split_variable(pair)).collect::<anyhow::Result<Vec<_>>>()?;
        let mut command = CommandToRun::new(&args.command, &args.passed_on)?;
        if args.sync_binary {
            command.name_program_of_edgecut()?;
        }
        if command.is_shell && args.sync_binary {
            bail!("--sync-binary copies one program, but the command is one of the shell: start the program itself");
        }
        let dataset_dir = command.dataset_dir;
        let started = command_of_edgecut(&command.words).map(|command| command.program.to_owned());
        let mut words = command.words.into_iter();
        let name = words.next().context("no command is given")?;
        let mut nodes = Vec::new();
        let mut first = 0;
        for node in config.nodes() {
            let processes = args.num_training_procs.or(node.processes).unwrap_or(1);
            let listen = node.listen_addr.map(Listen::Address);
            let mut env = node.env.clone();
            if !servers.is_empty() {
                env.entry("EDGECUT_SERVERS".into()).or_insert_with(|| servers.clone());
            }
            env.extend(extra.iter().cloned());
            if let Some(name) = [TOKEN, TOKEN_FILE].into_iter().find(|name| env.contains_key(*name)) {
                bail!(
                    "{name} has no effect as a variable of {}: give the secret of the job by --token-file",
                    node.host
                );
            }
            nodes.push(NodePlan {
                target: Target {
                    host: node.host.clone(),
                    port: node.ssh_port.or(args.ssh_port),
                    user: node.user.clone().or(args.ssh_username.clone()),
                    config: args.ssh_config.clone(),
                    silence: Duration::from_secs(args.silence),
                },
                ranks: first..first + processes,
                listen: listen.or(node.interface.clone().map(Listen::Interface)),
                env,
            });
            first += processes;
        }
        let workspace = match &args.workspace {
            Some(workspace) => workspace.clone(),
            None => std::env::current_dir().context("find the current folder")?.display().to_string(),
        };
        let master = config.master();
        Ok(Self {
            nodes,
            world_size: first,
            master_addr: args.master_addr.clone().unwrap_or_else(|| match master.listen_addr {
                Some(address) => address.to_string(),
                None => master.host.clone(),
            }),
            master_given: args.master_addr.is_some(),
            master_port,
            workspace,
            program: Program { name, copied: None, started },
            args: words.collect(),
            run_id: run_id()?,
            silence: Duration::from_secs(args.silence),
            grace: Duration::from_secs(args.grace),
            dataset_dir,
            token,
            is_servers: args.role == Some(Role::Server),
        })
    }

    /// Returns the secret of an attempt to run the job: the user's, or a new one.
    pub(crate) fn token(&self) -> anyhow::Result<Token> {
        self.token.clone().map_or_else(|| Ok(Token::random()?), Ok)
    }

    /// Sets the master's address to the one that the first node has found for its ranks, unless `--master-addr` gives
    /// it.
    pub(crate) fn master_listens_at(&mut self, address: Option<IpAddr>) {
        if let (Some(address), false) = (address, self.master_given) {
            self.master_addr = address.to_string();
        }
    }

    /// Leaves out nodes, and numbers the nodes and ranks that are left anew.
    ///
    /// # Errors
    /// `--master-addr` names the address of a node that is left out.
    pub(crate) fn leave_out(&mut self, nodes: &[bool]) -> anyhow::Result<()> {
        if nodes.first() == Some(&true) {
            if self.master_given {
                bail!("node 0 is lost, whose address --master-addr gives: start the job without this flag");
            }
            let mut left = self.nodes.iter().zip(nodes).filter(|(_, is_left_out)| !**is_left_out);
            let (first, _) = left.next().context("all nodes are lost")?;
            self.master_addr = match &first.listen {
                Some(Listen::Address(address)) => address.to_string(),
                _ => first.target.host.clone(),
            };
        }
        let mut is_left_out = nodes.iter();
        self.nodes.retain(|_| is_left_out.next() != Some(&true));
        self.world_size = 0;
        for node in &mut self.nodes {
            node.ranks = self.world_size..self.world_size + node.ranks.len();
            self.world_size = node.ranks.end;
        }
        Ok(())
    }

    /// Returns the name of a rank in the output.
    pub(crate) fn label(&self, rank: usize) -> String {
        let host = self.nodes.iter().find(|node| node.ranks.contains(&rank)).map_or("?", |node| &node.target.host);
        format!("{host}:{rank}")
    }

    /// Returns the checks for the agent of `node`.
    pub(crate) fn check(&self, node: usize) -> Check {
        let ranks = self.nodes[node].ranks.clone();
        Check {
            workspace: self.workspace.clone(),
            program: self.program.clone(),
            // Each node fetches its parts from an object store when the processes start.
            parts: self.dataset_dir.clone().filter(|dir| !is_url(dir)).map(|dir| PartsCheck {
                dir,
                world_size: self.world_size,
                ranks,
            }),
            // Servers have no rank 0 to join.
            master: (node == 0 && !self.is_servers).then(|| (self.master_addr.clone(), self.master_port)),
            listen: self.nodes[node].listen.clone(),
        }
    }

    /// Returns the order that starts the ranks of `node`. The secret `token` is in no output of a plan.
    pub(crate) fn start(&self, node: usize, job_id: &str, token: &Token, restarts: u32) -> Start {
        let mut env = self.env(node);
        env.insert(TOKEN.into(), token.to_env_value().into());
        env.insert("EDGECUT_RESTART_COUNT".into(), restarts.to_string());
        // A run that was named by the user, in the file or with `--extra-envs`, keeps its name.
        env.entry("EDGECUT_RUN_ID".into()).or_insert_with(|| self.run_id.clone());
        Start {
            job_id: job_id.into(),
            workspace: self.workspace.clone(),
            program: self.program.clone(),
            args: self.args.clone(),
            grace_s: self.grace.as_secs(),
            env,
            listen: self.nodes[node].listen.clone(),
            ranks: self.nodes[node].ranks.clone().map(|rank| self.rank(node, rank)).collect(),
        }
    }

    /// Returns the node of a rank.
    ///
    /// # Panics
    /// If the rank is not in the job.
    pub(crate) fn node_of(&self, rank: usize) -> usize {
        let node = self.nodes.iter().position(|node| node.ranks.contains(&rank));
        node.expect("a rank of the job")
    }

    /// Returns the variables of all ranks of a node. torchrun's variables override those of the file and of
    /// `--extra-envs`.
    pub(crate) fn env(&self, node: usize) -> BTreeMap<String, String> {
        let NodePlan { ranks, env, .. } = &self.nodes[node];
        let mut env = env.clone();
        for (name, value) in [
            ("WORLD_SIZE", self.world_size.to_string()),
            ("LOCAL_WORLD_SIZE", ranks.len().to_string()),
            ("NODE_RANK", node.to_string()),
            ("MASTER_ADDR", self.master_addr.clone()),
            ("MASTER_PORT", self.master_port.to_string()),
        ] {
            env.insert(name.into(), value);
        }
        env
    }

    /// Returns the variables of all ranks of a node as a text without the values of secrets.
    pub(crate) fn shown_env(&self, node: usize) -> String {
        let mut shown = Vec::new();
        for (name, value) in self.env(node) {
            let is_secret = SECRETS.iter().any(|part| name.to_uppercase().contains(part));
            shown.push(format!("{name}={}", if is_secret { "(secret)" } else { value.as_str() }));
        }
        shown.join(" ")
    }

    fn rank(&self, node: usize, rank: usize) -> RankStart {
        let local = rank - self.nodes[node].ranks.start;
        let env = [("RANK", rank), ("LOCAL_RANK", local)].map(|(name, value)| (name.into(), value.to_string()));
        RankStart { rank, env: env.into() }
    }
}

/// Returns the nodes of the role that `--role` names.
fn of_role(config: IpConfig, args: &Args) -> anyhow::Result<IpConfig> {
    let file = args.ip_config.display();
    match args.role {
        None if config.has_roles() => bail!("{file} has servers and trainers: choose one with --role"),
        None => Ok(config),
        Some(_) if args.token_file.is_none() => {
            bail!("--role needs --token-file: servers and trainers are started apart and share a secret")
        }
        Some(Role::Server) if args.num_training_procs.is_some() || args.num_nodes.is_some() => {
            bail!("--role server: trainers need to know all servers, so give their number in {file}, as `processes`")
        }
        Some(role) => {
            config.with_role(role.into()).with_context(|| format!("{file} has no node with the role of --role"))
        }
    }
}

/// Returns the name of the run: the one in this program's environment, or else a random one.
fn run_id() -> anyhow::Result<String> {
    match std::env::var("EDGECUT_RUN_ID") {
        Ok(id) if !id.is_empty() => Ok(id),
        _ => Ok(Token::random()?.to_env_value()[..RUN_ID_LEN].to_owned()),
    }
}

fn split_variable(pair: &str) -> anyhow::Result<(String, String)> {
    match pair.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => bail!("--extra-envs {pair}: expected NAME=VALUE"),
    }
}

/// The command that each rank runs.
#[derive(Debug)]
struct CommandToRun {
    words: Vec<String>,
    /// The value of `--dataset-root-dir`, unless the command changes the folder that it starts at.
    dataset_dir: Option<String>,
    /// True if the shell runs the command.
    is_shell: bool,
}

impl CommandToRun {
    /// Makes the command from its words, or from one quoted string. `passed_on` are flags that are added at its end.
    fn new(words: &[String], passed_on: &[String]) -> anyhow::Result<Self> {
        let line = match words {
            [line] if line.contains(char::is_whitespace) => Some(line),
            _ => None,
        };
        let mut split = match line {
            Some(line) => shell_words::split(line).with_context(|| format!("split the command {line:?} into words"))?,
            None => words.to_vec(),
        };
        let program = split.first().map_or("", String::as_str);
        ensure!(!program.is_empty(), "no command is given: add the program to run after the flags");
        ensure!(!program.starts_with('-'), "there is no flag {program}: see --help");
        split.extend_from_slice(passed_on);
        let mut dataset_dir = dataset_root_dir(&split);
        if let Some(url) = &dataset_dir
            && let Some(path) = path_of_file_url(url).map_err(|why| anyhow!("--dataset-root-dir: {why}"))?
        {
            dataset_dir = Some(path);
        }
        let Some(line) = line.filter(|line| is_for_the_shell(line)) else {
            return Ok(Self { words: split, dataset_dir, is_shell: false });
        };
        let added = passed_on.iter().map(|flag| shell_words::quote(flag));
        let line = std::iter::once(line.trim_end().into()).chain(added).collect::<Vec<_>>().join(" ");
        let is_plain = |dir: &String| !dir.contains(['$', '`', ';', '&', '|']);
        let changes_folder = split.iter().any(|word| word == "cd" || word == "pushd");
        let dataset_dir = dataset_dir.filter(is_plain).filter(|dir| dir.starts_with('/') || !changes_folder);
        Ok(Self { words: vec![SHELL.into(), "-c".into(), line], dataset_dir, is_shell: true })
    }
}

impl CommandToRun {
    /// Replaces `edgecut` and its command by the program that runs it, because one program is copied to the nodes.
    fn name_program_of_edgecut(&mut self) -> anyhow::Result<()> {
        let Some(command) = command_of_edgecut(&self.words) else { return Ok(()) };
        let edgecut = &self.words[0];
        // `edgecut` on PATH has started this program, which is in the folder of the others.
        let file = if edgecut.contains('/') { edgecut.into() } else { std::env::current_exe().unwrap_or_default() };
        let installation = Installation::of(&file);
        let folder = installation.folder().display();
        let program = installation.find(command.program).with_context(|| {
            format!("--sync-binary: the program {} of {edgecut} is neither in {folder} nor on PATH", command.program)
        })?;
        let kept = if command.is_subcommand { 1 } else { 2 };
        self.words.splice(..kept, [program.display().to_string()]);
        Ok(())
    }
}

/// Returns the command that `edgecut` runs, if these are the words of one.
fn command_of_edgecut(words: &[String]) -> Option<&'static EdgecutCommand> {
    let [program, command, ..] = words else { return None };
    let is_edgecut = program.rsplit('/').next() == Some("edgecut");
    COMMANDS.iter().find(|known| is_edgecut && known.name == command)
}

/// Returns true if a command consists of several commands, or uses other features of the shell.
fn is_for_the_shell(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    let is_builtin = ["cd", "source", ".", "export", "exec"].contains(&first);
    is_builtin || first.contains('=') || has_operator(line)
}

/// Returns true if a command has an operator of the shell outside of quotes. A semicolon counts at the end of a word only,
/// since fan-outs contain it: `e1=15,10;5,5`.
fn has_operator(line: &str) -> bool {
    let mut quote = None;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, '&' | '|' | '<' | '>' | '\n') | (None | Some('"'), '$' | '`') => return true,
            (None, ';') if letters.peek().is_none_or(|next| next.is_whitespace()) => return true,
            (None | Some('"'), '\\') => drop(letters.next()),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_testing::assert_has;

    fn plan(config: &str, flags: &str) -> anyhow::Result<Plan> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), config).unwrap();
        let line = format!("launch --ip-config {} {flags}", file.path().display());
        Plan::new(&crate::command_line::Words::args(&line)?)
    }

    #[test]
    fn ranks_are_numbered_node_by_node() {
        let plan = plan("10.0.0.1 29500\n10.0.0.2\n10.0.0.3", "--num_nodes 2 --num_training_procs 3 -- prog").unwrap();
        let ranks: Vec<_> = plan.nodes.iter().map(|node| node.ranks.clone()).collect();
        assert_eq!(ranks, [0..3, 3..6]);
        assert_eq!((plan.world_size, plan.master_addr.as_str(), plan.master_port), (6, "10.0.0.1", 29500));
        let start = plan.start(1, "job", &Token::random().unwrap(), 0);
        assert_eq!(start.ranks[1].env["RANK"], "4");
        assert_eq!(start.ranks[1].env["LOCAL_RANK"], "1");
        assert_eq!(start.env["WORLD_SIZE"], "6");
        assert_eq!(start.env["NODE_RANK"], "1");
        assert_eq!(plan.label(4), "10.0.0.2:4");
    }

    #[test]
    fn the_nodes_that_are_left_are_numbered_anew() {
        let config = "hosts:\n- {address: a, processes: 2}\n- {address: b, processes: 1}\n- {address: c, processes: 3}";
        let mut plan = plan(config, "-- prog").unwrap();
        plan.leave_out(&[true, false, false]).unwrap();
        let ranks: Vec<_> = plan.nodes.iter().map(|node| node.ranks.clone()).collect();
        assert_eq!((ranks, plan.world_size, plan.master_addr.as_str()), (vec![0..1, 1..4], 4, "b"));
        plan.leave_out(&[false, true]).unwrap();
        assert_eq!((plan.nodes.len(), plan.world_size, plan.label(0).as_str()), (1, 1, "b:0"));
        let mut given = self::plan(config, "--master-addr a -- prog").unwrap();
        given.leave_out(&[false, true, false]).unwrap();
        assert!(given.leave_out(&[true, false]).unwrap_err().to_string().contains("--master-addr"));
    }

    #[test]
    fn flags_win_over_the_file_and_both_over_defaults() {
        let config =
            "master_port: 1000\nhosts:\n- {address: a, processes: 2, env: {K: file, L: file}}\n- {address: b, user: u}";
        let chosen = plan(config, "--ssh-username v --extra-envs K=flag -- prog").unwrap();
        assert_eq!(chosen.nodes.iter().map(|node| node.ranks.len()).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(chosen.nodes[0].target.user.as_deref(), Some("v"));
        assert_eq!(chosen.nodes[1].target.user.as_deref(), Some("u"));
        assert_eq!((chosen.env(0)["K"].as_str(), chosen.env(0)["L"].as_str()), ("flag", "file"));
        assert_eq!(chosen.master_port, 1000);
        assert_eq!(plan(config, "--master_port 7 -- prog").unwrap().master_port, 7);
    }

    #[test]
    fn the_name_of_a_run_is_the_same_in_all_attempts_and_may_be_given() {
        let env = |plan: &Plan, restarts| plan.start(0, "job", &Token::random().unwrap(), restarts).env;
        let unnamed = plan("a", "-- prog").unwrap();
        let first = env(&unnamed, 0);
        let second = env(&unnamed, 1);
        assert_eq!((&*first["EDGECUT_RESTART_COUNT"], &*second["EDGECUT_RESTART_COUNT"]), ("0", "1"));
        assert_eq!(first["EDGECUT_RUN_ID"], second["EDGECUT_RUN_ID"]);
        assert_ne!(first["EDGECUT_RUN_ID"], env(&plan("a", "-- prog").unwrap(), 0)["EDGECUT_RUN_ID"]);
        let named = plan("a", "--extra-envs EDGECUT_RUN_ID=mine -- prog").unwrap();
        assert_eq!(env(&named, 1)["EDGECUT_RUN_ID"], "mine");
    }

    #[test]
    fn secrets_are_not_shown() {
        let flags =
            "--extra-envs AWS_SECRET_ACCESS_KEY=abc --extra-envs hf_token=abc --extra-envs OMP_NUM_THREADS=2 -- prog";
        let shown = plan("a", flags).unwrap().shown_env(0);
        assert!(!shown.contains("abc") && shown.contains("OMP_NUM_THREADS=2"), "{shown}");
        assert!(shown.contains("AWS_SECRET_ACCESS_KEY=(secret)"), "{shown}");
    }

    #[test]
    fn the_command_may_be_one_string() {
        let plan = plan("a", "'train node --dataset_root_dir \"my data\" --lr 1'").unwrap();
        assert_eq!(plan.program.name, "train");
        assert_eq!(plan.args, ["node", "--dataset_root_dir", "my data", "--lr", "1"]);
        assert_eq!(plan.dataset_dir.as_deref(), Some("my data"));
    }

    #[test]
    fn nodes_are_not_asked_for_parts_in_an_object_store() {
        for (dir, checked) in [
            ("data/2-parts", Some("data/2-parts")),
            ("file:///data/2-parts", Some("/data/2-parts")),
            ("s3://graphs/2-parts", None),
        ] {
            let plan = plan("a", &format!("-- train node --dataset-root-dir {dir}")).unwrap();
            assert_eq!(plan.check(0).parts.map(|parts| parts.dir).as_deref(), checked, "{dir}");
        }
        let error = plan("a", "-- train node --dataset-root-dir file://data/2-parts").unwrap_err().to_string();
        assert!(
            error.starts_with("--dataset-root-dir: file://data/2-parts does not name a file of this machine"),
            "{error}"
        );
    }

    #[test]
    fn the_program_of_a_command_of_edgecut_is_copied() {
        fn words(line: &str) -> Vec<String> {
            let plan = plan("a", line).unwrap();
            [vec![plan.program.name], plan.args].concat()
        }
        fn started(line: &str) -> Option<String> {
            plan("a", line).unwrap().program.started
        }
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("bin")).unwrap();
        edgecut_testing::write_executable(&root.join("bin/edgecut"), b"");
        let root = root.display().to_string();
        for folder in ["bin", "lib/edgecut"] {
            // An installation has the programs in the second folder, and `train` in the first may be another program.
            let train = &*format!("{root}/{folder}/train");
            std::fs::create_dir_all(format!("{root}/{folder}")).unwrap();
            edgecut_testing::write_executable(train.as_ref(), b"");
            let node = words(&format!("--sync-binary -- {root}/bin/edgecut train node --lr 1"));
            assert_eq!(node, [train, "node", "--lr", "1"]);
            let predict = words(&format!("--sync-binary '{root}/bin/edgecut predict --top-k 1'"));
            assert_eq!(predict, [train, "predict", "--top-k", "1"]);
        }
        let absent = format!("--sync-binary -- {root}/bin/edgecut serve-graph --verify");
        let error = format!("{:#}", plan("a", &absent).unwrap_err());
        assert!(error.contains(&format!("neither in {root}/lib/edgecut nor on PATH")), "{error}");
        assert_eq!(words("-- edgecut train node"), ["edgecut", "train", "node"]);
        assert_eq!(words("--sync-binary -- my-edgecut train"), ["my-edgecut", "train"]);
        assert_eq!(started("-- bin/edgecut predict --top-k 1").as_deref(), Some("train"));
        assert_eq!((started("-- train node"), started("-- edgecut --version")), (None, None));
    }

    #[test]
    fn the_command_may_be_one_of_the_shell_with_flags_of_the_tutorial() {
        let line = "--dataset_root_dir data/2-parts --batch_size 8 'cd /w; train node --logging'";
        let of_shell = plan("a", line).unwrap();
        let command = "cd /w; train node --logging '--dataset-root-dir=data/2-parts' '--batch-size=8'";
        assert_eq!(
            (of_shell.program.name.as_str(), &of_shell.args[..]),
            ("bash", &["-c".to_owned(), command.into()][..])
        );
        // Typed fan-outs have a semicolon of their own, and operators in quotes are none.
        for line in ["'train node --num-neighbors e1=15,10;5,5'", "\"train node --num-neighbors 'e1=15,10;5,5 & x'\""] {
            assert_eq!(plan("a", line).unwrap().program.name, "train");
        }
        // The folder is relative to one that only the shell knows.
        assert_eq!(of_shell.dataset_dir, None);
        let plain = plan("a", "--dataset_root_dir data/2-parts 'train node --lr 1'").unwrap();
        assert_eq!(plain.args, ["node", "--lr", "1", "--dataset-root-dir=data/2-parts"]);
        assert_eq!(plain.dataset_dir.as_deref(), Some("data/2-parts"));
    }

    #[test]
    fn servers_and_trainers_are_started_apart_and_both_know_the_servers() {
        let config = "server_port: 7000\nhosts:\n- {address: s, role: server, processes: 2}\n\
                      - {address: t, role: server, listen_addr: 10.0.0.2}\n- {address: u, role: trainer, processes: 3}";
        let servers = "s:7000,s:7001,10.0.0.2:7000";
        let secret = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(secret.path(), "a secret of the tests").unwrap();
        let token = format!("--token-file {}", secret.path().display());
        let of_servers = plan(config, &format!("--role server {token} -- prog")).unwrap();
        assert_eq!((of_servers.world_size, of_servers.master_addr.as_str()), (3, "s"));
        assert_eq!(of_servers.env(1)["EDGECUT_SERVERS"], servers);
        assert!(of_servers.check(0).master.is_none());
        let of_trainers = plan(config, &format!("--role trainer {token} --num-training-procs 2 -- prog")).unwrap();
        assert!(of_trainers.check(0).master.is_some());
        assert_eq!(of_servers.token().unwrap().to_env_value(), of_trainers.token().unwrap().to_env_value());
        assert_eq!((of_trainers.world_size, of_trainers.master_addr.as_str()), (2, "u"));
        assert_eq!(of_trainers.env(0)["EDGECUT_SERVERS"], servers);
        let refused = |flags: &str| format!("{:#}", plan(config, flags).unwrap_err());
        assert!(refused("-- prog").contains("choose one with --role"));
        assert!(refused("--role server -- prog").contains("--role needs --token-file"));
        assert!(refused(&format!("--role server {token} --num-training-procs 2 -- prog")).contains("as `processes`"));
        assert!(
            format!("{:#}", plan("a", &format!("--role server {token} -- prog")).unwrap_err())
                .contains("no node with the role")
        );
        assert!(!plan("a", "-- prog").unwrap().env(0).contains_key("EDGECUT_SERVERS"));
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        for (flags, expected) in [
            ("--num-nodes 3 -- prog", "names 2 nodes"),
            ("--extra-envs K -- prog", "NAME=VALUE"),
            ("--extra-envs EDGECUT_TOKEN=a-secret-of-mine -- prog", "give the secret of the job by --token-file"),
            ("'prog \"x'", "split the command"),
            ("--dryrun -- prog", "unexpected argument '--dryrun'"),
            ("--sync-binary 'cd x; prog'", "start the program itself"),
        ] {
            assert_has(format!("{:#}", plan("a\nb", flags).unwrap_err()), &[expected]);
        }
    }
}
