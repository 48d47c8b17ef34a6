//! The labels of a table and their splits.

use super::features::missing_values;
use super::tables::read_time_column;
use crate::config_values::{Item, Object};
use crate::saved_split::SplitBy;
use crate::table::NaValues;
use edgecut_graph::{Share, is_folder_name};
use edgecut_settings::suggestion;

/// A label of nodes or edges, or the edges to hold out.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    /// The path of the label in the configuration, for errors.
    pub(crate) at: String,
    /// The column of labels. Edges to hold out have none.
    pub(crate) column: Option<LabelColumn>,
    /// The rule that divides nodes or edges over the splits.
    pub(crate) split: SplitRule,
    /// The keys of the rule that are given. Defaults are in place of the others.
    pub(crate) given: GivenKeys,
}

/// The keys of a rule of splits that a configuration has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GivenKeys {
    /// True if `split_pct` is given.
    pub(crate) shares: bool,
    /// True if `split_by` or `split_by_group` is given.
    pub(crate) by: bool,
}

/// A column of labels.
#[derive(Clone, Debug)]
pub(crate) struct LabelColumn {
    pub(crate) name: String,
    /// True if the values are numbers to predict, and not classes.
    pub(crate) is_regression: bool,
    /// The separator of several labels in a text.
    pub(crate) separator: Option<String>,
    /// The values that are missing, beside those of the table.
    pub(crate) missing_values: Option<NaValues>,
}

/// The division into training, validation and test.
#[derive(Clone, Debug)]
pub(crate) enum SplitRule {
    /// The share of each split.
    Shares { shares: [Share; 3], by: SplitBy },
    /// Files with the ids of each split.
    Files(SplitFiles),
}

/// The files with the ids of each split.
#[derive(Clone, Debug, Default)]
pub(crate) struct SplitFiles {
    /// Paths or patterns for training, validation and test.
    pub(crate) files: [Vec<String>; 3],
    /// The columns of ids in Parquet files.
    pub(crate) columns: Vec<String>,
}

impl Label {
    /// Reads the labels of a node table.
    pub(super) fn of_nodes(object: &Object, unsupported: &mut Vec<String>) -> Result<Vec<Self>, String> {
        let labels = Self::read_list(object, unsupported, |task| match task {
            "classification" | "regression" => Ok(true),
            "reconstruct_node_feat" => Err("the task reconstruct_node_feat".into()),
            _ => Ok(false),
        })?;
        for (at, label) in labels.iter().enumerate() {
            let other = labels[..at].iter().find(|other| other.name() == label.name());
            if let Some(other) = other {
                return Err(format!(
                    "{}.label_col: {} has the column {} already, and labels are known by their columns: add a copy of the column \
                     with another name",
                    label.at,
                    other.at,
                    label.name()
                ));
            }
            // Parts find several labels by their names, which are folders.
            if labels.len() > 1 && !is_folder_name(label.name()) {
                return Err(format!(
                    "{}.label_col: the column {:?} cannot be a folder name, as the name of each of several labels has to be: \
                     add a copy of the column with another name",
                    label.at,
                    label.name()
                ));
            }
        }
        Ok(labels)
    }

    /// Reads the labels of an edge table, of which one is used.
    pub(super) fn of_edges(object: &Object, unsupported: &mut Vec<String>) -> Result<Option<Self>, String> {
        let mut labels = Self::read_list(object, unsupported, |task| match task {
            "link_prediction" | "classification" | "regression" => Ok(true),
            "reconstruct_edge_feat" => Err("the task reconstruct_edge_feat".into()),
            _ => Ok(false),
        })?;
        // Classes come before numbers.
        labels.sort_by_key(Self::is_regression);
        let left_out = labels.iter().skip(1);
        unsupported.extend(left_out.map(|label| format!("{}: more than one label of edges", label.at)));
        labels.truncate(1);
        Ok(labels.pop())
    }

    /// Reads the key `labels`. `supports` returns true for a supported task, false for an unknown one, and the reason
    /// for one that is left out.
    fn read_list(
        object: &Object,
        unsupported: &mut Vec<String>,
        supports: impl Fn(&str) -> Result<bool, String>,
    ) -> Result<Vec<Self>, String> {
        let mut read = Vec::new();
        let Some(list) = object.get("labels") else { return Ok(read) };
        let items = list.list()?;
        if items.is_empty() {
            return list.wrong("the list is empty: leave out the key");
        }
        for item in items {
            let label = item.object()?;
            label.only(&[
                "task_type",
                "label_col",
                "split_pct",
                "custom_split_filenames",
                "label_stats_type",
                "mask_field_names",
                "separator",
                "missing_values",
                "split_by",
                "split_by_group",
            ])?;
            let task = label.required("task_type")?;
            match supports(&task.text()?) {
                Err(why) => unsupported.push(format!("{}: {why}", item.path)),
                Ok(false) => {
                    let hint = suggestion(&task.text()?, ["classification", "regression", "link_prediction"]);
                    return task.wrong(format!("{:?} is not a task of these tables{hint}", task.text()?));
                }
                Ok(true) => {
                    if task.text()? == "link_prediction" && label.get("label_col").is_some() {
                        unsupported.push(format!("{}.label_col: link prediction reads no labels", item.path));
                    }
                    read.extend(Self::read(&item, &label, &task.text()?)?);
                }
            }
        }
        Ok(read)
    }

