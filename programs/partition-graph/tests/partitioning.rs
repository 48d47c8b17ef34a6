//! Tests of partitioning and of the program `partition-graph`.

mod accepted_configurations;
mod corruption;
mod data_notes;
mod gconstruct_keys;
mod golden;
mod graphs;
mod malformed_tables;
mod memory_limit;
mod methods;
mod object_stores;
mod oracle;
mod output;
mod plan;
mod program;
mod scratch_parts;
mod table_features;
mod table_files;
mod table_forms;
mod table_splits;
mod table_values;
mod tables;
mod update_kinds;
mod update_oracle;
mod update_rules;
mod update_splits;
mod updates;
