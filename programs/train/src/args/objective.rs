//! The flags of the loss and of the scores.

use crate::args::not_negative;
use crate::exit::UsageError;
use crate::settings::named::{Named, ParseError};
use crate::settings::shared_flags::{as_text, as_text_if_given};
use clap::Args;
use edgecut_settings::suggestion;
use edgecut_trainer::ScoringConfig;
use edgecut_trainer::loss::{AnyLoss, ClassWeights, CrossEntropy, Loss, LossSettings};
use edgecut_trainer::metrics::{Metric, MetricList, Threshold};
use serde::Serialize;

/// Flags of the loss and the scores of nodes, edges and whole graphs; equal on all ranks.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Training")]
pub(crate) struct ObjectiveArgs {
    /// Loss of the training, with settings as in NAME:SETTING=VALUE,SETTING=VALUE [default: cross-entropy for classes;
    /// otherwise the first that fits the labels or numbers of the data]
    #[arg(long, value_name = "NAME[:SETTINGS]", value_parser = Named { all: AnyLoss::ALL.to_vec(), parse: parse_loss })]
    #[serde(serialize_with = "as_text_if_given")]
    loss: Option<LossSettings>,
    /// Metrics on the validation and test data, separated by commas. The first one on the validation data selects the best
    /// epoch [default: chosen by the loss; accuracy for classes]
    #[arg(long, value_name = "NAME,…", value_parser = Named { all: metrics(), parse: parse_metrics })]
    #[serde(serialize_with = "as_text_if_given")]
    metric: Option<MetricList<Metric>>,
    /// Probability above which a label applies, or a seed has the positive one of two classes (--positive-class): a number, or
    /// the one with the highest F1 on the validation data. Saved models keep it for predictions [default: 0.5]
    #[arg(long, value_name = "best-f1|P")]
    #[serde(serialize_with = "as_text_if_given")]
    threshold: Option<Threshold>,
    /// The one of two classes that roc-auc, average-precision, --threshold and curves are about: its name in the tables, or
    /// 0 or 1. Saved models keep it [default: the second one in the order of bytes, in which capital letters come before small
    /// ones]
    #[arg(long, value_name = "CLASS")]
    positive_class: Option<String>,
    /// Divide logits by the temperature with the highest likelihood on the validation data, for probabilities. Saved models
    /// keep it
    #[arg(long)]
    calibrate: bool,
    /// Weights of the classes in the training loss: one number per class, as in torch.nn.CrossEntropyLoss; NAME=WEIGHT,… by
    /// the names of classes in the tables, 1 for others; balanced, for weights in inverse proportion to the number of
    /// training labels; or equal
    #[arg(long, value_name = "LIST|balanced", default_value_t, conflicts_with = "load_model")]
    #[serde(serialize_with = "as_text")]
    class_weights: ClassWeights,
    /// Share of each training target that is spread evenly over all classes
    #[arg(long, value_name = "E", default_value_t = 0.0, value_parser = share, conflicts_with = "load_model")]
    label_smoothing: f64,
}

impl ObjectiveArgs {
    /// Returns the settings of the scores, without the positive class, whose name is not known yet.
    pub(crate) fn scoring(&self) -> ScoringConfig {
        ScoringConfig {
            metrics: self.metric.clone(),
            threshold: self.threshold,
            calibrate: self.calibrate,
            ..ScoringConfig::default()
        }
    }

    /// Returns the loss; `None` leaves the choice to the data.
    ///
    /// # Errors
    /// [`UsageError`] for a setting that the loss does not have, or that is given twice.
    pub(crate) fn loss(&self) -> Result<Option<AnyLoss>, UsageError> {
        let mut loss = self.loss.clone();
        let class_weights = Some(self.class_weights.to_string()).filter(|_| self.class_weights != ClassWeights::Equal);
        let label_smoothing = Some(self.label_smoothing.to_string()).filter(|_| self.label_smoothing != 0.0);
        for (setting, value) in [("class_weights", class_weights), ("label_smoothing", label_smoothing)] {
            let Some(value) = value else { continue };
            // Only a loss of classes has these settings.
            let settings = loss.unwrap_or_else(|| LossSettings::named(CrossEntropy::NAME));
            if settings.has(setting) {
                return Err(UsageError(format!("`{setting}` is given twice: leave it out of --loss")));
            }
            loss = Some(settings.with(setting, value));
        }
        loss.map(AnyLoss::new).transpose().map_err(UsageError)
    }

    /// Returns the loss of classes with these names.
    ///
    /// # Errors
    /// [`UsageError`] for a name that no class has, and the errors of [`loss`](Self::loss).
    pub(crate) fn loss_of_classes(&self, names: Option<&[String]>) -> anyhow::Result<Option<AnyLoss>> {
        let loss = self.loss()?.map(|loss| loss.with_class_names(names));
        Ok(loss.transpose().map_err(UsageError)?)
    }

    /// Returns the number of the positive class among classes with these names; `None` leaves the choice to the model.
    ///
    /// # Errors
    /// [`UsageError`] for a name that no class has, and for another number than 0 and 1 if classes have no names.
    pub(crate) fn positive_class_of(&self, names: Option<&[String]>) -> Result<Option<usize>, UsageError> {
        let Some(name) = &self.positive_class else { return Ok(None) };
        match positive_class(name, names) {
            Ok(class) => Ok(Some(class)),
            Err(why) => Err(UsageError(format!("--positive-class {name}: {why}"))),
        }
    }
}

/// Returns the number of the positive class, which has this name or, among classes without names, this number.
///
/// # Errors
/// Describes a name that no class has, and another number than 0 and 1.
pub(crate) fn positive_class(name: &str, names: Option<&[String]>) -> Result<usize, String> {
    match (names, name) {
        (Some(names), _) => names.iter().position(|class| class == name).ok_or_else(|| {
            let hint = suggestion(name, names.iter().map(String::as_str));
            format!("there is no such class{hint}: the classes are {}", names.join(", "))
        }),
        (None, "0") => Ok(0),
        (None, "1") => Ok(1),
        (None, _) => {
            Err("the classes of the data have no names (transforms.json of parts from tables): give 0 or 1".into())
        }
    }
}

/// Returns the names and descriptions of all metrics.
fn metrics() -> Vec<(&'static str, &'static str)> {
    Metric::all().map(|metric| (metric.name(), metric.about())).collect()
}

fn parse_metrics(names: String) -> Result<MetricList<Metric>, ParseError> {
    Ok(names.parse()?)
}

/// Parses a loss and checks its settings.
fn parse_loss(text: String) -> Result<LossSettings, ParseError> {
    let settings: LossSettings = text.parse()?;
    AnyLoss::new(settings.clone())?;
    Ok(settings)
}

fn share(text: &str) -> Result<f64, String> {
    let value = not_negative(text)?;
    if value <= 1.0 { Ok(value) } else { Err(format!("{text} is above 1")) }
}
