//! Names that are close to a misspelled one.

use strsim::osa_distance;

/// Beginnings of words that reverse their meaning.
const NEGATIONS: [&str; 7] = ["un", "non", "dis", "de", "in", "a", "anti"];
/// Words that reverse the meaning of a name.
const NEGATING_WORDS: [&str; 10] =
    ["no", "not", "non", "without", "disable", "skip", "ignore", "drop", "never", "exclude"];
/// Words that do not change the meaning of a name.
const AFFIRMING_WORDS: [&str; 3] = ["use", "with", "enable"];
/// Words of opposite meaning, some of which differ in few letters.
const OPPOSITES: [(&str, &str); 19] = [
    ("micro", "macro"),
    ("min", "max"),
    ("first", "last"),
    ("in", "out"),
    ("input", "output"),
    ("source", "dest"),
    ("source", "target"),
    ("src", "dst"),
    ("train", "test"),
    ("before", "after"),
    ("start", "end"),
    ("add", "remove"),
    ("load", "save"),
    ("include", "exclude"),
    ("with", "without"),
    ("left", "right"),
    ("head", "tail"),
    ("row", "column"),
    ("earliest", "latest"),
];

/// Returns the known name that is nearest to `name`, if few letters differ and no other name is as near.
///
/// Names that differ in case, in `-`, `_` and spaces only, or by one prefix or suffix of three letters or more, are near as
/// well. A name with the opposite meaning is not near, even if only two letters differ.
pub fn near_name<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut nearest: Option<(usize, &str)> = None;
    let mut is_tied = false;
    for candidate in known {
        let [given, known] = [plain(name), plain(candidate)];
        match opposition(&given, &known) {
            Opposition::Exact => return None,
            Opposition::Words => continue,
            Opposition::None if candidate == name || differ_in_digits(name, candidate) => continue,
            Opposition::None => {}
        }
        let Some(distance) = distance(&given, &known) else { continue };
        match nearest {
            Some((least, _)) if distance > least => {}
            Some((least, _)) if distance == least => is_tied = true,
            _ => {
                nearest = Some((distance, candidate));
                is_tied = false;
            }
        }
    }
    nearest.filter(|_| !is_tied).map(|(_, candidate)| candidate)
}

/// Returns the end of an error about an unknown name, which is empty if no known name is near.
pub fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    near_name(name, known).map_or_else(String::new, |near| format!(" (did you mean {near}?)"))
}

/// Returns an error about an unknown word, with the word that is probably meant and all known words.
pub fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    let hint = suggestion(name, known.iter().copied());
    format!("unknown {what} {name:?}{hint}: expected {}", listed(known, "or"))
}

/// Joins words as in `mean, sum or max`, with the word `conjunction` before the last one.
pub fn listed(words: &[&str], conjunction: &str) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [others @ .., last] => format!("{} {conjunction} {last}", others.join(", ")),
    }
}

/// The opposition of two names.
#[derive(Debug, PartialEq, Eq)]
enum Opposition {
    /// No words of the names have opposite meanings.
    None,
    /// Some words of the names have opposite meanings, and others differ.
    Words,
    /// The names differ in words of opposite meaning only.
    Exact,
}

/// Compares the words of two plain names.
fn opposition(one: &str, other: &str) -> Opposition {
    let [(ours, is_negated), (theirs, other_is_negated)] = [meaning(one), meaning(other)];
    if is_negated != other_is_negated && ours == theirs {
        return Opposition::Exact;
    }
    if ours.len() != theirs.len() {
        return Opposition::None;
    }
    let mut found = Opposition::None;
    let mut others_are_equal = true;
    for (word, other) in ours.iter().zip(&theirs) {
        if are_opposite(word, other) {
            found = Opposition::Words;
        } else if word != other {
            others_are_equal = false;
        }
    }
    if others_are_equal && found == Opposition::Words { Opposition::Exact } else { found }
}

