// The node of the examples in the documentation, which include this file as an expression. It holds the only part of a
// graph of 100 nodes with weights, times and features.
{
    let cluster = edgecut_cluster::Cluster::join_local(1, |_| {})?.remove(0);
    let options = edgecut_graph::readers::FakeOptions {
        avg_num_nodes: 100,
        edge_attributes: true,
        ..Default::default()
    };
    let part = edgecut_dist_sampler::share_dataset(&cluster, || edgecut_graph::readers::fake(&options))?;
    let config = edgecut_dist_sampler::DistGraphConfig::default();
    edgecut_dist_sampler::DistGraph::start(std::sync::Arc::new(part), cluster, config)?
}
