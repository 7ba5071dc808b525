use crate::commands::files::check_writable;
use crate::output::print;
use crate::table::{counted, grouped};
use anyhow::{Context, Result};
use flipcast_images::dataset::list_objects;
use flipcast_record::write_atomically;
use std::path::PathBuf;

/// List the images of an object store once, for the shards of an estimate.
///
/// `--data FILE` then means what `--data ADDRESS` means, without asking the store for every name again. The file is a picture of the moment: objects that come later are not in it,
/// and one that is gone or has another length is an error when it is read.
#[derive(clap::Args)]
pub struct Args {
    /// A prefix, such as `s3://bucket/prefix`
    address: String,
    /// Where the list is written
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub fn run(args: &Args) -> Result<()> {
    check_writable(&args.out)?;
    let (images, text) = list_objects(&args.address).with_context(|| format!("cannot list `{}`", args.address))?;
    write_atomically(&args.out, text.as_bytes())?;
    let bytes = grouped(text.len());
    print(&format!(
        "{}: {} listed in `{}`, {bytes} bytes\n",
        args.address,
        counted(images, "image"),
        args.out.display()
    ))
}
