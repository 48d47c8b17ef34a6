//! The variables of Slurm's `srun`, set for the tasks of a step.

use super::env_ranks::EnvRanks;
use super::launcher::Launcher;
use super::node_list::{self, MAX_NODES};
use super::variables::{Variables, wrong};
use crate::error::ClusterError;

const RANK: &str = "SLURM_PROCID";
const NODES: &str = "SLURM_STEP_NODELIST";
const TASKS: &str = "SLURM_STEP_TASKS_PER_NODE";

pub(super) fn ranks(variables: &Variables<'_>) -> Result<Option<EnvRanks>, ClusterError> {
    // The shell of a batch script has a SLURM_PROCID too, but no node list of a step.
    let (Some(rank), Some(node_list)) = (variables.number(RANK)?, variables.text(NODES)?) else { return Ok(None) };
    let world_size = match variables.number("SLURM_STEP_NUM_TASKS")? {
        Some(size) => size,
        None => variables.number_beside("SLURM_NTASKS", RANK)?,
    };
    if world_size == 1 {
        return Ok(None);
    }
    let local_rank = variables.number_beside("SLURM_LOCALID", RANK)?;
    let local_world_size = tasks_of_node(variables, rank, local_rank)?;
    let nodes = node_list::expand(&node_list).map_err(|why| wrong(NODES, format!("{node_list:?}: {why}")))?;
    let job = variables.number_beside("SLURM_JOB_ID", RANK)?;
    Ok(Some(EnvRanks {
        launcher: Some(Launcher::Slurm),
        rank: Some(rank),
        world_size: Some(world_size),
        local_rank: Some(local_rank),
        local_world_size: Some(local_world_size),
        // On one node, loopback always works. The node's name may resolve to an address of another network.
        master_addr: if world_size == local_world_size { Some("127.0.0.1".into()) } else { nodes.into_iter().next() },
        // The port depends on the job, so that jobs on one node differ: 10000 plus the last four digits of the job's
        // number, as in PyG's tutorial.
        master_port: u16::try_from(10_000 + job % 10_000).ok(),
        cores: variables.number("SLURM_CPUS_PER_TASK")?,
        // The steps of one job have the same port.
        launcher_job: step_name(variables)?,
        ..EnvRanks::default()
    }))
}

/// Returns the number of tasks on this task's node.
///
/// # Errors
/// Missing or invalid variables, or tasks of a node that are not contiguous.
fn tasks_of_node(variables: &Variables<'_>, rank: usize, local_rank: usize) -> Result<usize, ClusterError> {
    let node = variables.number_beside("SLURM_NODEID", RANK)?;
    let text = variables.text(TASKS)?.ok_or_else(|| wrong(TASKS, format!("it is not set, but {RANK} is")))?;
    let tasks =
        tasks_per_node(&text).ok_or_else(|| wrong(TASKS, format!("{text:?} is not a list like \"2(x3),1\"")))?;
    let Some(&here) = tasks.get(node) else {
        return Err(wrong(TASKS, format!("{text:?} has {} nodes, but SLURM_NODEID is {node}", tasks.len())));
    };
    let first: usize = tasks[..node].iter().sum();
    if first + local_rank != rank {
        let why = format!(
            "task {rank} has SLURM_LOCALID {local_rank} on node {node}, but consecutive tasks per node would put task \
             {} there: start the step with srun --distribution=block",
            first + local_rank
        );
        return Err(wrong(RANK, why));
    }
    Ok(here)
}

/// Parses the tasks of each node: `2(x3),1` is two tasks on each of the first three nodes and one on the fourth.
fn tasks_per_node(text: &str) -> Option<Vec<usize>> {
    let mut tasks = Vec::new();
    for entry in text.split(',') {
        let (count, nodes) = match entry.split_once("(x") {
            Some((count, nodes)) => (count, nodes.strip_suffix(')')?.parse().ok()?),
            None => (entry, 1),
        };
        // A node cannot have more tasks than process ids. With 32 bits, the sum over all nodes cannot overflow.
        let count: u32 = count.parse().ok()?;
        if nodes > MAX_NODES - tasks.len() {
            return None;
        }
        tasks.resize(tasks.len() + nodes, count as usize);
    }
    Some(tasks)
}

/// Returns the identity of a Slurm step. A requeued job keeps its number and counts its steps from 0 again, so the
/// identity stays the same.
pub(super) fn step_name(variables: &Variables<'_>) -> Result<Option<String>, ClusterError> {
    let Some(job) = variables.text("SLURM_JOB_ID")? else { return Ok(None) };
    let step = variables.text("SLURM_STEP_ID")?.unwrap_or_default();
    Ok(Some(format!("slurm-{job}.{step}")))
}

