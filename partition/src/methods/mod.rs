//! The methods that assign nodes to parts, and what they balance.

pub(crate) mod constraints;
pub(crate) mod joined;
pub(crate) mod ldg;
pub(crate) mod loads;
pub(crate) mod metis;
pub(crate) mod random;
pub(crate) mod repair;
pub(crate) mod semi_external;
pub(crate) mod symmetric;
