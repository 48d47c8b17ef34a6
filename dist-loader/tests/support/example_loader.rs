// The loader of the examples in the documentation, which include this file as an expression: batches of 16 of the 100
// nodes of a graph of one part, not shuffled, with labels and features.
{
    let graph = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../dist-sampler/tests/support/example_node.rs"));
    let mut world = graph.cluster().world()?;
    let fanouts = vec![edgecut_dist_sampler::Fanout::Count(5)];
    let config = edgecut_dist_sampler::SamplerConfig::new(fanouts);
    let sampler = std::sync::Arc::new(edgecut_dist_sampler::DistNeighborSampler::new(graph, config)?);
    let config = edgecut_dist_loader::LoaderConfig::new(16, edgecut_dist_sampler::NodeFields { features: true, labels: true, ..Default::default() });
    let seeds = edgecut_dist_loader::Seeds::Owned;
    edgecut_dist_loader::DistNeighborLoader::new(sampler, edgecut_graph::NodeTypeId(0), seeds, config, &mut world)?
}
