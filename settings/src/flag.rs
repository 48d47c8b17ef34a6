//! The flag of a setting.

/// The flag that sets a setting. Its name is the name of the field, and its description the doc comment of the field.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// The placeholder of the value in `--help`.
    pub value_name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// Checks the text of a value. The type of the setting parses it afterwards.
    pub check: fn(&str) -> Result<(), String>,
    /// Flags that must not be given as well.
    pub conflicts_with: &'static [&'static str],
    /// A flag that must be given as well.
    pub requires: Option<&'static str>,
    /// False if the default is chosen later, so that `--help` does not show the field's value as the default.
    pub shows_default: bool,
    /// True if a run may continue from a checkpoint with another value.
    pub may_change: bool,
    /// True if the setting has no effect on the evaluation of a saved model, so that the flag is an error there.
    pub is_training_only: bool,
}

impl Flag {
    /// Makes a flag whose default is the value of the field.
    pub const fn new(value_name: &'static str) -> Self {
        Self {
            value_name,
            aliases: &[],
            check: |_| Ok(()),
            conflicts_with: &[],
            requires: None,
            shows_default: true,
            may_change: false,
            is_training_only: false,
        }
    }

    /// Makes a flag without a value.
    pub const fn switch() -> Self {
        Self::new("")
    }

    /// Adds other names.
    pub const fn aliases(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// Adds a check of values.
    pub const fn checked(self, check: fn(&str) -> Result<(), String>) -> Self {
        Self { check, ..self }
    }

    /// Excludes other flags.
    pub const fn conflicts_with(self, conflicts_with: &'static [&'static str]) -> Self {
        Self { conflicts_with, ..self }
    }

    /// Requires another flag.
    pub const fn requires(self, flag: &'static str) -> Self {
        Self { requires: Some(flag), ..self }
    }

    /// Leaves the default to a later choice, which the description of the flag explains.
    pub const fn default_later(self) -> Self {
        Self { shows_default: false, ..self }
    }

    /// Allows a run to continue from a checkpoint with another value.
    pub const fn may_change(self) -> Self {
        Self { may_change: true, ..self }
    }

    /// Refuses the flag where a saved model is evaluated.
    pub const fn training_only(self) -> Self {
        Self { is_training_only: true, ..self }
    }
}
