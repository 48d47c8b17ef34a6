//! The addresses of this machine's network interfaces.

use crate::env::variables::wrong;
use crate::error::ClusterError;
use std::io;
use std::net::IpAddr;

/// Returns the addresses of this machine, each with the name of its network interface.
///
/// # Errors
/// An error of the system.
pub fn node_addresses() -> io::Result<Vec<(String, IpAddr)>> {
    let mut addresses = Vec::new();
    for interface in nix::ifaddrs::getifaddrs()? {
        let Some(storage) = interface.address else { continue };
        if let Some(v4) = storage.as_sockaddr_in() {
            addresses.push((interface.interface_name, IpAddr::V4(v4.ip())));
        } else if let Some(v6) = storage.as_sockaddr_in6() {
            addresses.push((interface.interface_name, IpAddr::V6(v6.ip())));
        }
    }
    Ok(addresses)
}

/// Returns the address of an interface among those of [`node_addresses`]. IPv4 comes before IPv6.
pub fn address_of_interface(addresses: &[(String, IpAddr)], name: &str) -> Option<IpAddr> {
    let of_name = addresses.iter().filter(|(found, _)| found == name).map(|(_, address)| *address);
    of_name.clone().find(IpAddr::is_ipv4).or_else(|| of_name.clone().next())
}

/// Returns the address of the interface that `GLOO_SOCKET_IFNAME` names. Of several names the first counts.
pub(super) fn of_variable(variable: &str, value: &str) -> Result<IpAddr, ClusterError> {
    let name = value.split(',').next().unwrap_or_default().trim();
    let addresses = node_addresses().map_err(|error| wrong(variable, format!("list the interfaces: {error}")))?;
    address_of_interface(&addresses, name).ok_or_else(|| {
        let names: Vec<&str> = addresses.iter().map(|(name, _)| name.as_str()).collect();
        wrong(variable, format!("there is no interface {name:?} with an address; there are {}", names.join(", ")))
    })
}
