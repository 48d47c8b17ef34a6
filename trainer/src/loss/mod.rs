//! Losses: the measures that training lowers.
//!
//! A loss compares outputs with the [`Target`] of their seeds. Each loss is a file of this folder with a type that
//! implements [`Loss`], a line among the modules, and one in the list below. Everything else follows from the list: the values of `--loss`, the
//! checks against the data, and the losses of nodes and of whole graphs. Links have losses of their own, which rank an
//! edge among its negatives ([`LinkLoss`](crate::link::LinkLoss)).

mod bce;
mod class_weights;
mod cross_entropy;
mod focal;
mod huber;
mod loss_sum;
mod mae;
mod mse;
mod numbers;
mod seed_totals;
mod settings;
mod target;

pub use class_weights::ClassWeights;
pub use cross_entropy::cross_entropy;
pub use loss_sum::{LossSum, TargetError};
pub use seed_totals::SeedTotals;
pub use settings::LossSettings;
pub use target::{OutputKind, Target};

use crate::error::TrainError;
use burn::tensor::Tensor;
use edgecut_gnn::ops::GnnBackend;
use edgecut_settings::unknown;
use std::fmt;

/// A loss of the outputs for seeds, compared with their targets.
///
/// Ranks exchange the sum over the seeds and the sum of their weights only. The mean over all ranks and accumulated batches
/// therefore equals the mean over one large batch.
pub trait Loss: Clone + fmt::Debug + PartialEq + Into<AnyLoss> {
    /// The name, for example `cross-entropy`.
    const NAME: &'static str;
    /// A description in one line.
    const ABOUT: &'static str;
    /// The targets that it needs, for errors: "it needs …".
    const NEEDS: &'static str;

    /// Makes the loss with the given settings.
    ///
    /// # Errors
    /// A setting with a wrong value.
    fn with_settings(settings: &mut LossSettings) -> Result<Self, String>;

    /// Returns the meaning of the outputs that are compared with targets of a kind; `None` if the loss does not apply to
    /// such targets. By default, it applies to numbers.
    fn outputs(&self, targets: OutputKind) -> Option<OutputKind> {
        targets.as_numbers()
    }

    /// Returns the number of outputs for a seed, whose meaning is `outputs`.
    fn num_outputs(&self, outputs: OutputKind) -> usize {
        outputs.width()
    }

    /// Returns the name of the metric that selects the best epoch by default.
    fn default_metric(&self) -> &'static str;

    /// Returns the weights of classes, if the loss has some. They may depend on the names of the classes and on the training
    /// data. By default, there are none.
    fn class_weights(&mut self) -> Option<&mut ClassWeights> {
        None
    }

    /// Computes the loss.
    ///
    /// # Shapes
    /// - `outputs`: `[num_seeds, num_outputs]`
    ///
    /// # Errors
    /// [`TargetError`] if the target does not match the outputs.
    fn sum<B: GnnBackend>(&self, outputs: Tensor<B, 2>, target: &Target) -> Result<LossSum<B>, TargetError>;

    /// Returns the accuracy of training batches, if the loss counts correct predictions
    /// ([`LossSum::totals`]). By default, it does not.
    fn accuracy(&self, _totals: &SeedTotals) -> Option<f64> {
        None
    }
}

