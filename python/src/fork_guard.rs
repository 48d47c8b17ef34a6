//! Protection from use in a forked process.
//!
//! A forked process has a copy of its parent's memory, but only the thread that called `fork`. A wait for any other
//! thread would never end. The module therefore works in the first process that uses it, and raises an error in the
//! processes that are forked from this one later. Each class of the module holds its state in a [`ForkGuard`], and
//! functions that make such state call [`enter`] first.

use crate::errors::EdgecutError;
use pyo3::prelude::*;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The id of the process that has started threads of this module, 0 before one does.
static USER: AtomicU32 = AtomicU32::new(0);

/// Registers this process as the one that uses the module.
///
/// # Errors
/// If the process was forked from one that has used the module.
pub(crate) fn enter() -> PyResult<()> {
    let own = process::id();
    match USER.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed) {
        Err(user) if user != own => Err(EdgecutError::new_err(
            "this process was forked from one that had used Edgecut, and a forked process does not have its threads: \
             start the process with the method \"spawn\" or \"forkserver\" (`multiprocessing_context=\"spawn\"` of a \
             DataLoader), fork before the first use of Edgecut, or load batches in the parent, where `num_workers` of \
             an Edgecut loader is a number of threads",
        )),
        _ => Ok(()),
    }
}

/// Returns whether this process was forked from one that has used the module.
pub(crate) fn is_forked() -> bool {
    let user = USER.load(Ordering::Relaxed);
    user != 0 && user != process::id()
}

/// A value that depends on threads or connections of the process that made it. A forked process can neither reach its
/// copy of the value nor drop it.
pub(crate) struct ForkGuard<T>(Arc<T>);

impl<T> ForkGuard<T> {
    /// Guards a value that this process has made after [`enter`].
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(value))
    }

    /// Returns the value.
    ///
    /// # Errors
    /// In a forked process.
    pub(crate) fn get(&self) -> PyResult<&Arc<T>> {
        enter()?;
        Ok(&self.0)
    }
}

impl<T> Drop for ForkGuard<T> {
    fn drop(&mut self) {
        if is_forked() {
            // Dropping the copy would wait for threads that do not exist, or delete files that the parent uses.
            std::mem::forget(self.0.clone());
        }
    }
}
