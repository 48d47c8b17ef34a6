//! Median time of an all-reduce over loopback: `all_reduce_speed [ranks] [megabytes]`.

use std::time::Instant;

use edgecut_cluster::{Cluster, ClusterError, ReduceOp};

fn main() -> Result<(), ClusterError> {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse::<usize>().ok());
    let (ranks, megabytes) = (arguments.next().unwrap_or(2), arguments.next().unwrap_or(10));
    let workers: Vec<_> = Cluster::join_local(ranks, |_| {})?
        .into_iter()
        .map(|cluster| std::thread::spawn(move || measure(cluster, megabytes * 250_000)))
        .collect();
    for worker in workers {
        let outcome = worker.join().unwrap_or_else(|_| Err(ClusterError::Config("a rank panicked".to_owned())));
        outcome?;
    }
    Ok(())
}

fn measure(cluster: Cluster, len: usize) -> Result<(), ClusterError> {
    let mut world = cluster.world()?;
    let mut gradients = vec![1.0_f32; len];
    let mut times = Vec::new();
    for _ in 0..15 {
        world.barrier()?;
        let start = Instant::now();
        world.all_reduce(&mut gradients, ReduceOp::Mean)?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    if cluster.rank() == 0 {
        println!("{} ranks, {len} f32: {:?}", cluster.world_size(), times[times.len() / 2]);
    }
    cluster.shutdown()
}
