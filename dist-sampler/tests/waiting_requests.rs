//! Tests that waiting requests, pulls of an embedding before its owner has taken a step, do not delay other requests.

use crate::support;

use edgecut_dist_sampler::{
    BatchKey, DistEmbedding, DistGraph, DistGraphConfig, DistNeighborSampler, EmbeddingConfig, Fanout, NodeFields,
    SampleError, SampleSeeds, SamplerConfig, SparseAdam,
};
use edgecut_testing::assert_has;
use futures::future::{join_all, select};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use support::{DIM, NODES, dataset, join, nodes_of, parts_of, shut_down, start};

const NUM_WAITING: usize = 64;
/// The longest time that any operation here may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Two ranks with an embedding. Rank 1 is one step ahead of rank 0, which owns the other part.
struct Job {
    _dir: tempfile::TempDir,
    ranks: Vec<edgecut_cluster::Cluster>,
    nodes: Vec<Arc<DistGraph>>,
    embeddings: Vec<DistEmbedding>,
}

impl Job {
    fn start(config: &DistGraphConfig) -> Self {
        let dir = parts_of(&dataset(600, None), 2);
        let ranks = join(dir.path(), |_| ());
        let nodes: Vec<_> = ranks.iter().map(|cluster| start(dir.path(), cluster, config)).collect();
        let embedding = |graph: &Arc<DistGraph>| {
            let config = EmbeddingConfig { dim: 4, seed: 1, scale: 1.0 };
            DistEmbedding::new(graph.clone(), NODES, config).expect("an embedding")
        };
        let mut embeddings: Vec<_> = nodes.iter().map(embedding).collect();
        embeddings[1].step(&SparseAdam::new(0.1), 1.0);
        Self { _dir: dir, ranks, nodes, embeddings }
    }

    fn end(self) {
        drop((self.embeddings, self.nodes));
        shut_down(self.ranks);
    }
}

/// Samples on `node` around seeds of part 0, and fetches the features of the sampled nodes.
async fn sample_and_fetch(graph: &Arc<DistGraph>, batch: u64) -> Result<(), SampleError> {
    let seeds = nodes_of(graph, 0)[..50].to_vec();
    let fanouts = vec![Fanout::Count(3), Fanout::Count(2)];
    let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), SamplerConfig::new(fanouts))?);
    let seeds = SampleSeeds { nodes: vec![seeds], ..SampleSeeds::default() };
    let sampled = sampler.sample(seeds, BatchKey { seed: 1, epoch: 0, batch }).await?;
    let ids = sampled.nodes[0].ids.clone();
    let wanted = NodeFields::FEATURES;
    let fetched = graph.fetch(NODES, ids.clone(), wanted).await?;
    assert_eq!(fetched.features.len(), ids.len() * DIM);
    Ok(())
}

#[test]
fn sixty_four_waiting_pulls_let_hops_features_and_their_own_release_through() {
    let mut job = Job::start(&DistGraphConfig::default());
    let graph = job.nodes[1].clone();
    let rows = nodes_of(&graph, 0);
    let [owner, waiting] = &mut job.embeddings[..] else { panic!("two ranks") };
    let waiting = &*waiting;
    graph.handle().clone().block_on(async {
        let pulls = pin!(join_all((0..NUM_WAITING).map(|i| waiting.pull(&rows[i..=i]))));
        let others = pin!(async {
            for batch in 0..20 {
                sample_and_fetch(&graph, batch).await.expect("hops and features are not held up");
            }
        });
        let served = tokio::time::timeout(PATIENCE, select(pulls, others)).await.expect("nothing freezes");
        let futures::future::Either::Right(((), pulls)) = served else { panic!("the owner has not stepped") };
        // A push for the step that the pulls wait for uses the same connection.
        let gradients = [1.0; 4];
        let pushed = tokio::time::timeout(PATIENCE, waiting.push(&rows[..1], &gradients)).await;
        pushed.expect("the push is not held up").expect("one step ahead is allowed");
        owner.step(&SparseAdam::new(0.1), 1.0);
        let pulled = tokio::time::timeout(PATIENCE, pulls).await.expect("the step releases the pulls");
        for values in pulled {
            assert_eq!(values.expect("rows").len(), 4);
        }
    });
    drop(graph);
    job.end();
}

