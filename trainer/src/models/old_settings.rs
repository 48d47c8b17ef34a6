//! The settings in model files of earlier versions.

use serde::de::Error;
use serde_json::{Map, Value, json};

/// Converts the settings of a network from the forms of earlier versions to the current one.
///
/// A network without encoders had the entries `in_channels` and `num_classes` in place of `graph`, `outputs` and
/// `encoders`. A network for whole graphs also had `conv` in place of `kind`, and its `dropout` was on the pooled rows.
///
/// # Errors
/// Settings that lack an entry.
pub(super) fn current(settings: Value) -> Result<Value, serde_json::Error> {
    let Value::Object(mut entries) = settings else { return Ok(settings) };
    if entries.contains_key("graph") {
        return Ok(Value::Object(entries));
    }
    let feature_dim = take(&mut entries, "in_channels")?;
    let channels = take(&mut entries, "num_classes")?;
    let current = json!({
        "encoders": false,
        "graph": {
            "node_types": [{"name": "node", "feature_dim": feature_dim}],
            "edge_types": [{"src": 0, "relation": "edge", "dst": 0}],
        },
        "outputs": [{"node_type": 0, "channels": channels}],
        "relation_aggregation": "sum",
    });
    // The first versions had neither residuals nor normalisation.
    let defaults = json!({"residual": false, "layer_norm": false});
    if let Some(kind) = entries.remove("conv") {
        let aggregation = take(&mut entries, "pooling")?;
        let dropout = take(&mut entries, "dropout")?;
        entries.insert("kind".to_owned(), kind);
        entries.insert("pooling".to_owned(), json!({"aggregation": aggregation, "dropout": dropout}));
        entries.extend(object(json!({"dropout": 0.0, "input_dropout": 0.0, "normalize_features": false})));
    }
    let mut all = object(defaults);
    all.extend(entries);
    all.extend(object(current));
    Ok(Value::Object(all))
}

fn take(entries: &mut Map<String, Value>, name: &'static str) -> Result<Value, serde_json::Error> {
    entries.remove(name).ok_or_else(|| Error::missing_field(name))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(entries) => entries,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NetworkConfig, Pooling, Readout};
    use edgecut_gnn::nn::{Aggregation, ConvKind, GcnSettings, GinSettings};
    use edgecut_testing::assert_has;

    #[test]
    fn settings_of_earlier_versions_are_read() {
        let stack = r#"{"kind":"gcn","in_channels":7,"hidden_channels":8,"num_classes":3,"num_layers":2,"residual":false,
            "layer_norm":true,"dropout":0.5,"input_dropout":0.25,"normalize_features":true}"#;
        let config = NetworkConfig {
            layer_norm: true,
            dropout: 0.5,
            input_dropout: 0.25,
            normalize_features: true,
            ..NetworkConfig::stack(ConvKind::Gcn(GcnSettings), 7, 8, 3, 2)
        };
        assert_eq!(NetworkConfig::from_json(stack).expect("settings"), config);
        let first = stack.replace("\"residual\":false,", "").replace("\"layer_norm\":true,", "");
        assert_eq!(NetworkConfig::from_json(&first).expect("settings"), NetworkConfig { layer_norm: false, ..config });

        let graphs = r#"{"conv":{"gin":{"mlp_layers":2,"learn_epsilon":true}},"in_channels":7,"hidden_channels":8,
            "num_classes":3,"num_layers":2,"pooling":"max","readout":"last","batch_norm":true,"dropout":0.5}"#;
        let kind = ConvKind::Gin(GinSettings { mlp_layers: 2, learn_epsilon: true });
        let config = NetworkConfig {
            readout: Readout::Last,
            pooling: Some(Pooling { aggregation: Aggregation::Max, dropout: 0.5 }),
            ..NetworkConfig::whole_graphs(kind, 7, 8, 3, 2)
        };
        assert_eq!(NetworkConfig::from_json(graphs).expect("settings"), config);
        for (json, what) in [
            (stack.replace("hidden_channels", "width"), "unknown field `width`"),
            (stack.replace("\"in_channels\":7,", ""), "missing field `in_channels`"),
        ] {
            assert_has(NetworkConfig::from_json(&json).expect_err("other settings").to_string(), &[what]);
        }
    }
}
