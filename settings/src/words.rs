//! Enums whose values are words.

/// A value of an enum of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word.
    pub name: &'static str,
    /// The description for `--help`; empty if the flag describes its words.
    pub about: &'static str,
}

/// Returns an error about a word that is none of the known ones.
#[doc(hidden)]
pub fn unknown_word(what: &str, word: &str, known: &[Word]) -> String {
    let names: Vec<&str> = known.iter().map(|word| word.name).collect();
    crate::unknown(what, word, &names)
}

/// Gives the values of an enum without fields their words, by which they are parsed, printed and set by flags:
/// `words!(Rule, "rule", Plain = "plain", Nesterov = "nesterov" | "nag": "Looks ahead")`. Further words after `|` are
/// accepted too. The text after `:` describes the value in `--help`.
#[macro_export]
macro_rules! words {
    ($type:ty, $what:literal, $($variant:ident = $word:literal $(| $alias:literal)* $(: $about:literal)?),+ $(,)?) => {
        impl $type {
            /// The words of all values.
            pub const WORDS: &'static [$crate::Word] =
                &[$($crate::Word { name: $word, about: concat!($($about)?) }),+];
        }

        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(match self {
                    $(Self::$variant => $word,)+
                })
            }
        }

        impl ::std::str::FromStr for $type {
            type Err = String;

            fn from_str(word: &str) -> Result<Self, String> {
                match word {
                    $($word $(| $alias)* => Ok(Self::$variant),)+
                    _ => Err($crate::unknown_word($what, word, Self::WORDS)),
                }
            }
        }

        $crate::text_value!($type, Self::WORDS);
    };
}

/// Lets flags set a type by the text that it parses and prints.
#[macro_export]
macro_rules! text_value {
    ($type:ty $(, $words:expr $(, $shape:expr)?)?) => {
        impl $crate::FlagValue for $type {
            fn set(&mut self, text: &str) -> Result<(), String> {
                *self = text.parse()?;
                Ok(())
            }

            fn text(&self) -> Option<String> {
                Some(self.to_string())
            }

            fn to_json(&self) -> $crate::Value {
                self.to_string().into()
            }

            $(fn words(&self) -> &'static [$crate::Word] {
                $words
            }

            $(fn shape(&self) -> $crate::Shape {
                $shape
            })?)?
        }
    };
}
