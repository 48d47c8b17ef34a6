//! A job whose ranks all run in one process.

use std::net::{Ipv4Addr, TcpListener};

use crate::cluster::Cluster;
use crate::config::ClusterConfig;
use crate::error::{ClusterError, system};

impl Cluster {
    /// Joins all ranks of a job in one process, over loopback, and returns them in rank order. For tests and examples.
    ///
    /// `adjust` may change the configuration of each rank before it joins. All ranks count as processes of one node.
    ///
    /// # Errors
    /// As [`Cluster::join`]. If several ranks fail, the error of the lowest one is returned.
    pub fn join_local(
        world_size: usize,
        adjust: impl Fn(&mut ClusterConfig) + Sync,
    ) -> Result<Vec<Self>, ClusterError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(system("listen on a free loopback port"))?;
        let port = listener.local_addr().map_err(system("ask for the port"))?.port();
        let config = |rank| {
            let mut config = ClusterConfig::new(rank, world_size, "127.0.0.1", port);
            config.local_rank = rank;
            config.local_world_size = world_size;
            adjust(&mut config);
            config
        };
        std::thread::scope(|scope| {
            let config = &config;
            let members: Vec<_> = (1..world_size).map(|rank| scope.spawn(move || Self::join(config(rank)))).collect();
            let master = Self::join_on(listener, config(0));
            let joined = members.into_iter().map(|member| {
                member.join().unwrap_or_else(|_| Err(ClusterError::Rendezvous("a joining thread panicked".to_owned())))
            });
            std::iter::once(master).chain(joined).collect::<Vec<_>>().into_iter().collect()
        })
    }
}
