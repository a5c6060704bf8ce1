//! What lies in a folder.

use std::path::{Path, PathBuf};

/// The files of a folder and of its folders.
pub fn files_under(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .flat_map(|entry| {
            let path = entry.expect("the entry can be read").path();
            if path.is_dir() {
                files_under(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}
