//! Sentences about data that is not the data of a training.

use super::comparison::{Difference, OtherData};
use std::fmt;

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transforms { kind, name } => {
                write!(f, "the features of {kind} type {name} have other transforms or columns than in its training")
            }
            Self::Classes { of } => write!(f, "the classes of {of} are not those of its training"),
            Self::NumFeatures { owners, trained, found } => {
                write!(f, "{owners} had {trained} features in its training, and have {found}")
            }
            Self::Column { owners, column, trained, found } => {
                let [trained, found] = [trained, found].map(|name| name.as_deref().unwrap_or("missing"));
                write!(f, "column {column} of {owners} was {trained:?} in its training, and is {found:?}")
            }
        }
    }
}

impl OtherData {
    /// Returns a sentence for the user of a model, whose file is `model`.
    pub fn note(&self, model: impl fmt::Display) -> String {
        let what = self.words();
        let start = format!("{} other {what} than in the training of {model}", self.owners);
        if self.may_be_training_data() {
            return format!("{start}, so that validation and test data may be among the training data of the model");
        }
        if self.has_same_splits { format!("{start}, but the same splits") } else { start }
    }

    /// Lists what differs.
    fn words(&self) -> String {
        let words: Vec<String> = self.kinds.iter().map(|kind| kind.replace("held_out", "held-out edges")).collect();
        match &words[..] {
            [] => "features, labels, splits or times".to_owned(),
            [only] => only.clone(),
            [others @ .., last] => format!("{} and {last}", others.join(", ")),
        }
    }
}
