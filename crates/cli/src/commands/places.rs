//! Paths that must be there, and what to say when they are not.

use crate::failure::Advised;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// Most entries of a folder that a hint names.
const MAX_NAMED: usize = 5;

/// Refuses a path that does not exist; the hint says what was `expected` there and what is in the nearest folder that does.
pub fn check_there(path: &Path, expected: &str) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let folder = nearest_folder(path);
    let mut hint = format!("expected {expected}; `{}` ", folder.display());
    let names = record_places(&folder);
    hint += &match names.as_slice() {
        [] => "is the nearest folder there is, and holds no folders and no record files".to_owned(),
        names if names.len() > MAX_NAMED => {
            format!("holds {} and {} more", quoted(&names[..MAX_NAMED]), names.len() - MAX_NAMED)
        }
        names => format!("holds {}", quoted(names)),
    };
    Err(Advised { problem: format!("`{}` does not exist", path.display()), hint }.into())
}

/// Paths without those that lead to the same file as an earlier one.
pub fn without_repeats(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    let mut known: Vec<PathBuf> = Vec::new();
    paths.retain(|path| {
        // What cannot be followed is refused when it is read.
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        let is_new = !known.contains(&real);
        known.push(real);
        is_new
    });
    paths
}

fn nearest_folder(path: &Path) -> PathBuf {
    let there = path.ancestors().skip(1).find(|folder| folder.is_dir());
    there.map_or_else(|| PathBuf::from("."), Path::to_owned)
}

/// Folders and record files in a folder, by name.
fn record_places(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_record = name.ends_with(".jsonl") || name.ends_with(".jsonl.gz");
            match path.is_dir() {
                true if !name.starts_with('.') => Some(name + "/"),
                false if is_record => Some(name),
                _ => None,
            }
        })
        .collect();
    names.sort();
    names
}

fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
