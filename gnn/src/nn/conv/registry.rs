//! The registry of convolutions.
// A model has few layers, so that the space of smaller convolutions does not matter.
#![allow(clippy::large_enum_variant)]

mod gat;
mod gcn;
mod gin;
mod gine;
mod graph_conv;
mod hgt;
mod pna;
mod rgcn;
mod sage;
mod transformer;

pub use gat::{GatConv, GatConvConfig, GatSettings};
pub use gcn::{GcnConv, GcnConvConfig, GcnSettings};
pub use gin::{GinConv, GinConvConfig, GinSettings};
pub use gine::{GineConv, GineSettings};
pub use graph_conv::{GraphConv, GraphConvSettings};
pub use hgt::{HgtConv, HgtSettings};
pub use pna::{PnaConv, PnaSettings};
pub use rgcn::{RgcnConv, RgcnConvConfig, RgcnSettings};
pub use sage::{SageConv, SageConvConfig, SageSettings};
pub use transformer::{TransformerConv, TransformerSettings};

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use serde::de::Error;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::flags::{ConvFlag, FlagValues, ModelName};
use super::hetero::{HeteroConv, HeteroShape};
use super::*;

/// Implements what all convolutions have in common, whatever edges their layers read.
macro_rules! settings_of_all {
    ($($variant:ident($settings:ident),)*) => {
        impl ConvKind {
            /// Checks the settings for layers of a form with this number of columns between them.
            ///
            /// # Errors
            /// The fault, and a way to correct it.
            pub fn check(self, form: LayerForm, channels: usize) -> Result<(), String> {
                let (checked, refusal) = match self {
                    $(Self::$variant(settings) => (settings.check(channels), $settings::refusal(form)),)*
                };
                checked?;
                match refusal {
                    Some(what) => Err(what.into()),
                    None => Ok(()),
                }
            }

            /// Returns the layer of PyG that computes the same, if the Python package needs its description.
            pub fn pyg(self, shape: ConvShape) -> Option<PygLayer> {
                match self {
                    $(Self::$variant(settings) => settings.pyg(shape),)*
                }
            }

            /// Returns true if the convolution reads [`EdgeData::gcn_norm`]. It supports uniform sampling only.
            pub fn needs_gcn_norm(self) -> bool {
                match self {
                    $(Self::$variant(_) => $settings::NEEDS_GCN_NORM,)*
                }
            }

            /// Returns the use that the convolution makes of edge features.
            pub fn edge_features(self) -> EdgeFeatureUse {
                match self {
                    $(Self::$variant(_) => $settings::EDGE_FEATURES,)*
                }
            }

            /// Returns the blocks of edges that a layer reads over edges with or without features.
            pub fn edge_blocks(self, reads_features: bool) -> EdgeBlocks {
                match self {
                    $(Self::$variant(_) => $settings::edge_blocks(reads_features),)*
                }
            }

            /// Returns the use that the convolution makes of the weights of edges.
            pub fn edge_weighting(self) -> EdgeWeighting {
                match self {
                    $(Self::$variant(settings) => settings.edge_weighting(),)*
                }
            }

            /// Returns the activation that follows the hidden layers of a network without encoders and pooling.
            pub fn hidden_activation(self) -> HiddenActivation {
                match self {
                    $(Self::$variant(_) => $settings::HIDDEN_ACTIVATION,)*
                }
            }

            /// Returns the names of `--model` for layers of a form, in the order of the registry.
            pub fn model_names(form: LayerForm) -> Vec<&'static ModelName> {
                let mut names = Vec::new();
                $(if $settings::refusal(form).is_none() {
                    names.extend($settings::MODELS);
                })*
                names
            }

            /// Returns the flags of the convolution that a name of `--model` stands for; empty for an unknown name.
            pub fn flags_of(model: &str) -> &'static [ConvFlag] {
                $(if entry($settings::MODELS, model).is_some() {
                    return $settings::FLAGS;
                })*
                &[]
            }

            /// Makes the convolution that a name of `--model` stands for. Values that are absent have their defaults.
            ///
            /// # Errors
            /// An unknown name, or a value that is out of range.
            pub fn from_flags(model: &str, given: FlagValues) -> Result<Self, String> {
                $(if let Some(name) = entry($settings::MODELS, model) {
                    return $settings::from_flags(complete(name, $settings::FLAGS, given)).map(Self::$variant);
                })*
                Err(format!("{model} is not a model"))
            }

            /// Returns the values of the convolution's flags.
            pub fn to_flags(self) -> FlagValues {
                match self {
                    $(Self::$variant(settings) => settings.to_flags(),)*
                }
            }

            /// Returns the name that `--model` has for the convolution.
            pub fn model_name(self) -> &'static str {
                match self {
                    $(Self::$variant(settings) => name_of(&settings),)*
                }
            }
        }

        /// Writes the name if there are no settings, and otherwise an object with the name and the settings.
        impl Serialize for ConvKind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$variant(settings) => tagged(serializer, settings),)*
                }
            }
        }

        impl<'de> Deserialize<'de> for ConvKind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let (name, settings) = name_and_settings::<D>(deserializer)?;
                match name.as_str() {
                    $($settings::NAME => serde_json::from_value(settings).map(Self::$variant),)*
                    _ => {
                        let known = [$($settings::NAME),*].join(", ");
                        return Err(D::Error::custom(format!("unknown convolution {name:?}, expected one of {known}")));
                    }
                }
                .map_err(|error| D::Error::custom(format!("{name}: {error}")))
            }
        }
    };
}

