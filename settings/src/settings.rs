//! Declarations of settings.

use crate::flag::Flag;
use crate::flag_value::FlagValue;

/// A setting with a flag.
pub struct Field<'a> {
    /// The name of the field.
    pub name: &'static str,
    /// The description for `--help`.
    pub help: &'static str,
    /// The flag.
    pub flag: Flag,
    /// The value.
    pub value: &'a mut dyn FlagValue,
}

/// Settings that [`settings!`](crate::settings!) declares.
pub trait Settings: Clone + std::fmt::Debug {
    /// Returns the settings with flags, in the order of the declaration.
    fn fields(&mut self) -> Vec<Field<'_>>;
}

/// Declares a struct of settings with their defaults, and the flags of those that have one. The doc comment of a field with
/// a flag is the description of the flag in `--help`.
#[macro_export]
macro_rules! settings {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[doc = $doc:literal])* pub $field:ident: $type:ty = $default:expr $(=> $flag:expr)?;)*
        }
    ) => {
        $(#[$meta])*
        pub struct $name {
            $($(#[doc = $doc])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $crate::Settings for $name {
            fn fields(&mut self) -> Vec<$crate::Field<'_>> {
                let mut fields = Vec::new();
                $($crate::add_field!(fields, self.$field, stringify!($field), concat!($($doc),*), $($flag)?);)*
                fields
            }
        }
    };
}

/// Adds a setting to a list if it has a flag.
#[doc(hidden)]
#[macro_export]
macro_rules! add_field {
    ($fields:ident, $value:expr, $name:expr, $doc:expr,) => {};
    ($fields:ident, $value:expr, $name:expr, $doc:expr, $flag:expr) => {
        $fields.push($crate::Field { name: $name, help: $doc.trim_start(), flag: $flag, value: &mut $value });
    };
}
