//! The interface without object stores, for builds that leave them out: no text is a URL.
#![allow(missing_docs, unused_variables, reason = "the module `stores` describes the interface")]

use std::fmt;
use std::path::{Path, PathBuf};

/// A value that cannot exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Never {}

/// Defines functions of a type whose values cannot exist, with shared (`ref`) or exclusive (`mut`) access to the value.
macro_rules! uncallable {
    ($type:ty, ref: $($name:ident($self:ident $(, $arg:ident: $arg_type:ty)*) -> $result:ty;)+) => {
        impl $type {
            $(pub fn $name(&$self $(, $arg: $arg_type)*) -> $result {
                match $self.0 {}
            })+
        }
    };
    ($type:ty, mut: $($name:ident($self:ident $(, $arg:ident: $arg_type:ty)*) -> $result:ty;)+) => {
        impl $type {
            $(pub fn $name(&mut $self $(, $arg: $arg_type)*) -> $result {
                match $self.0 {}
            })+
        }
    };
}

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

    #[must_use]
    pub fn parent(&self) -> Self {
        match self.0 {}
    }
}

uncallable! {
    StoreUrl, ref:
    name(self) -> &str;
    join(self, name: &str) -> Result<Self, StoreError>;
    has_key(self) -> bool;
    with_ending(self, ending: &str) -> Result<Self, StoreError>;
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

#[derive(Clone, Debug)]
pub struct Snapshot(Never);

impl Snapshot {
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::empty()
    }
}

uncallable! {
    Snapshot, ref:
    url(self) -> &StoreUrl;
    has(self, name: &str) -> bool;
    is_folder(self) -> bool;
    state(self) -> String;
    state_of(self, is_counted: impl Fn(&str) -> bool) -> String;
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
}

uncallable! {
    Stores, ref:
    mark_complete(self, url: &StoreUrl) -> Result<(), StoreError>;
    remove_output(self, url: &StoreUrl) -> Result<(), StoreError>;
    are_complete_of_run(self, url: &StoreUrl) -> bool;
    remove_uploaded(self, url: &StoreUrl) -> Result<(), StoreError>;
    forget_uploaded(self, url: &StoreUrl) -> Result<(), StoreError>;
    remove_if_output(self, dir: &Path, url: &StoreUrl) -> Result<(), StoreError>;
}

uncallable! {
    Stores, mut:
    folder(self, url: &StoreUrl) -> Result<Snapshot, StoreError>;
    folder_if_any(self, url: &StoreUrl) -> Result<Option<Snapshot>, StoreError>;
    file(self, url: &StoreUrl, endings: &[&str]) -> Result<Snapshot, StoreError>;
    file_if_any(self, url: &StoreUrl) -> Result<Option<Snapshot>, StoreError>;
    file_or_folder(self, url: &StoreUrl) -> Result<Snapshot, StoreError>;
    has(self, url: &StoreUrl) -> Result<bool, StoreError>;
    fetch(self, snapshot: &Snapshot, is_wanted: impl Fn(&str) -> bool) -> Result<PathBuf, StoreError>;
    fetch_parts(
        self, url: &StoreUrl, choose: impl FnOnce(usize) -> Vec<usize>, is_wanted: impl Fn(&str) -> bool
    ) -> Result<PathBuf, StoreError>;
    mirror(self, url: &StoreUrl, role: OutputRole) -> Result<PathBuf, StoreError>;
    output(self, url: &StoreUrl, role: OutputRole) -> Result<PathBuf, StoreError>;
    check_file(self, url: &StoreUrl) -> Result<(), StoreError>;
    check_folder(self, url: &StoreUrl) -> Result<(), StoreError>;
    upload_file(self, path: &Path, url: &StoreUrl) -> Result<(), StoreError>;
    upload_folder(
        self, dir: &Path, url: &StoreUrl, completing: Option<&str>, is_replaced: Option<&dyn Fn(&str) -> bool>
    ) -> Result<(), StoreError>;
    remove(self, url: &StoreUrl, names: &[String]) -> Result<(), StoreError>;
}
