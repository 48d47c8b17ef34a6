//! Tests of sampling over several parts.

mod connecting;
mod edge_lookups;
mod hostile_deadlines;
mod protection;
#[path = "../../cluster/tests/support/proxy.rs"]
mod proxy;
mod support;
mod two_parts;
mod waiting_requests;
