//! The settings of a saved model beside the flags of a run.

use crate::exit::UsageError;
use crate::settings::given_flags::GivenFlags;
use anyhow::bail;
use std::path::Path;

/// A setting of a model: the id of its flag, the value that the flags give it, and the saved value.
pub(crate) struct Setting {
    flag: &'static str,
    own: String,
    saved: String,
}

impl Setting {
    pub(crate) fn new(flag: &'static str, own: impl ToString, saved: impl ToString) -> Self {
        Self { flag, own: own.to_string(), saved: saved.to_string() }
    }
}

/// Checks that no flag that is given contradicts a saved model, which has settings of its own.
///
/// # Errors
/// [`UsageError`] for the first such flag.
pub(crate) fn check_flags(given: &GivenFlags, path: &Path, settings: &[Setting]) -> anyhow::Result<()> {
    for Setting { flag, own, saved } in settings {
        if !given.is_given(flag) || own == saved {
            continue;
        }
        // A flag without a value has the text `true`.
        let value = given.text(flag).filter(|text| *text != "true").map(|text| format!(" {text}"));
        bail!(UsageError(format!(
            "--{}{}: the model {} was saved with {saved}: leave the flag out, or load another model",
            flag.replace('_', "-"),
            value.unwrap_or_default(),
            path.display()
        )));
    }
    Ok(())
}
