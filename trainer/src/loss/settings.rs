//! The settings of a loss as text.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::str::FromStr;

/// The name and the settings of a loss as text. A loss takes its settings out, so that a setting that it does not have is
/// an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossSettings {
    name: String,
    values: BTreeMap<String, String>,
}

impl LossSettings {
    /// Names a loss without settings.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), values: BTreeMap::new() }
    }

    /// Adds a setting.
    pub fn with(mut self, setting: &str, value: impl Display) -> Self {
        self.values.insert(setting.to_owned(), value.to_string());
        self
    }

    /// Returns true if a setting is given.
    pub fn has(&self, setting: &str) -> bool {
        self.values.contains_key(setting)
    }

    /// Returns the name of the loss.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes the value of a setting out; `default` if it is not given.
    ///
    /// # Errors
    /// A text that is not a value.
    pub fn take<T: FromStr<Err: Display>>(&mut self, setting: &str, default: T) -> Result<T, String> {
        let Some(text) = self.values.remove(setting) else { return Ok(default) };
        text.parse().map_err(|error| format!("`{setting}` {text} of the loss {}: {error}", self.name))
    }

    /// Checks that all settings were taken out.
    pub(super) fn finish(self) -> Result<(), String> {
        match self.values.keys().next() {
            Some(setting) => Err(format!("the loss {} has no setting `{setting}`: leave it out", self.name)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for LossSettings {
    /// Writes the settings as they are parsed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (number, (setting, value)) in self.values.iter().enumerate() {
            write!(f, "{}{setting}={value}", if number == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

impl FromStr for LossSettings {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let mut parsed = Self::named(name);
        let mut last: Option<(&str, String)> = None;
        for piece in settings.split(',').filter(|piece| !piece.is_empty()) {
            match (piece.split_once('='), &mut last) {
                (Some((setting, value)), _) => {
                    if let Some((setting, value)) = last.replace((setting, value.to_owned())) {
                        parsed = parsed.with(setting, value);
                    }
                    if parsed.has(setting) {
                        return Err(format!("the loss {name} has the setting `{setting}` twice: give it once"));
                    }
                }
                // A value may be a list.
                (None, Some((_, list))) => *list = format!("{list},{piece}"),
                (None, None) => return Err(format!("{piece:?} is not a setting of a loss: write SETTING=VALUE")),
            }
        }
        if let Some((setting, value)) = last {
            parsed = parsed.with(setting, value);
        }
        Ok(parsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_settings_are_parsed() {
        let parsed: LossSettings = "a:weights=1,2.5,beta=3".parse().expect("settings");
        assert_eq!(parsed, LossSettings::named("a").with("weights", "1,2.5").with("beta", 3));
        assert_eq!(parsed.to_string().parse(), Ok(parsed));
        assert_eq!("a".parse(), Ok(LossSettings::named("a")));
        assert!("a:beta=1,beta=3".parse::<LossSettings>().is_err_and(|why| why.contains("`beta` twice")));
        assert!("a:beta".parse::<LossSettings>().is_err_and(|why| why.contains("SETTING=VALUE")));
        let mut wrong = LossSettings::named("a").with("beta", "x");
        assert!(wrong.take("beta", 1.0).is_err_and(|why| why.contains("`beta` x of the loss a")));
    }
}
