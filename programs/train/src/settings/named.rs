//! Values that a list describes.

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use std::error::Error;
use std::ffi::OsStr;

/// The error of a value.
pub(crate) type ParseError = Box<dyn Error + Send + Sync>;

/// A parser of values that a list describes, which help and errors show.
#[derive(Clone)]
pub(crate) struct Named<P> {
    /// The names and descriptions.
    pub(crate) all: Vec<(&'static str, &'static str)>,
    pub(crate) parse: P,
}

impl<T, P> TypedValueParser for Named<P>
where
    T: Clone + Send + Sync + 'static,
    P: Fn(String) -> Result<T, ParseError> + Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(&self, command: &clap::Command, flag: Option<&clap::Arg>, value: &OsStr) -> Result<T, clap::Error> {
        StringValueParser::new().try_map(self.parse.clone()).parse_ref(command, flag, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.all.iter().map(|(name, about)| PossibleValue::new(*name).help(*about))))
    }
}
