//! One word for each variant of an enum: declared once, beside the variant.

/// Declares an enum with one word for each variant, and `ALL`, `word`, `parse` and `Display`. Attributes are kept.
#[macro_export]
macro_rules! worded {
    ($(#[$attribute:meta])* $seen:vis enum $name:ident { $($(#[$about:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$attribute])*
        $seen enum $name {
            $($(#[$about])* $variant,)+
        }

        #[allow(dead_code, reason = "not every enum is read back or listed")]
        impl $name {
            /// All variants, in the order of declaration.
            $seen const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The word in files, in JSON and on screens.
            #[must_use]
            $seen fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// The variant that has this word.
            #[must_use]
            $seen fn parse(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.word() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}

pub(crate) use worded;