    /// Returns the name of the label, which is the name of its column.
    pub(crate) fn name(&self) -> &str {
        self.column.as_ref().map_or("", |column| &column.name)
    }

    /// Returns the column that decides about splits, if one does. Edges to hold out are divided by their times, which are
    /// read already.
    pub(crate) fn split_by(&self) -> Option<&SplitBy> {
        match &self.split {
            SplitRule::Shares { by: SplitBy::Random, .. } | SplitRule::Files(_) => None,
            SplitRule::Shares { by, .. } => self.column.as_ref().map(|_| by),
        }
    }

    fn is_regression(&self) -> bool {
        self.column.as_ref().is_some_and(|column| column.is_regression)
    }

    /// Reads the labels of an entry, one for each column.
    fn read(item: &Item, object: &Object, task: &str) -> Result<Vec<Self>, String> {
        let has_column = task != "link_prediction";
        let names = object.get("label_col").map_or(Ok(Vec::new()), |columns| columns.texts())?;
        let separator = object.text("separator")?;
        if has_column && names.is_empty() {
            return Err(format!("{}.label_col: it is missing", item.path));
        }
        if let Some(separator) = object.get("separator").filter(|_| !has_column) {
            return separator.wrong("only labels in a column have a separator");
        }
        let mut missing_values = missing_values(object)?;
        if task == "classification" && separator.is_none() {
            // -1 is no class, and counts as missing.
            let no_class = NaValues::new(vec!["-1".into()]);
            missing_values = Some(missing_values.map_or(no_class.clone(), |given| given.with(&no_class)));
        }
        if let Some(values) = object.get("missing_values").filter(|_| !has_column) {
            return values.wrong("only labels in a column have missing values");
        }
        let by = SplitBy::read(object, has_column)?;
        let split = match (object.get("custom_split_filenames"), object.get("split_pct")) {
            // GraphStorm ignores the shares as well.
            (Some(files), _) => SplitRule::Files(SplitFiles::read(&files)?),
            (None, Some(shares)) => SplitRule::Shares { shares: read_shares(&shares)?, by },
            (None, None) => SplitRule::Shares { shares: exact([0.8, 0.1, 0.1])?, by },
        };
        let given = GivenKeys {
            shares: object.get("split_pct").is_some(),
            by: object.get("split_by").is_some() || object.get("split_by_group").is_some(),
        };
        let held_out = Self { at: item.path.clone(), column: None, split, given };
        if !has_column {
            return Ok(vec![held_out]);
        }
        let mut labels = Vec::with_capacity(names.len());
        for name in names {
            let column = LabelColumn {
                name,
                is_regression: task == "regression",
                separator: separator.clone(),
                missing_values: missing_values.clone(),
            };
            labels.push(Self { column: Some(column), ..held_out.clone() });
        }
        Ok(labels)
    }
}

impl SplitBy {
    /// Reads the keys `split_by` and `split_by_group`.
    fn read(object: &Object, has_column: bool) -> Result<Self, String> {
        let time = read_time_column(object, "split_by")?;
        let group = object.text("split_by_group")?;
        for key in ["split_by", "split_by_group"] {
            if let Some(item) = object.get(key).filter(|_| object.get("custom_split_filenames").is_some()) {
                return item.wrong("custom_split_filenames lists the rows of each split: leave one of the two out");
            }
        }
        if let Some(item) = object.get("split_by").filter(|item| !has_column && item.is_object()) {
            return item.wrong(
                "edges are held out by their time_col, which has the form of its times: give the name of the column",
            );
        }
        match (time, group) {
            (None, None) => Ok(Self::Random),
            (Some(time), None) => Ok(Self::Time(time)),
            (None, Some(_)) if !has_column => {
                object.required("split_by_group")?.wrong("edges are not held out by group")
            }
            (None, Some(group)) => Ok(Self::Group(group)),
            (Some(_), Some(_)) => object.required("split_by_group")?.wrong("split_by is given already: choose one"),
        }
    }
}

fn read_shares(item: &Item) -> Result<[Share; 3], String> {
    let Ok(shares) = <[f64; 3]>::try_from(item.numbers()?) else {
        return item.wrong("expected the shares of training, validation and test, such as [0.8, 0.1, 0.1]");
    };
    // Shares like 0.7, 0.2 and 0.1 may exceed 1 by rounding.
    if shares.iter().any(|&share| share < 0.0) || shares.iter().sum::<f64>() > 1.0 + 1e-9 {
        return item.wrong("expected shares that are not negative, and not more than 1 together");
    }
    exact(shares).or_else(|why| item.wrong(why))
}

fn exact([train, valid, test]: [f64; 3]) -> Result<[Share; 3], String> {
    Ok([Share::new(train)?, Share::new(valid)?, Share::new(test)?])
}

impl SplitFiles {
    fn read(item: &Item) -> Result<Self, String> {
        let object = item.object()?;
        object.only(&["train", "valid", "test", "column"])?;
        let texts = |key: &str| object.get(key).filter(|item| !item.is_empty()).map_or(Ok(Vec::new()), |i| i.texts());
        let files = [texts("train")?, texts("valid")?, texts("test")?];
        if files.iter().all(Vec::is_empty) {
            return item.wrong("it names no file");
        }
        Ok(Self { files, columns: texts("column")? })
    }
}
