// The loader of the examples in the documentation, which include this file as an expression: batches of 32 edges of a
// graph of one part, each with two negatives.
{
    let graph = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../dist-sampler/tests/support/example_node.rs"));
    let mut world = graph.cluster().world()?;
    let fanouts = vec![edgecut_dist_sampler::Fanout::Count(5)];
    let config = edgecut_dist_sampler::SamplerConfig::new(fanouts);
    let sampler = std::sync::Arc::new(edgecut_dist_sampler::DistNeighborSampler::new(graph, config)?);
    let config = edgecut_dist_loader::LoaderConfig { shuffle: true, ..edgecut_dist_loader::LoaderConfig::new(32, edgecut_dist_sampler::NodeFields { features: true, ..Default::default() }) };
    let negatives = edgecut_dist_loader::NegativeSampling {
        num: 2,
        distribution: edgecut_dist_loader::NegativeDistribution::Uniform,
        exclude: edgecut_dist_loader::Exclude::Edges,
        shared: false,
    };
    let link = edgecut_dist_loader::LinkConfig { negatives, exclude_seed_edges: true, reverse_types: Vec::new(), weights: false, given_negatives: Default::default() };
    let seeds = edgecut_dist_loader::EdgeSeeds::Split(edgecut_graph::Split::Train, vec![edgecut_graph::EdgeTypeId(0)]);
    edgecut_dist_loader::DistLinkNeighborLoader::new(sampler, seeds, config, link, &mut world)?
}
