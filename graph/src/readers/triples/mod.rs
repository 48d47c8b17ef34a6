//! Knowledge graphs as triples.

mod read;
mod vocabulary;

pub(super) use read::find_train_triples;
pub use read::read_triples;