/// Returns the words of a plain name that are neither negating nor affirming, and whether the others negate them.
fn meaning(name: &str) -> (Vec<&str>, bool) {
    let is_negated = name.split('_').filter(|word| NEGATING_WORDS.contains(word)).count() % 2 == 1;
    let words = name.split('_').filter(|word| !NEGATING_WORDS.contains(word) && !AFFIRMING_WORDS.contains(word));
    (words.collect(), is_negated)
}

fn are_opposite(word: &str, other: &str) -> bool {
    let is_pair = OPPOSITES.iter().any(|&pair| pair == (word, other) || pair == (other, word));
    is_pair || negates(word, other) || negates(other, word)
}

/// Returns true if `word` is the negation of `other`, as `undirected` of `directed`.
fn negates(word: &str, other: &str) -> bool {
    NEGATIONS.iter().any(|negation| word.strip_prefix(negation) == Some(other))
}

/// Returns true for names such as `part1` and `part2`, which are meant to differ.
fn differ_in_digits(one: &str, other: &str) -> bool {
    let has_digits = |name: &str| name.contains(|c: char| c.is_ascii_digit());
    let without_digits = |name: &str| name.replace(|c: char| c.is_ascii_digit(), "");
    has_digits(one) && has_digits(other) && without_digits(one) == without_digits(other)
}

/// Returns the letters of a name in one case, with one sign in place of all separators.
fn plain(name: &str) -> String {
    name.chars().flat_map(char::to_lowercase).map(|c| if matches!(c, '-' | ' ' | '.') { '_' } else { c }).collect()
}

/// Returns the number of letters that differ between two names, where swapped neighbors count once, or `None` for names that
/// are not near.
fn distance(one: &str, other: &str) -> Option<usize> {
    let shorter = one.chars().count().min(other.chars().count());
    // One letter in three, so that names of one or two letters are near to nothing.
    let limit = (shorter / 3).min(3);
    let found = osa_distance(one, other);
    if found <= limit {
        return Some(found);
    }
    let is_extended = shorter >= 3 && (is_end_word(one, other) || is_end_word(other, one));
    is_extended.then_some(limit + 1)
}

/// Returns true if a name is the first or the last word of a longer one.
fn is_end_word(name: &str, longer: &str) -> bool {
    let is_first = longer.strip_prefix(name).is_some_and(|rest| rest.starts_with('_'));
    is_first || longer.strip_suffix(name).is_some_and(|rest| rest.ends_with('_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_clearly_nearest_name_is_suggested() {
        for (name, known, expected) in [
            ("node_typ", vec!["node_type", "files"], Some("node_type")),
            ("Files", vec!["files"], Some("files")),
            ("weight-col", vec!["weight_col", "time_col"], Some("weight_col")),
            ("fiels", vec!["files"], Some("files")),
            ("separator", vec!["impute", "format"], None),
            ("time", vec!["time_col", "files"], Some("time_col")),
            // Nothing is near to a name of two letters, and two names are equally near.
            ("x", vec!["y"], None),
            ("item_c", vec!["item_a", "item_b"], None),
            ("item", vec!["item"], None),
            ("paper-2020", vec!["paper-2019"], None),
            // The opposite is not meant.
            ("max-rows", vec!["min-rows"], None),
            ("undirected", vec!["directed"], None),
            ("no-shuffle", vec!["shuffle"], None),
            ("src_col", vec!["dst_col"], None),
            ("num-neighbours", vec!["num-neighbors", "num-negatives"], Some("num-neighbors")),
            ("max-rosw", vec!["min-rows", "max-rows"], Some("max-rows")),
            ("to-directed", vec!["to-undirected", "to-undirect"], None),
            ("disable-overwrite", vec!["overwrite"], None),
            ("skip-overwrite", vec!["overwrite"], None),
            ("async-binary", vec!["sync-binary"], None),
            ("use-edge-features", vec!["no-edge-features"], None),
            ("micro-precision", vec!["macro-precision"], None),
            ("no-save-model", vec!["save-model", "model"], None),
        ] {
            assert_eq!(near_name(name, known.iter().copied()), expected, "{name}");
        }
    }
}
