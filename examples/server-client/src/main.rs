//! GraphSAGE trained by clients that hold no graph, on the graph of two servers, like GraphLearn-for-PyTorch's
//! server-client example.

use anyhow::Context;
use clap::{Parser, Subcommand};
use edgecut_cli::allocator::{MiMalloc, keep_memory};
use edgecut_cluster::{Cluster, ClusterConfig, ServiceConfig, ServiceListener, Token};
use edgecut_dist_sampler::{DistGraph, DistGraphConfig, Fanout, SamplerConfig, ServerList};
use edgecut_gnn::nn::Aggregation;
use edgecut_trainer::models::{ConvKind, SageSettings};
use edgecut_trainer::{
    Compiles, Cpu, EpochReport, FitConfig, NodePrediction, NodeTrainingConfig, Observer, SeedScores, TrainingConfig,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The longest wait of a client for the servers.
const PATIENCE: Duration = Duration::from_secs(60);

/// Trains GraphSAGE with servers that hold the graph, and clients that train.
#[derive(Parser)]
struct Args {
    /// All servers as HOST:PORT,HOST:PORT
    #[arg(long, default_value = "127.0.0.1:29600,127.0.0.1:29601", global = true)]
    servers: String,
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Holds a part of the graph and samples, until the process is ended.
    Server {
        /// The N-parts folder that partition-graph wrote
        #[arg(long)]
        parts: PathBuf,
        /// The number of this server
        #[arg(long)]
        server_rank: usize,
    },
    /// Trains, then ends. Start one process per client, with the variables of a launcher, or a single one without.
    Client {
        /// Number of epochs
        #[arg(long, default_value_t = 10)]
        num_epochs: u64,
    },
}

fn main() -> anyhow::Result<()> {
    keep_memory();
    let args = Args::parse();
    // Servers and clients on several machines need a secret, in EDGECUT_TOKEN.
    let servers = ServerList::parse(&args.servers, ServiceConfig::new(Token::from_env()?))?;
    match args.role {
        Role::Server { parts, server_rank } => serve(servers, &parts, server_rank),
        Role::Client { num_epochs } => {
            let cluster = Cluster::join(ClusterConfig::from_env()?)?;
            train(servers, &cluster, num_epochs).with_context(|| format!("client {}", cluster.rank()))?;
            Ok(cluster.shutdown()?)
        }
    }
}

/// Serves a part until the process is ended.
fn serve(servers: ServerList, parts: &Path, server: usize) -> anyhow::Result<()> {
    let address = servers.addresses().get(server).ok_or_else(|| anyhow::anyhow!("there is no server {server}"))?;
    let listener =
        ServiceListener::bind(address.default_listen_addr(servers.service()), address.port(), servers.service())?;
    let part = Arc::new(servers.open_part(parts, server, false)?.with_edges_in_memory());
    let _graph = DistGraph::serve(part, servers, server, listener, DistGraphConfig::default())?;
    println!("server {server} is ready");
    loop {
        std::thread::park();
    }
}

/// Trains as one of several clients.
fn train(servers: ServerList, cluster: &Cluster, num_epochs: u64) -> anyhow::Result<()> {
    let graph = DistGraph::connect(servers, cluster.clone(), DistGraphConfig::default(), PATIENCE)?;
    let mut world = cluster.world()?;
    let sampler = SamplerConfig::new([15, 10, 5].map(Fanout::Count).to_vec());
    let training = TrainingConfig {
        hidden_channels: 256,
        batch_size: 512,
        fit: FitConfig { num_epochs, ..FitConfig::default() },
        ..TrainingConfig::new(ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean }), sampler)
    };
    let config = NodeTrainingConfig { training, ..NodeTrainingConfig::default() };
    let mut report = Report { is_first: cluster.rank() == 0 };
    let fitted =
        <Cpu as Compiles<NodePrediction>>::train(&graph, &config, &mut world, &Default::default(), &mut report)?;
    if cluster.rank() == 0 {
        println!("test accuracy {:.4}", fitted.result.test_acc.unwrap_or_default());
    }
    Ok(())
}

/// The reports of epochs, which the first client prints.
struct Report {
    is_first: bool,
}

impl Observer<SeedScores> for Report {
    fn epoch(&mut self, report: &EpochReport<SeedScores>) -> std::io::Result<()> {
        if self.is_first {
            let loss = report.loss.unwrap_or_default();
            println!("epoch {:2}: loss {loss:.4}, {:.2} s", report.epoch, report.cost.seconds);
        }
        Ok(())
    }
}
