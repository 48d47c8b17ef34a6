//! Slurm's compact form of a list of nodes: `n[1-3,07],gpu-[01-02]x,solo`.

/// The most nodes in a Slurm cluster. A longer list is an error.
pub(super) const MAX_NODES: usize = 65_536;

/// Expands a list into the names of the nodes, in order. If a name has several brackets, the last one varies fastest.
///
/// # Errors
/// A malformed list, or one of more than [`MAX_NODES`] nodes. The text describes the problem.
pub(crate) fn expand(list: &str) -> Result<Vec<String>, String> {
    let mut nodes = Vec::new();
    for pattern in patterns(list)? {
        let mut names = vec![String::new()];
        let mut rest = pattern;
        while let Some((before, bracket)) = rest.split_once('[') {
            let (inside, after) = bracket.split_once(']').ok_or("a bracket is not closed")?;
            let numbers = numbers(inside)?;
            // Check before expanding: a few brackets can stand for more names than fit into memory.
            if names.len() * numbers.len() > MAX_NODES {
                return Err(too_many());
            }
            names = names.iter().flat_map(|name| numbers.iter().map(move |n| format!("{name}{before}{n}"))).collect();
            rest = after;
        }
        if nodes.len() + names.len() > MAX_NODES {
            return Err(too_many());
        }
        nodes.extend(names.into_iter().map(|name| name + rest));
    }
    Ok(nodes)
}

/// Splits the list at the commas outside of brackets.
fn patterns(list: &str) -> Result<Vec<&str>, String> {
    let mut inside = false;
    let mut patterns = Vec::new();
    let mut start = 0;
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'[' | b']' if inside == (byte == b'[') => return Err("its brackets do not match".to_owned()),
            b'[' | b']' => inside = !inside,
            b',' if !inside => {
                patterns.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    patterns.push(&list[start..]);
    if patterns.iter().any(|pattern| pattern.is_empty()) {
        Err("it has an empty name".to_owned())
    } else if inside {
        Err("a bracket is not closed".to_owned())
    } else {
        Ok(patterns)
    }
}

/// Expands the text inside a bracket: `1-3,07` is 1, 2, 3, 07. The number of digits of a range's first number is the
/// minimum for the whole range.
fn numbers(inside: &str) -> Result<Vec<String>, String> {
    let mut numbers = Vec::new();
    for range in inside.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Some(from), Some(to)) = (number(first), number(last)) else {
            return Err(format!("{range:?} is neither a number nor a range of numbers"));
        };
        if from > to {
            return Err(format!("the range {range:?} runs backwards"));
        }
        if to - from >= (MAX_NODES - numbers.len()) as u64 {
            return Err(too_many());
        }
        let width = first.len();
        numbers.extend((from..=to).map(|n| format!("{n:0width$}")));
    }
    Ok(numbers)
}

/// Parses a number of at most 20 digits. `parse` alone would also accept a sign.
fn number(text: &str) -> Option<u64> {
    let is_number = text.len() <= 20 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

fn too_many() -> String {
    format!("it has more than {MAX_NODES} nodes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn brackets_are_expanded_in_order() {
        for (list, nodes) in [
            ("solo", &["solo"][..]),
            ("n[1-3,07],gpu-[01-02]x,solo", &["n1", "n2", "n3", "n07", "gpu-01x", "gpu-02x", "solo"]),
            ("n[8-11]", &["n8", "n9", "n10", "n11"]),
            ("n[098-101]", &["n098", "n099", "n100", "n101"]),
            ("r[1-2]n[3,5]", &["r1n3", "r1n5", "r2n3", "r2n5"]),
            ("127.0.0.[2-3]", &["127.0.0.2", "127.0.0.3"]),
            ("a,b", &["a", "b"]),
        ] {
            assert_eq!(expand(list).unwrap(), nodes, "{list}");
        }
    }

    #[test]
    fn what_is_no_list_is_refused_with_a_reason() {
        for (list, why) in [
            ("", "empty name"),
            ("a,,b", "empty name"),
            ("n[1-2", "not closed"),
            ("n[1-2]]", "do not match"),
            ("n[[1]]", "do not match"),
            ("n]1[", "do not match"),
            ("n[]", "neither"),
            ("n[a-b]", "neither"),
            ("n[+1]", "neither"),
            ("n[1-]", "neither"),
            ("n[99999999999999999999]", "neither"),
            ("n[3-1]", "backwards"),
            ("n[0-65536]", "more than"),
            ("n[0-18446744073709551615]", "more than"),
            ("r[0-999]n[0-999]", "more than"),
            ("n[0-65535],m", "more than"),
        ] {
            let error = expand(list).unwrap_err();
            assert!(error.contains(why), "{list}: {error}");
        }
    }

    /// Generates a pattern of a list and the nodes that it expands to, by replacing one bracket at a time.
    fn pattern() -> impl Strategy<Value = (String, Vec<String>)> {
        let range = (0u64..1200, 0u64..5, 1usize..5);
        let bracket = prop::collection::vec(range, 1..4);
        let text = "[a-z][a-z0-9.-]{0,4}";
        (text, prop::collection::vec((bracket, "[a-z.-]{0,3}"), 0..3)).prop_map(|(prefix, groups)| {
            let mut list = prefix.clone();
            let mut nodes = vec![prefix];
            for (ranges, suffix) in groups {
                let mut inside = Vec::new();
                let mut numbers = Vec::new();
                for (first, more, width) in ranges {
                    let padded: Vec<String> = (first..=first + more).map(|n| format!("{n:0width$}")).collect();
                    inside.push(if more == 0 { padded[0].clone() } else { format!("{}-{}", padded[0], first + more) });
                    numbers.extend(padded);
                }
                list += &format!("[{}]{suffix}", inside.join(","));
                let mut longer = Vec::new();
                for node in nodes {
                    longer.extend(numbers.iter().map(|n| node.clone() + n + &suffix));
                }
                nodes = longer;
            }
            (list, nodes)
        })
    }

    proptest! {
        #[test]
        fn a_list_gives_back_the_nodes_that_it_was_made_of(patterns in prop::collection::vec(pattern(), 1..5)) {
            let (lists, nodes): (Vec<_>, Vec<_>) = patterns.into_iter().unzip();
            prop_assert_eq!(expand(&lists.join(",")).unwrap(), nodes.concat());
        }

        #[test]
        fn no_text_makes_it_panic(list in "[a-c0-9,\\[\\]-]{0,24}|.{0,12}") {
            if let Ok(nodes) = expand(&list) {
                prop_assert!(!nodes.is_empty() && nodes.len() <= MAX_NODES);
            }
        }
    }
}
