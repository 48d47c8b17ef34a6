//! The transforms, a file for each.

mod bucket_numerical;
mod clip;
mod date;
mod erfinv;
mod frequency;
mod hash_buckets;
mod hash_ngrams;
mod log;
mod max_min_norm;
mod no_op;
mod rank_gauss;
mod rank_table;
mod standard;
mod to_categorical;
mod z_score;

pub(super) use bucket_numerical::BucketNumerical;
pub(super) use clip::Clip;
pub(super) use date::Date;
pub(super) use frequency::Frequency;
pub(super) use hash_buckets::HashBuckets;
pub(super) use hash_ngrams::HashNgrams;
pub(super) use log::Log;
pub(super) use max_min_norm::MaxMinNorm;
pub(super) use no_op::NoOp;
pub(super) use rank_gauss::RankGauss;
pub(super) use standard::Standard;
pub(super) use to_categorical::ToCategorical;
pub(super) use z_score::ZScore;
