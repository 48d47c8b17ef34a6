//! Texts that users and launchers write, and targets that break the rules.

use super::corpus;
use crate::sample::Sample;
use crate::target::{Input, MemoryBound, Outcome, Target};
use anyhow::bail;
use edgecut_cluster::{IpConfig, fuzzing};

/// `ip_config.yaml` in both forms.
pub(super) struct IpConfigs;

impl Target for IpConfigs {
    fn samples(&mut self) -> anyhow::Result<Vec<Sample>> {
        corpus("ip-config")
    }

    fn memory_bound(&self) -> MemoryBound {
        // The parser of YAML keeps buffers of a fixed size, and events of each token.
        MemoryBound { fixed: 1 << 20, per_byte: 2048 }
    }

    fn read(&mut self, input: &Input<'_>) -> Outcome {
        let text = String::from_utf8_lossy(input.bytes());
        let config = IpConfig::parse(&text, "ip_config.yaml");
        match &config {
            Ok(config) => {
                assert!(!config.nodes().is_empty(), "a configuration without nodes");
                config.servers();
            }
            Err(error) => assert!(error.to_string().contains("ip_config.yaml"), "{error} names no file"),
        }
        Outcome::from(&config)
    }
}

/// Slurm's lists of nodes.
pub(super) struct NodeLists;

impl Target for NodeLists {
    fn samples(&mut self) -> anyhow::Result<Vec<Sample>> {
        corpus("node-list")
    }

    fn memory_bound(&self) -> MemoryBound {
        // A list may stand for 65536 names, each as long as the text.
        MemoryBound { fixed: 16 << 20, per_byte: 3 * 65_536 }
    }

    fn read(&mut self, input: &Input<'_>) -> Outcome {
        Outcome::from(&fuzzing::node_list(&String::from_utf8_lossy(input.bytes())))
    }
}

/// A target that breaks a rule, to test that the rules are watched.
enum Planted {
    Panic,
    PanicOfThread,
    Memory,
    Refusal,
}

/// Makes a target that breaks a rule for every input that begins with the letter B or later.
pub(super) fn planted(name: &str) -> anyhow::Result<Box<dyn Target>> {
    Ok(Box::new(match name {
        "planted-panic" => Planted::Panic,
        "planted-panic-of-thread" => Planted::PanicOfThread,
        "planted-memory" => Planted::Memory,
        "planted-refusal" => Planted::Refusal,
        _ => bail!("there is no target {name}"),
    }))
}

impl Target for Planted {
    fn samples(&mut self) -> anyhow::Result<Vec<Sample>> {
        Ok(vec![Sample::of_bytes("A text")])
    }

    fn read(&mut self, input: &Input<'_>) -> Outcome {
        let breaks = input.bytes().first() > Some(&b'A');
        match self {
            Self::Refusal => return Outcome::Rejected,
            Self::Panic if breaks => panic!("a planted panic"),
            Self::PanicOfThread if breaks => drop(std::thread::spawn(|| panic!("a planted panic")).join()),
            Self::Memory if breaks => drop(std::hint::black_box(vec![1_u8; 1 << 20])),
            _ => {}
        }
        Outcome::Accepted
    }
}
