//! NVIDIA's libraries, loaded at run time so that a program also starts on machines without them.

use std::error::Error;

use libloading::Library;

/// A library that is never unloaded, since threads of the driver may run its code at any time.
#[derive(Clone, Copy)]
pub(crate) struct CudaLibrary {
    library: &'static Library,
}

impl CudaLibrary {
    /// Loads the first of `names` that exists, by the rules of the dynamic loader.
    ///
    /// # Errors
    /// If none can be loaded, returns the loader's message about the first one that exists but is broken, else about
    /// the last.
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

    /// Returns the function `name`.
    ///
    /// # Safety
    /// `F` must be a function pointer of the type that the library declares.
    ///
    /// # Errors
    /// Returns the loader's message if the library has no such function.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &str) -> Result<F, String> {
        // SAFETY: the caller vouches for the type; the library is never unloaded.
        unsafe { self.library.get::<F>(name) }.map(|symbol| *symbol).map_err(|error| said(&error))
    }
}

/// Returns the message of the dynamic loader, which libloading keeps as the source of its own error.
fn said(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// Returns the names under which CubeCL's CUDA runtime looks for a library, in its order, so that both load the same
/// one.
pub(crate) fn names_of(library: &str) -> Vec<String> {
    let start = format!("lib{library}.so");
    cudarc::get_lib_name_candidates(library).into_iter().filter(|name| name.starts_with(&start)).collect()
}
