//! `flipcast study merge`.

use crate::commands::files::check_writable;
use crate::commands::places::{check_there, without_repeats};
use crate::failure::Advised;
use crate::output::print;
use crate::table::grouped;
use anyhow::Result;
use flipcast_record::{RecordFolder, Records, merge_records, write_atomically};
use std::path::PathBuf;

/// Join the records of several shards or machines into one file.
///
/// A record that several files hold counts once. Different results for the same protocol are refused, times aside.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Folders of `study run`, or record files
    #[arg(required = true, value_name = "FOLDER")]
    inputs: Vec<PathBuf>,
    /// Where the joined records are written
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    check_writable(&args.out)?;
    let mut paths = Vec::new();
    for input in &args.inputs {
        check_there(input, "a folder that `flipcast study run --out` wrote to, or a record file")?;
        if !input.is_dir() {
            paths.push(input.clone());
            continue;
        }
        let folder = RecordFolder::open(input, None)?;
        let before = paths.len();
        paths.extend(folder.files().map(ToOwned::to_owned));
        if paths.len() == before {
            return Err(Advised {
                problem: format!("`{}` holds no record files", input.display()),
                hint: "give the folder that `flipcast study run --out` wrote to".to_owned(),
            }
            .into());
        }
    }
    let paths = without_repeats(paths);
    let mut files = Vec::new();
    for path in &paths {
        files.push((path.as_path(), Records::load(path)?));
    }
    let read: usize = files.iter().map(|(_, records)| records.len()).sum();
    let merged = merge_records(files)?;
    let mut text = String::new();
    for record in &merged {
        text += &serde_json::to_string(record)?;
        text.push('\n');
    }
    write_atomically(&args.out, text.as_bytes())?;
    print(&format!(
        "{} records of {} files, {} of them once more elsewhere\nwritten to {}\n",
        grouped(merged.len()),
        grouped(paths.len()),
        grouped(read - merged.len()),
        args.out.display()
    ))
}
