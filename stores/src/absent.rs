//! The interface without object stores, for builds that leave them out: no text is a URL.
#![allow(missing_docs, unused_variables, reason = "the module `stores` describes the interface")]

use std::fmt;
use std::path::{Path, PathBuf};

/// A value that cannot exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Never {}

/// The error of every URL.
#[derive(Debug)]
pub struct StoreError(());

impl StoreError {
    pub fn is_existing_object(&self) -> bool {
        true
    }

    pub fn left_output(&self) -> Option<&Path> {
        None
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this build has no object stores: build it with the feature `stores`, or give a local path")
    }
}

impl std::error::Error for StoreError {}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreUrl(Never);

impl StoreUrl {
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        Err(StoreError(()))
    }

    pub fn name(&self) -> &str {
        match self.0 {}
    }

    #[must_use]
    pub fn parent(&self) -> Self {
        match self.0 {}
    }

    pub fn join(&self, name: &str) -> Result<Self, StoreError> {
        match self.0 {}
    }

    pub fn has_key(&self) -> bool {
        match self.0 {}
    }

    pub fn with_ending(&self, ending: &str) -> Result<Self, StoreError> {
        match self.0 {}
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

#[derive(Clone, Debug)]
pub struct Snapshot(Never);

impl Snapshot {
    pub fn url(&self) -> &StoreUrl {
        match self.0 {}
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::empty()
    }

    pub fn has(&self, name: &str) -> bool {
        match self.0 {}
    }

    pub fn is_folder(&self) -> bool {
        match self.0 {}
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputRole {
    First,
    Continuing,
    Other,
}

#[derive(Debug, Default)]
pub struct CopiesInUse(());

pub struct Stores(Never);

impl Stores {
    pub fn new(cache_dir: Option<&Path>, say: fn(&str)) -> Result<Self, StoreError> {
        Err(StoreError(()))
    }

    #[must_use]
    pub fn on_node(self, node: Option<usize>) -> Self {
        match self.0 {}
    }

    #[must_use]
    pub fn of_run(self, run: Option<String>) -> Self {
        match self.0 {}
    }

    pub fn into_copies(self) -> CopiesInUse {
        match self.0 {}
    }

    pub fn folder(&mut self, url: &StoreUrl) -> Result<Snapshot, StoreError> {
        match self.0 {}
    }

    pub fn folder_if_any(&mut self, url: &StoreUrl) -> Result<Option<Snapshot>, StoreError> {
        match self.0 {}
    }

    pub fn file(&mut self, url: &StoreUrl, endings: &[&str]) -> Result<Snapshot, StoreError> {
        match self.0 {}
    }

    pub fn file_or_folder(&mut self, url: &StoreUrl) -> Result<Snapshot, StoreError> {
        match self.0 {}
    }

    pub fn has(&mut self, url: &StoreUrl) -> Result<bool, StoreError> {
        match self.0 {}
    }

    pub fn fetch(&mut self, snapshot: &Snapshot, is_wanted: impl Fn(&str) -> bool) -> Result<PathBuf, StoreError> {
        match self.0 {}
    }

    pub fn fetch_parts(
        &mut self,
        url: &StoreUrl,
        choose: impl FnOnce(usize) -> Vec<usize>,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<PathBuf, StoreError> {
        match self.0 {}
    }

    pub fn mirror(&mut self, url: &StoreUrl, role: OutputRole) -> Result<PathBuf, StoreError> {
        match self.0 {}
    }

    pub fn output(&mut self, url: &StoreUrl, role: OutputRole) -> Result<PathBuf, StoreError> {
        match self.0 {}
    }

    pub fn mark_complete(&self, url: &StoreUrl) -> Result<(), StoreError> {
        match self.0 {}
    }

    pub fn remove_output(&self, url: &StoreUrl) -> Result<(), StoreError> {
        match self.0 {}
    }

    pub fn are_complete_of_run(&self, url: &StoreUrl) -> bool {
        match self.0 {}
    }

    pub fn remove_uploaded(&self, url: &StoreUrl) -> Result<(), StoreError> {
        match self.0 {}
    }

    pub fn forget_uploaded(&self, url: &StoreUrl) -> Result<(), StoreError> {
        match self.0 {}
    }

    pub fn remove_if_output(&self, dir: &Path, url: &StoreUrl) -> Result<(), StoreError> {
        match self.0 {}
    }

    pub fn check_file(&mut self, url: &StoreUrl) -> Result<(), StoreError> {
        match self.0 {}
    }

    pub fn check_folder(&mut self, url: &StoreUrl) -> Result<(), StoreError> {
        match self.0 {}
    }

    pub fn upload_file(&mut self, path: &Path, url: &StoreUrl) -> Result<(), StoreError> {
        match self.0 {}
    }

    pub fn upload_folder(
        &mut self,
        dir: &Path,
        url: &StoreUrl,
        completing: Option<&str>,
        is_replaced: Option<&dyn Fn(&str) -> bool>,
    ) -> Result<(), StoreError> {
        match self.0 {}
    }

    pub fn remove(&mut self, url: &StoreUrl, names: &[String]) -> Result<(), StoreError> {
        match self.0 {}
    }
}