/// Declares [`AnyLoss`] over all losses.
macro_rules! losses {
    ($($module:ident::$loss:ident),* $(,)?) => {
        $(pub use $module::$loss;)*

        /// A loss, which the settings of a training contain.
        ///
        /// ```
        /// use edgecut_trainer::loss::{AnyLoss, CrossEntropy};
        /// let loss: AnyLoss = "cross-entropy:label_smoothing=0.1".parse()?;
        /// assert_eq!(loss, CrossEntropy { label_smoothing: 0.1, ..CrossEntropy::default() }.into());
        /// # Ok::<(), String>(())
        /// ```
        #[derive(Clone, Debug, PartialEq)]
        pub enum AnyLoss {
            $(#[doc = concat!("[`", stringify!($loss), "`].")] $loss($loss)),*
        }

        $(impl From<$loss> for AnyLoss {
            fn from(loss: $loss) -> Self {
                Self::$loss(loss)
            }
        })*

        impl AnyLoss {
            /// The names and descriptions of all losses.
            pub const ALL: &[(&str, &str)] = &[$(($loss::NAME, $loss::ABOUT)),*];

            /// Makes the loss that the settings name.
            ///
            /// # Errors
            /// An unknown name, an unknown setting, or a setting with a wrong value.
            pub fn new(mut settings: LossSettings) -> Result<Self, String> {
                let loss = match settings.name() {
                    $($loss::NAME => $loss::with_settings(&mut settings)?.into(),)*
                    other => return Err(unknown("loss", other, &[$($loss::NAME),*])),
                };
                settings.finish()?;
                Ok(loss)
            }

            /// Returns the name.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$loss(_) => $loss::NAME),* }
            }

            fn needs(&self) -> &'static str {
                match self { $(Self::$loss(_) => $loss::NEEDS),* }
            }

            fn outputs_if_fit(&self, targets: OutputKind) -> Option<OutputKind> {
                match self { $(Self::$loss(loss) => loss.outputs(targets)),* }
            }

            /// See [`Loss::num_outputs`].
            pub fn num_outputs(&self, outputs: OutputKind) -> usize {
                match self { $(Self::$loss(loss) => loss.num_outputs(outputs)),* }
            }

            /// See [`Loss::default_metric`].
            pub fn default_metric(&self) -> &'static str {
                match self { $(Self::$loss(loss) => loss.default_metric()),* }
            }

            fn class_weights(&mut self) -> Option<&mut ClassWeights> {
                match self { $(Self::$loss(loss) => loss.class_weights()),* }
            }

            /// See [`Loss::sum`].
            ///
            /// # Errors
            /// [`TargetError`] if the target does not match the outputs.
            pub fn sum<B: GnnBackend>(
                &self,
                outputs: Tensor<B, 2>,
                target: &Target,
            ) -> Result<LossSum<B>, TargetError> {
                match self { $(Self::$loss(loss) => loss.sum(outputs, target)),* }
            }

            /// See [`Loss::accuracy`].
            pub fn accuracy(&self, totals: &SeedTotals) -> Option<f64> {
                match self { $(Self::$loss(loss) => loss.accuracy(totals)),* }
            }
        }
    };
}

// The first loss that applies to the targets is the default.
losses! {
    cross_entropy::CrossEntropy,
    focal::Focal,
    bce::BinaryCrossEntropy,
    mse::MeanSquaredError,
    mae::MeanAbsoluteError,
    huber::Huber,
}

impl Default for AnyLoss {
    /// Returns the cross entropy of equal classes.
    fn default() -> Self {
        CrossEntropy::default().into()
    }
}

impl AnyLoss {
    /// Returns the losses with their default settings that apply to targets, the default one first.
    pub fn all_for(targets: OutputKind) -> impl Iterator<Item = Self> {
        let all = Self::ALL.iter().filter_map(|(name, _)| Self::new(LossSettings::named(name)).ok());
        all.filter(move |loss| loss.outputs_if_fit(targets).is_some())
    }

    /// Returns the loss with weights of classes by number that are given by name.
    ///
    /// # Errors
    /// A name that no class has, or names for classes without names.
    pub fn with_class_names(mut self, names: Option<&[String]>) -> Result<Self, String> {
        if let Some(weights) = self.class_weights() {
            *weights = weights.with_class_names(names)?;
        }
        Ok(self)
    }

    /// Returns the loss with everything that depends on the training data. `class_counts` returns the number of training
    /// seeds of each class over all ranks, and every rank must call it or none.
    ///
    /// # Errors
    /// The errors of `class_counts`.
    pub fn for_data(mut self, class_counts: impl FnOnce() -> Result<Vec<u64>, TrainError>) -> Result<Self, TrainError> {
        if let Some(weights) = self.class_weights() {
            *weights = std::mem::take(weights).for_data(class_counts)?;
        }
        Ok(self)
    }

    /// Returns the meaning of the outputs that are compared with targets of a kind.
    ///
    /// # Errors
    /// The loss does not apply to such targets. The text names losses that do.
    pub fn outputs(&self, targets: OutputKind) -> Result<OutputKind, String> {
        self.outputs_if_fit(targets).ok_or_else(|| {
            let fitting: Vec<String> = Self::all_for(targets).map(|loss| format!("`loss={}`", loss.name())).collect();
            format!("the loss {} needs {}, but {targets}: use {}", self.name(), self.needs(), fitting.join(" or "))
        })
    }
}

impl std::str::FromStr for AnyLoss {
    type Err = String;

    /// Parses a name and settings: `NAME` or `NAME:SETTING=VALUE,SETTING=VALUE`.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::new(text.parse()?)
    }
}
