//! Parallel work on many nodes.

use anyhow::anyhow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The maximum number of concurrent connections. SSH servers and jump hosts reject more that have not logged in yet.
const MAX_AT_ONCE: usize = 8;

/// Calls `work` for each node in parallel, and returns the results in the order of `nodes`. A panic becomes an error.
pub(crate) fn for_each_node<T: Send>(
    nodes: &[usize],
    work: impl Fn(usize) -> anyhow::Result<T> + Sync,
) -> Vec<anyhow::Result<T>> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<anyhow::Result<T>>> = nodes.iter().map(|_| Mutex::new(Err(panicked()))).collect();
    std::thread::scope(|scope| {
        for _ in 0..nodes.len().min(MAX_AT_ONCE) {
            scope.spawn(|| {
                loop {
                    let position = next.fetch_add(1, Ordering::SeqCst);
                    let Some(&node) = nodes.get(position) else { return };
                    let done = catch_unwind(AssertUnwindSafe(|| work(node))).unwrap_or_else(|_| Err(panicked()));
                    *results[position].lock().unwrap_or_else(PoisonError::into_inner) = done;
                }
            });
        }
    });
    results.into_iter().map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

fn panicked() -> anyhow::Error {
    anyhow!("the launcher's thread for it panicked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_its_result_in_its_place() {
        let nodes: Vec<usize> = (0..50).rev().collect();
        let done = for_each_node(&nodes, |node| if node == 7 { Err(anyhow!("seven")) } else { Ok(node * 2) });
        for (node, done) in nodes.iter().zip(done) {
            let done = done.map_err(|error| format!("{error:#}"));
            assert_eq!(done, if *node == 7 { Err("seven".to_owned()) } else { Ok(node * 2) });
        }
        assert!(for_each_node(&[], |_| Ok(())).is_empty());
        let done = for_each_node(&[1, 2], |node| if node == 1 { panic!("as a test") } else { Ok(()) });
        assert!(done[0].as_ref().is_err_and(|why| why.to_string().contains("panicked")) && done[1].is_ok());
    }
}
