//! How a checkout's files are had: one private folder, or layers that the kernel puts on top of each other for the program
//! that works in them. Says where things are; makes nothing.

use crate::proc::What;
use std::path::{Path, PathBuf};

/// The files of one checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Files {
    /// One folder that holds everything: a private copy.
    Folder(PathBuf),
    /// Shared layers, the first on top, below a private one that takes the changes.
    Overlay {
        /// The layers below; nobody ever writes to them.
        lower: Vec<PathBuf>,
        /// What was changed.
        upper: PathBuf,
        /// The kernel's scratch folder.
        work: PathBuf,
    },
    /// Shared layers, the first on top, for reading.
    Layers(Vec<PathBuf>),
}

impl Files {
    /// As a place that can be changed; layers without a private one stay read-only.
    #[must_use]
    pub fn writable(&self) -> What {
        match self {
            Self::Folder(path) => What::Writable(path.clone()),
            Self::Overlay { lower, upper, work } => {
                What::Overlay { lower: lower.clone(), upper: upper.clone(), work: work.clone() }
            }
            Self::Layers(layers) => What::Layers(layers.clone()),
        }
    }

    /// As a place that can only be read.
    #[must_use]
    pub fn read_only(&self) -> What {
        match self {
            Self::Folder(path) => What::ReadOnly(path.clone()),
            Self::Overlay { lower, upper, .. } => What::Layers(std::iter::once(upper).chain(lower).cloned().collect()),
            Self::Layers(layers) => What::Layers(layers.clone()),
        }
    }

    /// The host's folder in which whatever a program wrote is found.
    #[must_use]
    pub fn written(&self) -> Option<&Path> {
        match self {
            Self::Folder(path) | Self::Overlay { upper: path, .. } => Some(path),
            Self::Layers(_) => None,
        }
    }
}
