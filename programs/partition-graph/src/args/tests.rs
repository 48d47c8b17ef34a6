use super::*;
use edgecut_graph::readers::FakeOptions;

/// Parses a command line, whose words have spaces between them.
fn parsed(words: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(format!("partition-graph {words}").split(' '))
}

fn job(words: &str) -> Job {
    parsed(words).unwrap().partition.job().unwrap()
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn the_spelling_of_pyg_means_the_same() {
    let ours = job("--dataset cora --root-dir x --num-partitions 4 --recursive");
    let pyg = job("--dataset=cora --root_dir x --num_partitions=4 --recursive");
    assert_eq!((&ours.options, &ours.out_dir), (&pyg.options, &pyg.out_dir));
    assert_eq!(ours.out_dir, PathBuf::from("x/partitions/cora/4-parts"));
    assert_eq!(ours.options.method, Method::Metis { recursive: true });
}

#[test]
fn every_option_with_a_hyphen_has_an_underscored_alias() {
    for argument in Cli::command().get_arguments() {
        let Some(long) = argument.get_long().filter(|long| long.contains('-')) else { continue };
        let aliases = argument.get_all_aliases().unwrap_or_default();
        assert!(aliases.contains(&long.replace('-', "_").as_str()), "{long} has {aliases:?}");
    }
}

#[test]
fn defaults_are_those_of_the_library() {
    let job = job("--dataset fake --num-partitions 2");
    assert_eq!(job.options, PartitionOptions::new(2));
    assert_eq!(job.source.fake, FakeOptions::default());
}

#[test]
fn reversing_edges_is_done_and_noted() {
    let job = job("--dataset cora --num-partitions 2 --to_undirected");
    assert!(job.source.to_undirected && job.options.to_undirected);
}

#[test]
fn edges_are_held_out_by_the_seed_of_all_choices() {
    let latest = job("--dataset cora --num-partitions 2 --hold-out-edges latest:0.05,0.1");
    let job = job("--dataset cora --num-partitions 2 --seed 3 --hold_out_edges 0.05,0.1");
    let expected = HoldOut::random(0.05, 0.1, 3);
    assert_eq!((job.source.hold_out_edges, job.options.hold_out_edges), (Some(expected), Some(expected)));
    assert_eq!(latest.source.hold_out_edges, Some(HoldOut::latest(0.05, 0.1, 0)));
    assert_eq!(hold_out("0.05, 0.1"), Ok(HoldOut::random(0.05, 0.1, 0)));
}

#[test]
fn lists_are_split_and_checked() {
    let job = job("--dataset fake --num-partitions 2 --balance train,nodes --reverse-types writes=written_by,a=b");
    let pairs = [("writes", "written_by"), ("a", "b")].map(|(one, other)| (one.to_owned(), other.to_owned()));
    assert_eq!(job.source.reverse_types, pairs);
    assert_eq!(job.options.balance, [Balance::Train, Balance::Nodes]);
    for (flag, wrong) in [
        ("balance", &["time"][..]),
        ("reverse-types", &["writes"]),
        (
            "hold-out-edges",
            &["0.1", "0.1,x", "0.1,0.2,0.3", "latest:0.1", "first:0.1,0.1", "0.5,0.5", "-0.1,0.2", "0,0", "nan,0.1"],
        ),
    ] {
        for wrong in wrong {
            let words = format!("--dataset fake --num-partitions 2 --{flag}={wrong}");
            assert!(parsed(&words).is_err(), "{words}");
        }
    }
}
