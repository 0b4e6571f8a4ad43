//! The name of a shared object.

use std::{fmt, sync::Arc};

use crate::error::{Error, Result};

/// Longest name that an object can have, in bytes.
///
/// Redis itself takes up to 512 MiB; a name that long is a mistake.
pub const MAX_NAME_LEN: usize = 64 * 1024;

/// The name of a shared object: what all processes that mean the same object have to agree on.
///
/// Any UTF-8 text of 1 to [`MAX_NAME_LEN`] bytes is a name, case matters, and nothing is escaped.
/// Cheap to clone. On Redis the name is the key, as it is with Redisson; a part in braces
/// (`orders:{42}`) is a cluster hash tag.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

impl Name {
    /// Takes any text; [`Name::check`] tells whether it can be used.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The text of the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Refuses names that no backend takes.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for an empty name and for one over [`MAX_NAME_LEN`] bytes.
    pub fn check(&self) -> Result<()> {
        match self.0.len() {
            0 => Err(Error::invalid(self, "name", "it is empty")),
            1..=MAX_NAME_LEN => Ok(()),
            _ => Err(Error::invalid(self, "name", "it is longer than 64 KiB")),
        }
    }
}

impl<T: Into<Arc<str>>> From<T> for Name {
    fn from(name: T) -> Self {
        Self::new(name)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Quotes the name, and shortens one that would flood a log.
impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 120;
        match self.0.char_indices().nth(SHOWN) {
            None => write!(f, "{:?}", &*self.0),
            Some((end, _)) => write!(f, "{:?}… ({} bytes)", &self.0[..end], self.0.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_are_names() {
        for name in ["{", "}", "a b", "日本", "{}x", "a\0b"] {
            assert!(Name::new(name).check().is_ok(), "{name}");
        }
        assert!(Name::new("x".repeat(MAX_NAME_LEN)).check().is_ok());
    }

    #[test]
    fn empty_and_huge_names_are_refused() {
        assert!(matches!(Name::new("").check(), Err(Error::InvalidArgument { .. })));
        let huge = Name::new("x".repeat(MAX_NAME_LEN + 1));
        let error = huge.check().unwrap_err();
        assert!(error.to_string().len() < 300, "a huge name must not flood the log");
    }
}