#[test]
fn expired_deadlines_free_the_connection() {
    let config = DistGraphConfig { rpc_timeout_ms: 300, ..DistGraphConfig::default() };
    let job = Job::start(&config);
    let graph = job.nodes[1].clone();
    let rows = nodes_of(&graph, 0);
    let waiting = &job.embeddings[1];
    graph.handle().clone().block_on(async {
        graph.wait_until_connected().await.expect("the peer is there");
        let mut failed = 0;
        for _ in 0..3 {
            let pulls = join_all((0..NUM_WAITING).map(|i| waiting.pull(&rows[i..=i])));
            let pulls = tokio::time::timeout(PATIENCE, pulls).await.expect("deadlines are noticed");
            for pulled in pulls {
                assert_has(pulled.expect_err("the owner never steps").to_string(), &["no reply within 300 ms"]);
                failed += 1;
            }
        }
        assert_eq!(failed, 3 * NUM_WAITING);
        // On a busy machine one reply may exceed this deadline, but not each of many.
        let mut batch = 0;
        while let Err(error) = sample_and_fetch(&graph, batch).await {
            assert!(error.to_string().contains("no reply within"), "{error}");
            assert!(batch < 100, "the connection is still frozen: {error}");
            batch += 1;
        }
    });
    drop(graph);
    job.end();
}

#[test]
fn requests_beyond_the_hard_bound_are_refused_and_named() {
    let config = DistGraphConfig { max_waiting_requests: 8, rpc_timeout_ms: 20_000, ..DistGraphConfig::default() };
    let mut job = Job::start(&config);
    let graph = job.nodes[1].clone();
    let rows = nodes_of(&graph, 0);
    let [owner, waiting] = &mut job.embeddings[..] else { panic!("two ranks") };
    let waiting = &*waiting;
    graph.handle().clone().block_on(async {
        let (send, mut refused) = tokio::sync::mpsc::unbounded_channel();
        let pull = |i: usize| {
            let send = send.clone();
            let rows = &rows;
            async move {
                let pulled = waiting.pull(&rows[i..=i]).await;
                if let Err(error) = &pulled {
                    assert!(error.to_string().contains("busy: "), "{error}");
                    send.send(()).expect("the test waits");
                }
                pulled.is_ok()
            }
        };
        let pulls = join_all((0..NUM_WAITING).map(pull));
        // The owner takes its step after all excess requests have been refused.
        let step = async {
            for _ in 0..NUM_WAITING - 8 {
                refused.recv().await.expect("a refusal");
            }
            owner.step(&SparseAdam::new(0.1), 1.0);
        };
        let both = futures::future::join(pulls, step);
        let (pulled, ()) = tokio::time::timeout(PATIENCE, both).await.expect("nothing freezes");
        assert_eq!(pulled.into_iter().filter(|&answered| answered).count(), 8);
        sample_and_fetch(&graph, 0).await.expect("the connection still works");
    });
    drop(graph);
    job.end();
}

#[test]
fn gradients_for_a_step_that_the_protocol_does_not_allow_are_refused() {
    let mut job = Job::start(&DistGraphConfig::default());
    let graph = job.nodes[1].clone();
    let rows = nodes_of(&graph, 0);
    // Rank 1 is already one step ahead of the owner, the most that a collective allows.
    job.embeddings[1].step(&SparseAdam::new(0.1), 1.0);
    let pushed = graph.handle().block_on(job.embeddings[1].push(&rows[..1], &[1.0; 4]));
    let error = pushed.expect_err("two steps ahead").to_string();
    assert!(error.contains("gradients for step 3 of an embedding that has made 0 steps"), "{error}");
    drop(graph);
    job.end();
}
