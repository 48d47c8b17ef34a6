//! NVIDIA's libraries, loaded at run time so that a program also starts where they are not installed.

use std::error::Error;

use libloading::Library;

/// A library that stays loaded: what a driver has started must never lose its code.
#[derive(Clone, Copy)]
pub(crate) struct CudaLibrary {
    library: &'static Library,
}

impl CudaLibrary {
    /// Loads the first of these that there is, by the dynamic loader's rules.
    ///
    /// # Errors
    /// None can be loaded: what the loader said of the first that is there but broken, else of the last.
    pub(crate) fn open<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Result<Self, String> {
        let mut cause = String::new();
        let mut broken = false;
        for name in names {
            // SAFETY: these libraries are made to be loaded; their initialisers ask nothing of the caller.
            match unsafe { Library::new(name.as_ref()) } {
                Ok(library) => return Ok(Self { library: Box::leak(Box::new(library)) }),
                Err(error) if !broken => {
                    cause = said(&error);
                    broken = !cause.contains("No such file");
                }
                Err(_) => {}
            }
        }
        Err(cause)
    }

    /// The function `name`.
    ///
    /// # Safety
    /// `F` must be a function pointer of the type that the library declares.
    ///
    /// # Errors
    /// The library has no such function: what the loader said.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &str) -> Result<F, String> {
        // SAFETY: the caller vouches for the type; the library is never unloaded.
        unsafe { self.library.get::<F>(name) }.map(|symbol| *symbol).map_err(|error| said(&error))
    }
}

/// What the dynamic loader said, which libloading keeps behind its own words.
fn said(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// The names under which CubeCL's CUDA runtime looks for a library, in its order: the same one must be found.
pub(crate) fn names_of(library: &str) -> Vec<String> {
    let start = format!("lib{library}.so");
    cudarc::get_lib_name_candidates(library).into_iter().filter(|name| name.starts_with(&start)).collect()
}
