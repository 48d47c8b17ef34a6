//! The targets of a saved model that flags choose.

use crate::exit::UsageError;
use anyhow::bail;
use std::path::Path;

/// Returns the positions of targets among the targets of a model, of all of them if none is given.
///
/// # Errors
/// [`UsageError`] for another target, and for a target twice.
pub(crate) fn positions(targets: &[String], names: &[String], path: &Path) -> anyhow::Result<Vec<usize>> {
    let mut found = Vec::with_capacity(targets.len());
    for target in targets {
        let at = position(target, names, path)?;
        if found.contains(&at) {
            bail!(UsageError(format!("--target {target}: it is given twice: leave one out")));
        }
        found.push(at);
    }
    Ok(if targets.is_empty() { (0..names.len()).collect() } else { found })
}

/// Returns the position of a target among the targets of a model: `TYPE:LABEL`, or a label that one of them alone has.
///
/// # Errors
/// [`UsageError`] for another target.
fn position(target: &str, names: &[String], path: &Path) -> anyhow::Result<usize> {
    let mut found = Vec::new();
    for (at, name) in names.iter().enumerate() {
        if name == target || name.split_once(':').is_some_and(|(_, label)| label == target) {
            found.push(at);
        }
    }
    match found[..] {
        [only] => Ok(only),
        _ if names.is_empty() => bail!(UsageError(format!(
            "--target {target}: the model {} does not say the name of its label: leave the flag out",
            path.display()
        ))),
        _ => bail!(UsageError(format!(
            "--target {target}: the model {} predicts {}: choose one of them",
            path.display(),
            names.join(", ")
        ))),
    }
}
