//! Hosts on this machine: network namespaces that are connected by a switch in this program.

use crate::programs::run;
use crate::switch::Switch;
use anyhow::Context;
use std::path::Path;
use std::process::Command;
use tun_rs::{DeviceBuilder, Layer};

/// The first three bytes of the addresses of hosts.
const SUBNET: &str = "10.97.0";

/// Hosts with an address each. They are removed when the value is dropped.
pub(crate) struct Hosts {
    names: Vec<String>,
    pub(crate) switch: Switch,
}

impl Hosts {
    /// Makes `count` hosts.
    ///
    /// # Errors
    /// Namespaces or network devices cannot be made, for example because this is not root.
    pub(crate) fn new(count: usize) -> anyhow::Result<Self> {
        let own = std::process::id();
        let mut names = Vec::new();
        let mut devices = Vec::new();
        for host in 0..count {
            let name = format!("ecc{own}h{host}");
            let device = format!("ecc{own}t{host}");
            let built = DeviceBuilder::new().name(&device).layer(Layer::L2).build_sync();
            devices.push(built.with_context(|| format!("make the network device {device}; this needs root"))?);
            ip(&["netns", "add", &name])?;
            names.push(name.clone());
            ip(&["link", "set", &device, "netns", &name])?;
            let mac = format!("02:00:00:00:02:{host:02x}");
            ip(&["-n", &name, "link", "set", &device, "name", "eth0", "address", &mac])?;
            ip(&["-n", &name, "addr", "add", &format!("{}/24", address(host)), "dev", "eth0"])?;
            ip(&["-n", &name, "link", "set", "eth0", "up"])?;
            ip(&["-n", &name, "link", "set", "lo", "up"])?;
        }
        Ok(Self { names, switch: Switch::start(devices) })
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns a command that runs a program on a host.
    pub(crate) fn command(&self, host: usize, program: &Path) -> Command {
        let mut command = Command::new("ip");
        // `ip` becomes the program, so that the id of the child is the program's.
        command.args(["netns", "exec", &self.names[host]]).arg(program);
        command
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = ip(&["netns", "del", name]);
        }
    }
}

/// Returns the address of a host.
pub(crate) fn address(host: usize) -> String {
    format!("{SUBNET}.{}", host + 1)
}

fn ip(args: &[&str]) -> anyhow::Result<String> {
    run(Command::new("ip").args(args))
}