/// Declares the convolutions. `per_edge_type` lists those over the edges of one type, `per_layer` those that read all
/// edge types at once.
macro_rules! convolutions {
    (
        per_edge_type { $($(#[$doc:meta])* $variant:ident($settings:ident, $conv:ident)),* $(,)? }
        per_layer { $($(#[$typed_doc:meta])* $typed:ident($typed_settings:ident, $typed_conv:ident)),* $(,)? }
    ) => {
        /// A convolution with its settings.
        ///
        /// ```
        /// use edgecut_gnn::nn::{ConvKind, SageSettings};
        /// let kind = ConvKind::Sage(SageSettings::default());
        /// assert_eq!(serde_json::to_string(&kind)?, r#"{"sage":{"aggregation":"mean"}}"#);
        /// assert_eq!(kind.model_name(), "sage");
        /// # Ok::<(), serde_json::Error>(())
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub enum ConvKind {
            $($(#[$doc])* $variant($settings),)*
            $($(#[$typed_doc])* $typed($typed_settings),)*
        }

        /// A convolution of the registry over the edges of one type.
        #[derive(Module, Debug)]
        pub enum AnyConv<B: Backend> {
            $($(#[$doc])* $variant($conv<B>),)*
        }

        /// The layer of a network: convolutions of the registry over all edge types.
        #[derive(Module, Debug)]
        pub enum AnyTypedConv<B: Backend> {
            /// The convolution over the only edge type, from the only node type to itself.
            Direct(AnyConv<B>),
            /// A convolution per edge type.
            PerEdgeType(HeteroConv<B>),
            $($(#[$typed_doc])* $typed($typed_conv<B>),)*
        }

        impl<B: GnnBackend> Conv<B> for AnyConv<B> {
            fn convolve(&self, input: ConvInput<'_, B>) -> Tensor<B, 2> {
                match self {
                    $(Self::$variant(conv) => conv.convolve(input),)*
                }
            }

            fn set_precision(&mut self, precision: Precision) {
                match self {
                    $(Self::$variant(conv) => conv.set_precision(precision),)*
                }
            }

            fn batch_norms(&self) -> &[BatchNorm<B>] {
                match self {
                    $(Self::$variant(conv) => conv.batch_norms(),)*
                }
            }

            fn batch_norms_mut(&mut self) -> &mut [BatchNorm<B>] {
                match self {
                    $(Self::$variant(conv) => conv.batch_norms_mut(),)*
                }
            }
        }

        impl<B: GnnBackend> TypedConv<B> for AnyTypedConv<B> {
            fn convolve(&self, input: TypedConvInput<'_, B>) -> Tensor<B, 2> {
                match self {
                    Self::Direct(conv) => conv.convolve(only_edge_type(input)),
                    Self::PerEdgeType(conv) => conv.convolve(input),
                    $(Self::$typed(conv) => conv.convolve(input),)*
                }
            }

            fn set_precision(&mut self, precision: Precision) {
                match self {
                    Self::Direct(conv) => conv.set_precision(precision),
                    Self::PerEdgeType(conv) => conv.set_precision(precision),
                    $(Self::$typed(conv) => conv.set_precision(precision),)*
                }
            }
        }

        impl<B: GnnBackend> AnyTypedConv<B> {
            /// Returns the batch normalisations within the layer, in the order of a forward pass. Only layers over the only
            /// edge type have some.
            pub fn batch_norms(&self) -> &[BatchNorm<B>] {
                if let Self::Direct(conv) = self { conv.batch_norms() } else { &[] }
            }

            /// Returns [`batch_norms`](Self::batch_norms) for changes.
            pub fn batch_norms_mut(&mut self) -> &mut [BatchNorm<B>] {
                if let Self::Direct(conv) = self { conv.batch_norms_mut() } else { &mut [] }
            }
        }

        impl ConvKind {
            /// Makes a layer over the edges of one type.
            ///
            /// # Panics
            /// If the convolution reads all edge types at once, or if its settings do not fit the shape.
            pub fn init<B: Backend>(self, shape: ConvShape, init: &mut WeightInit, device: &B::Device) -> AnyConv<B> {
                match self {
                    $(Self::$variant(settings) => AnyConv::$variant(settings.init(shape, init, device)),)*
                    $(Self::$typed(_) => panic!("{} reads all edge types at once", $typed_settings::NAME),)*
                }
            }

            /// Makes a layer over all edge types.
            ///
            /// # Panics
            /// If the settings do not fit the shape.
            pub fn init_typed<B: Backend>(
                self,
                shape: &HeteroShape<'_>,
                init: &mut WeightInit,
                device: &B::Device,
            ) -> AnyTypedConv<B> {
                match self {
                    $(Self::$typed(settings) => AnyTypedConv::$typed(settings.init_typed(shape, init, device)),)*
                    kind => AnyTypedConv::PerEdgeType(HeteroConv::new(kind, shape, init, device)),
                }
            }

            /// Returns true if the convolution reads all edge types at once, so that only typed layers have it.
            pub fn is_typed(self) -> bool {
                match self {
                    $(Self::$variant(_) => false,)*
                    $(Self::$typed(_) => true,)*
                }
            }
        }

        settings_of_all! { $($variant($settings),)* $($typed($typed_settings),)* }
    };
}

convolutions! {
    per_edge_type {
        /// GraphSAGE.
        Sage(SageSettings, SageConv),
        /// A graph convolutional network.
        Gcn(GcnSettings, GcnConv),
        /// A graph attention network.
        Gat(GatSettings, GatConv),
        /// A graph isomorphism network.
        Gin(GinSettings, GinConv),
        /// The graph convolution of Morris et al.
        GraphConv(GraphConvSettings, GraphConv),
        /// A graph isomorphism network over edge features.
        Gine(GineSettings, GineConv),
        /// A graph transformer.
        Transformer(TransformerSettings, TransformerConv),
        /// Principal neighbourhood aggregation.
        Pna(PnaSettings, PnaConv),
    }
    per_layer {
        /// A relational graph convolutional network.
        Rgcn(RgcnSettings, RgcnConv),
        /// A heterogeneous graph transformer.
        Hgt(HgtSettings, HgtConv),
    }
}

/// Returns the input of a convolution over the only edge type.
///
/// # Panics
/// If there is another number of edge types.
fn only_edge_type<'a, B: Backend>(input: TypedConvInput<'a, B>) -> ConvInput<'a, B> {
    let TypedConvInput { incoming, pass, activation, .. } = input;
    let [edges] = incoming else { panic!("a convolution over one edge type got {}", incoming.len()) };
    let Incoming { x, block, edges, .. } = edges;
    ConvInput { x: x.clone(), x_dst: None, block, edges: edges.clone(), pass, activation }
}

fn entry(models: &'static [ModelName], name: &str) -> Option<&'static ModelName> {
    models.iter().find(|model| model.name == name)
}

/// Adds the preset of a name and the defaults of flags to the given values.
fn complete(name: &ModelName, flags: &[ConvFlag], mut values: FlagValues) -> FlagValues {
    for flag in flags {
        if values.contains_key(flag.name) {
            continue;
        }
        let default = match (flag.kind, flag.default) {
            (FlagKind::Switch, _) => Some(Value::Bool(false)),
            (kind, Some(default)) => Some(kind.parse(default).expect("a flag accepts its default")),
            (_, None) => None,
        };
        if let Some(default) = default {
            values.insert(flag.name.to_owned(), default);
        }
    }
    for (setting, value) in name.preset {
        values.insert((*setting).to_owned(), (*value).into());
    }
    values
}

/// Returns the first name whose preset the settings have.
fn name_of<S: ConvSettings>(settings: &S) -> &'static str {
    let fields = serde_json::to_value(settings).unwrap_or_default();
    let matches = |model: &&ModelName| model.preset.iter().all(|(setting, value)| fields[*setting] == *value);
    S::MODELS.iter().find(matches).map_or(S::NAME, |model| model.name)
}

fn tagged<T: Serializer, S: ConvSettings>(serializer: T, settings: &S) -> Result<T::Ok, T::Error> {
    let value = serde_json::to_value(settings).map_err(serde::ser::Error::custom)?;
    if value.is_null() {
        return serializer.serialize_str(S::NAME);
    }
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry(S::NAME, settings)?;
    map.end()
}

fn name_and_settings<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(String, Value), D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(name) => Ok((name, Value::Null)),
        Value::Object(entries) if entries.len() == 1 => {
            let (name, settings) = entries.into_iter().next().expect("the object has one entry");
            Ok((name, settings))
        }
        other => Err(D::Error::custom(format!("{other} is not a convolution: expected a name, or its settings"))),
    }
}
