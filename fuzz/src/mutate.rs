//! Mutations of bytes.

use crate::choices::Choices;

/// The longest piece that a mutation inserts, removes or copies.
const MAX_PIECE: usize = 64;
/// The largest input. Mutations that insert stop there.
const MAX_BYTES: usize = 1 << 16;
/// Numbers at which programs err.
const NUMBERS: [u64; 16] = [
    0,
    1,
    2,
    7,
    127,
    255,
    256,
    32_767,
    65_535,
    65_536,
    0x7fff_ffff,
    0xffff_fffe,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_ffff_fffe,
    0xffff_ffff_ffff_ffff,
];
/// Texts at which parsers err.
const TEXTS: [&str; 24] = [
    "",
    "0",
    "-0",
    "-1",
    "00",
    "1e309",
    "-1e-400",
    "nan",
    "NaN",
    "inf",
    "0x10",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775809",
    "1.5",
    "\n",
    "\r\n",
    "\t",
    "\"",
    "null",
    "{}",
    "\u{fffd}",
];

/// Applies one to five random mutations to `bytes`. `others` are further inputs, from which pieces are taken.
pub(crate) fn mutate(bytes: &mut Vec<u8>, others: &[&[u8]], choices: &mut Choices) {
    loop {
        mutate_once(bytes, others, choices);
        if choices.below(5) < 2 {
            return;
        }
    }
}

fn mutate_once(bytes: &mut Vec<u8>, others: &[&[u8]], choices: &mut Choices) {
    if bytes.is_empty() {
        bytes.push(choices.byte());
        return;
    }
    let at = choices.below(bytes.len());
    let end = (at + 1 + choices.below(MAX_PIECE)).min(bytes.len());
    match choices.below(13) {
        0 => bytes[at] ^= 1 << choices.below(8),
        1 => bytes[at] = choices.byte(),
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(at..end)),
        4 => insert(bytes, at, &(0..=choices.below(8)).map(|_| choices.byte()).collect::<Vec<u8>>()),
        5 => {
            let piece = bytes[at..end].to_vec();
            insert(bytes, at, &piece);
        }
        6 | 7 => overwrite_number(bytes, at, choices),
        8 => replace_digits(bytes, at, choices),
        9 => insert(bytes, at, choices.of(&TEXTS).as_bytes()),
        10 => change_line(bytes, at, choices),
        11 => {
            let other = choices.of(others);
            let from = choices.below(other.len() + 1);
            let to = (from + choices.below(MAX_PIECE)).min(other.len());
            insert(bytes, at, &other[from..to]);
        }
        _ => {
            let other = choices.below(bytes.len());
            bytes.swap(at, other);
        }
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    if bytes.len() + piece.len() <= MAX_BYTES {
        bytes.splice(at..at, piece.iter().copied());
    }
}

/// Writes a little-endian number of 1 to 8 bytes, often at a multiple of its size.
fn overwrite_number(bytes: &mut [u8], at: usize, choices: &mut Choices) {
    let size = 1 << choices.below(4);
    let at = if choices.once_in(4) { at } else { at / size * size };
    let value = if choices.once_in(3) { choices.below(40) as u64 } else { *choices.of(&NUMBERS) };
    let length = size.min(bytes.len() - at);
    bytes[at..at + length].copy_from_slice(&value.to_le_bytes()[..length]);
}

/// Replaces the next decimal number by another text.
fn replace_digits(bytes: &mut Vec<u8>, at: usize, choices: &mut Choices) {
    let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|skipped| at + skipped) else { return };
    let end = start + bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let text = match choices.below(3) {
        0 => choices.below(40).to_string(),
        1 => choices.of(&NUMBERS).to_string(),
        _ => (*choices.of(&TEXTS)).to_owned(),
    };
    bytes.splice(start..end, text.bytes());
}

/// Removes, repeats or moves the line at `at`.
fn change_line(bytes: &mut Vec<u8>, at: usize, choices: &mut Choices) {
    let start = bytes[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let end = bytes[at..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |length| at + length + 1);
    let line = bytes[start..end].to_vec();
    match choices.below(3) {
        0 => drop(bytes.drain(start..end)),
        1 => insert(bytes, end, &line),
        _ => {
            bytes.drain(start..end);
            let to = choices.below(bytes.len() + 1);
            insert(bytes, to, &line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutations_depend_on_the_seed_and_the_number_only() {
        let changed = |seed, number| {
            let mut bytes = b"1,2\n3,4\nabc".to_vec();
            mutate(&mut bytes, &[b"other"], &mut Choices::new(seed, "target", number));
            bytes
        };
        assert!((0..100).all(|number| changed(1, number) == changed(1, number)));
        let differing = (0..100).filter(|&number| changed(1, number) != changed(2, number)).count();
        assert!(differing > 90, "{differing}");
    }

    #[test]
    fn any_bytes_can_be_mutated() {
        let mut bytes = Vec::new();
        for number in 0..20_000 {
            mutate(&mut bytes, &[b"", b"7\n"], &mut Choices::new(3, "target", number));
            assert!(bytes.len() <= MAX_BYTES + 20);
        }
    }
}
