//! The weights of classes in a loss.

use super::TargetError;
use edgecut_settings::suggestion;
use std::fmt;
use std::str::FromStr;

/// The weights of classes in a loss.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ClassWeights {
    /// All classes have the weight 1.
    #[default]
    Equal,
    /// The weight of each class, not negative.
    Given(Vec<f64>),
    /// Weights of classes by their names. Other classes have the weight 1.
    Named(Vec<(String, f64)>),
    /// Weights in inverse proportion to the number of training labels, as in scikit-learn: the mean number of labels per
    /// class, divided by the number of labels of the class. Tasks compute them from the training data.
    Balanced,
}

impl ClassWeights {
    /// Replaces [`ClassWeights::Balanced`] by the weights for these numbers of labels per class. A class without labels
    /// has the weight 0.
    pub fn of_counts(&self, counts: &[u64]) -> Self {
        if *self != Self::Balanced {
            return self.clone();
        }
        let mean = counts.iter().sum::<u64>() as f64 / counts.len().max(1) as f64;
        Self::Given(counts.iter().map(|&count| if count == 0 { 0.0 } else { mean / count as f64 }).collect())
    }

    /// Replaces [`ClassWeights::Named`] by the weights of classes with these names.
    ///
    /// # Errors
    /// Fails for a name that no class has.
    pub fn of_names(&self, names: &[String]) -> Result<Self, String> {
        let Self::Named(named) = self else { return Ok(self.clone()) };
        let mut weights = vec![1.0; names.len()];
        for (name, weight) in named {
            let Some(class) = names.iter().position(|other| other == name) else {
                let hint = suggestion(name, names.iter().map(String::as_str));
                return Err(format!("there is no class {name}{hint}: the classes are {}", names.join(", ")));
            };
            weights[class] = *weight;
        }
        Ok(Self::Given(weights))
    }

    /// Replaces [`ClassWeights::Named`] as [`of_names`](Self::of_names) does. Without names of classes, it is an error.
    pub(super) fn with_class_names(&self, names: Option<&[String]>) -> Result<Self, String> {
        match (self, names) {
            (Self::Named(_), None) => Err("`class_weights` names classes, but the data has no names of classes \
                 (transforms.json of parts from tables): give a number per class"
                .into()),
            (_, names) => self.of_names(names.unwrap_or_default()).map_err(|why| format!("`class_weights`: {why}")),
        }
    }

    /// Replaces [`ClassWeights::Balanced`] as [`of_counts`](Self::of_counts) does. `class_counts` is called only then.
    pub(super) fn for_data<E>(self, class_counts: impl FnOnce() -> Result<Vec<u64>, E>) -> Result<Self, E> {
        if self == Self::Balanced { Ok(self.of_counts(&class_counts()?)) } else { Ok(self) }
    }

    /// Returns the weight of each class.
    pub(super) fn of_classes(&self, num_classes: usize) -> Result<Vec<f64>, TargetError> {
        let what = match self {
            Self::Equal => return Ok(vec![1.0; num_classes]),
            Self::Given(weights) if weights.len() == num_classes => return Ok(weights.clone()),
            Self::Given(weights) => format!(
                "`class_weights` has {} weights, but the model has {num_classes} classes: give a weight for each",
                weights.len()
            ),
            Self::Balanced => {
                "balanced class weights are computed from labels: call `ClassWeights::of_counts` first".into()
            }
            Self::Named(_) => {
                "`class_weights` names classes, but the classes of this graph have no names: give a number per class"
                    .into()
            }
        };
        Err(TargetError(what))
    }
}

impl fmt::Display for ClassWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equal => f.write_str("equal"),
            Self::Balanced => f.write_str("balanced"),
            Self::Given(weights) => f.write_str(&weights.iter().map(f64::to_string).collect::<Vec<_>>().join(",")),
            Self::Named(weights) => {
                let shown: Vec<String> = weights.iter().map(|(name, weight)| format!("{name}={weight}")).collect();
                f.write_str(&shown.join(","))
            }
        }
    }
}

impl FromStr for ClassWeights {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "equal" => Ok(Self::Equal),
            "balanced" => Ok(Self::Balanced),
            named if named.contains('=') => {
                let weights: Vec<(String, f64)> = named.split(',').map(named_weight).collect::<Result<_, _>>()?;
                for (at, (name, _)) in weights.iter().enumerate() {
                    if weights[..at].iter().any(|(other, _)| other == name) {
                        return Err(format!("{name} has two weights: give one"));
                    }
                }
                Ok(Self::Named(weights))
            }
            list => list.split(',').map(weight).collect::<Result<_, _>>().map(Self::Given),
        }
    }
}

fn weight(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(weight) if weight.is_finite() && weight >= 0.0 => Ok(weight),
        _ => Err(format!(
            "{text:?} is not a finite number ≥ 0: expected equal, balanced, a number per class or NAME=WEIGHT"
        )),
    }
}

fn named_weight(text: &str) -> Result<(String, f64), String> {
    match text.rsplit_once('=') {
        Some((name, number)) => Ok((name.trim().to_owned(), weight(number)?)),
        None => Err(format!("{text:?} has no name: give NAME=WEIGHT for each class, or a number per class")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_parsed_and_written() {
        let named = ClassWeights::Named(vec![("card fraud".into(), 20.0), ("a=b".into(), 0.5)]);
        for weights in [ClassWeights::Equal, ClassWeights::Balanced, ClassWeights::Given(vec![0.0, 1.5]), named] {
            assert_eq!(weights.to_string().parse(), Ok(weights));
        }
        for wrong in ["", "1,,2", "-1,2", "nan", "even", "a=1,2", "a=-1"] {
            assert!(wrong.parse::<ClassWeights>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_become_positions() {
        let names = ["honest", "fraud", "unclear"].map(String::from);
        let weights: ClassWeights = "fraud=20,unclear=0".parse().expect("weights");
        assert_eq!(weights.of_names(&names), Ok(ClassWeights::Given(vec![1.0, 20.0, 0.0])));
        assert!(weights.of_classes(3).is_err_and(|error| error.0.contains("classes of this graph have no names")));
        let error = "frauds=20".parse::<ClassWeights>().expect("weights").of_names(&names).expect_err("no such class");
        assert_eq!(error, "there is no class frauds (did you mean fraud?): the classes are honest, fraud, unclear");
    }

    #[test]
    fn balanced_weights_are_those_of_scikit_learn() {
        // compute_class_weight("balanced", classes=[0, 1, 2], y=[0, 0, 0, 1, 1, 2])
        let weights = ClassWeights::Balanced.of_counts(&[3, 2, 1]);
        assert_eq!(weights, ClassWeights::Given(vec![2.0 / 3.0, 1.0, 2.0]));
        assert_eq!(ClassWeights::Balanced.of_counts(&[0, 4]), ClassWeights::Given(vec![0.0, 0.5]));
        assert_eq!(ClassWeights::Equal.of_counts(&[3, 2, 1]), ClassWeights::Equal);
    }
}
