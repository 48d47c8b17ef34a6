//! Names that are close to a misspelled one.

/// Prefixes that reverse the meaning of a word.
const NEGATIONS: [&str; 8] = ["no_", "not_", "without_", "un", "non", "dis", "de", "in"];
/// Words of opposite meaning, some of which differ in few letters.
const OPPOSITES: [(&str, &str); 18] = [
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
///
/// ```
/// use edgecut_settings::near_name;
/// assert_eq!(near_name("tyme_col", ["time_col", "weight_col"]), Some("time_col"));
/// assert_eq!(near_name("itm", ["item", "user"]), Some("item"));
/// assert_eq!(near_name("author", ["paper", "venue"]), None);
/// assert_eq!(near_name("x3", ["x1", "x2"]), None);
/// assert_eq!(near_name("max_rows", ["min_rows"]), None);
/// ```
pub fn near_name<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut nearest: Option<(usize, &str)> = None;
    let mut is_tied = false;
    for candidate in known {
        let [given, known] = [plain(name), plain(candidate)];
        if candidate == name || differ_in_digits(name, candidate) || are_opposite(&given, &known) {
            continue;
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
///
/// ```
/// use edgecut_settings::suggestion;
/// assert_eq!(suggestion("itm", ["item"]), " (did you mean item?)");
/// assert_eq!(suggestion("author", ["item"]), "");
/// ```
pub fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    near_name(name, known).map_or_else(String::new, |near| format!(" (did you mean {near}?)"))
}

/// Returns an error about an unknown word, with the word that is probably meant and all known words.
///
/// ```
/// use edgecut_settings::unknown;
/// assert_eq!(unknown("rule", "plane", &["plain", "fast"]), "unknown rule \"plane\" (did you mean plain?): expected plain or fast");
/// ```
pub fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    let hint = suggestion(name, known.iter().copied());
    format!("unknown {what} {name:?}{hint}: expected {}", one_of(known))
}

/// Joins words as in `mean, sum or max`.
fn one_of(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [others @ .., last] => format!("{} or {last}", others.join(", ")),
    }
}

/// Returns true for plain names that differ in a negation, or in words of opposite meaning.
fn are_opposite(one: &[char], other: &[char]) -> bool {
    let [one, other]: [String; 2] = [one, other].map(|name| name.iter().collect());
    for negation in NEGATIONS {
        if one.strip_prefix(negation) == Some(other.as_str()) || other.strip_prefix(negation) == Some(one.as_str()) {
            return true;
        }
    }
    let [ours, theirs]: [Vec<&str>; 2] = [&one, &other].map(|name| name.split('_').collect());
    ours.len() == theirs.len()
        && ours
            .iter()
            .zip(&theirs)
            .any(|(word, other)| OPPOSITES.iter().any(|pair| *pair == (*word, *other) || *pair == (*other, *word)))
}

/// Returns true for names such as `part1` and `part2`, which are meant to differ.
fn differ_in_digits(one: &str, other: &str) -> bool {
    let has_digits = |name: &str| name.contains(|c: char| c.is_ascii_digit());
    let without_digits = |name: &str| name.replace(|c: char| c.is_ascii_digit(), "");
    has_digits(one) && has_digits(other) && without_digits(one) == without_digits(other)
}

/// Returns the letters of a name in one case, with one sign in place of all separators.
fn plain(name: &str) -> Vec<char> {
    name.chars().flat_map(char::to_lowercase).map(|c| if matches!(c, '-' | ' ' | '.') { '_' } else { c }).collect()
}

/// Returns the number of letters that differ between two names, where swapped neighbors count once, or `None` for names that
/// are not near.
fn distance(one: &[char], other: &[char]) -> Option<usize> {
    let shorter = one.len().min(other.len());
    // One letter in three, so that names of one or two letters are near to nothing.
    let limit = shorter / 3;
    let is_extended = shorter >= 3 && (starts_word(one, other) || starts_word(other, one));
    let mut before = vec![0; other.len() + 1];
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in one.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, wanted) in other.iter().enumerate() {
            let replaced = last[column] + usize::from(letter != wanted);
            let mut least = replaced.min(last[column + 1] + 1).min(next[column] + 1);
            let is_swapped =
                row > 0 && column > 0 && one[row - 1] == *wanted && other[column - 1] == *letter && letter != wanted;
            if is_swapped {
                least = least.min(before[column - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut last, next);
    }
    let found = last[other.len()];
    if found <= limit.min(3) {
        return Some(found);
    }
    is_extended.then_some(limit.min(3) + 1)
}

/// Returns true if a name is the first or the last word of a longer one.
fn starts_word(name: &[char], longer: &[char]) -> bool {
    longer.len() > name.len() && {
        let is_start = longer.starts_with(name) && longer[name.len()] == '_';
        let is_end = longer.ends_with(name) && longer[longer.len() - name.len() - 1] == '_';
        is_start || is_end
    }
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
        ] {
            assert_eq!(near_name(name, known.iter().copied()), expected, "{name}");
        }
    }
}