#[cfg(test)]
mod tests {
    use super::tasks_per_node;
    use crate::EnvRanks;
    use crate::env::Launcher;
    use crate::env::tests::{error, read};

    /// Task 6 of 7 on the last of four nodes.
    const STEP: [(&str, &str); 8] = [
        ("SLURM_JOB_ID", "20123"),
        ("SLURM_STEP_NODELIST", "gpu-[09-11],solo"),
        ("SLURM_STEP_TASKS_PER_NODE", "2(x3),1"),
        ("SLURM_PROCID", "6"),
        ("SLURM_NTASKS", "7"),
        ("SLURM_LOCALID", "0"),
        ("SLURM_NODEID", "3"),
        ("SLURM_CPUS_PER_TASK", "8"),
    ];

    fn with(changes: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
        let kept = STEP.into_iter().filter(|(name, _)| !changes.iter().any(|(changed, _)| changed == name));
        kept.chain(changes.iter().copied().filter(|(_, value)| *value != "unset")).collect()
    }

    #[test]
    fn reads_what_srun_sets() {
        let ranks = EnvRanks {
            launcher: Some(Launcher::Slurm),
            master_addr: Some("gpu-09".into()),
            master_port: Some(10_123),
            unread: None,
            rank: Some(6),
            world_size: Some(7),
            local_rank: Some(0),
            local_world_size: Some(1),
            cores: Some(8),
            listen_addr: None,
            job: None,
            launcher_job: Some("slurm-20123.".into()),
            attempt: None,
        };
        assert_eq!(read(&STEP).unwrap(), ranks);
        let smaller = with(&[("SLURM_STEP_NUM_TASKS", "7"), ("SLURM_NTASKS", "100")]);
        assert_eq!(read(&smaller).unwrap(), ranks, "a step's tasks, not the allocation's");
        let second = with(&[("SLURM_PROCID", "3"), ("SLURM_LOCALID", "1"), ("SLURM_NODEID", "1")]);
        assert_eq!(read(&second).unwrap().local_world_size, Some(2));
    }

    #[test]
    fn tasks_of_one_node_meet_on_it() {
        let ranks = read(&with(&[
            ("SLURM_STEP_NODELIST", "solo"),
            ("SLURM_STEP_TASKS_PER_NODE", "7"),
            ("SLURM_LOCALID", "6"),
            ("SLURM_NODEID", "0"),
        ]));
        assert_eq!(ranks.unwrap().master_addr.as_deref(), Some("127.0.0.1"));
    }

    #[test]
    fn the_shell_of_a_batch_script_and_a_lone_task_are_no_place() {
        assert_eq!(read(&with(&[("SLURM_STEP_NODELIST", "unset")])).unwrap(), EnvRanks::default());
        let lone = with(&[("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_NODEID", "0")]);
        assert_eq!(read(&lone).unwrap(), EnvRanks::default());
    }

    #[test]
    fn tasks_in_turn_over_the_nodes_are_refused() {
        // srun --distribution=cyclic on two nodes: tasks 0 and 2 on the first, 1 and 3 on the second.
        for (rank, node, local) in [("1", "1", "0"), ("2", "0", "1")] {
            let set = with(&[
                ("SLURM_STEP_NODELIST", "n[1-2]"),
                ("SLURM_STEP_TASKS_PER_NODE", "2(x2)"),
                ("SLURM_NTASKS", "4"),
                ("SLURM_PROCID", rank),
                ("SLURM_NODEID", node),
                ("SLURM_LOCALID", local),
            ]);
            assert!(error(&set, "SLURM_PROCID", rank).contains("--distribution=block"));
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for variable in ["SLURM_LOCALID", "SLURM_NODEID", "SLURM_JOB_ID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS"] {
            error(&with(&[(variable, "unset")]), variable, "SLURM_PROCID");
        }
        for (variable, value) in [
            ("SLURM_PROCID", "-1"),
            ("SLURM_STEP_NODELIST", "n[1-"),
            ("SLURM_STEP_TASKS_PER_NODE", "2(x3"),
            ("SLURM_STEP_TASKS_PER_NODE", "2(x3)"),
            ("SLURM_JOB_ID", "j7"),
        ] {
            error(&with(&[(variable, value)]), variable, value);
        }
    }

    #[test]
    fn tasks_per_node_are_written_in_runs() {
        assert_eq!(tasks_per_node("2(x3),1").unwrap(), [2, 2, 2, 1]);
        assert_eq!(tasks_per_node("4").unwrap(), [4]);
        for wrong in ["", "2,", "x", "2(x)", "2(3)", "2(x70000)", "1(x99999999999999999999)", "2(x65536),1", "-1"] {
            assert_eq!(tasks_per_node(wrong), None, "{wrong}");
        }
    }
}
