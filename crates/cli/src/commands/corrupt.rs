use crate::commands::numbers::parse_count;
use crate::commands::thread_count;
use crate::failure::Advised;
use crate::interrupt::end_on_signal;
use crate::output::print;
use crate::progress::{ProgressArgs, duration};
use crate::table::grouped;
use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use flipcast_corrupt::registry::names;
use flipcast_corrupt::write::{ImageSource, Progress, WriteOptions, write_arrays, write_folder};
use flipcast_corrupt::{
    CorruptError, CorruptionSet, CorruptionSpec, Corruptor, DataSpec, FrostTextures, Severity, Storage,
};
use flipcast_images::dataset::open;
use flipcast_images::decode::decode;
use flipcast_images::preprocess::Preprocess;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::Duration;

mod resize_crop;
mod settings;
mod source;
mod stream;

use resize_crop::ResizeCrop;
use settings::Settings;
pub use settings::SettingsError;
use source::{Source, digest};
use stream::StreamArgs;

#[derive(clap::Args)]
pub struct Args {
    /// Clean images: a folder, archive, list, array or Parquet file
    #[arg(long, value_name = "IN")]
    data: String,
    /// Folder to write to; the same command goes on where an earlier one stopped
    #[arg(long)]
    out: PathBuf,
    /// Whose corruptions and constants
    #[arg(long, value_enum)]
    set: Set,
    /// Only these corruptions, by their published names; all of the set if not given
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    corruption: Vec<String>,
    /// Only these severities, 1 to 5; all five if not given
    #[arg(long, value_name = "N", num_args = 1.., value_delimiter = ',')]
    severity: Vec<String>,
    /// Seed of all random draws; 43 for `ccc`, whose published streams have 43, 44 and 45, and 0 for the others if not
    /// given
    #[arg(long)]
    seed: Option<u64>,
    /// Folder with the published frost photographs; procedural textures if not given
    #[arg(long, value_name = "FOLDER")]
    frost: Option<PathBuf>,
    /// How the images are stored; folders for the ImageNet sets and arrays for the others if not given
    #[arg(long, value_enum)]
    layout: Option<Layout>,
    /// Short side and centre crop before the corruption, such as `256,224`, or `none`; `256,224` for the ImageNet sets
    /// and `none` for the others if not given
    #[arg(long, value_name = "R,C")]
    resize_crop: Option<ResizeCrop>,
    /// Use at most N images, an even sample of all of them drawn by --seed; of a stream, and of what `ccc` makes, the first
    #[arg(long, value_name = "N", value_parser = parse_count)]
    limit: Option<usize>,
    #[command(flatten)]
    stream: StreamArgs,
    /// Threads; 0 means one per core. The files do not depend on it
    #[arg(long, default_value_t = 0)]
    threads: usize,
    #[command(flatten)]
    progress: ProgressArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Set {
    /// 19 corruptions for 224 pixels: the 15 of ImageNet-C and its 4 extra ones
    #[value(name = "imagenet-c")]
    ImageNetC,
    /// The same for 64 pixels
    #[value(name = "tiny-imagenet-c")]
    TinyImageNetC,
    /// The same for 32 pixels
    CifarC,
    /// The 10 of ImageNet-C-bar, for 224 pixels
    #[value(alias = "imagenet-c-bar")]
    CBar,
    /// The 10 of CIFAR-10-C-bar, for 32 pixels
    CifarCBar,
    /// flipcast's own 18 kinds to calibrate with, for images of any size
    Calibration,
    /// A stream of smoothly varying pairs, in WebDataset shards; needs --accuracy-tables
    Ccc,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Layout {
    /// CORRUPTION/SEVERITY/CLASS/NAME.JPEG, quality 85
    Folder,
    /// CORRUPTION.npy with the five severities one after the other, and labels.npy
    Npy,
}

pub fn run(args: &Args) -> Result<()> {
    let Some(set) = corruption_set(args.set) else {
        return stream::run(args);
    };
    args.stream.refuse_any()?;
    let seed = args.seed.unwrap_or(0);
    let layout = args.layout.unwrap_or(match set.storage() {
        Storage::None => Layout::Npy,
        Storage::Jpeg85 => Layout::Folder,
    });
    let threads = thread_count(args.threads)?;
    let specs = specs(args, set)?;
    if layout == Layout::Npy && severities(args)?.len() < Severity::ALL.len() {
        return Err(Advised {
            problem: format!("--severity is {}, but an array file holds all five severities", args.severity.join(",")),
            hint: "leave `--severity` out, or use `--layout folder`".to_owned(),
        }
        .into());
    }
    let (corruptor, frost) = corruptor(args, seed)?;
    let resize_crop = args.resize_crop.unwrap_or_else(|| ResizeCrop::of(set));
    let source = clean_images(args, resize_crop.rule()?, args.limit, seed)?;
    note_size(&source, set, &args.progress)?;
    if layout == Layout::Npy && !source.is_labelled() {
        args.progress.note("note: not every image has a label, so that `labels.npy` is not written");
    }
    let layout_name = match layout {
        Layout::Folder => "folder",
        Layout::Npy => "npy",
    };
    let settings = Settings::new(
        set.name(),
        layout_name,
        (source.len(), source.names_digest()),
        resize_crop.to_string(),
        seed,
        frost,
    );
    let refused = || format!("cannot write to `{}`", args.out.display());
    settings.claim(&args.out).with_context(refused)?;
    end_on_interrupt(&args.out)?;
    args.progress.note(&format!(
        "clean images: {}, resize and crop: {resize_crop}, corruptions of {set}: {}, seed: {seed}",
        grouped(source.len()),
        count_names(&specs)
    ));
    let progress = args.progress.line("writing");
    let options = WriteOptions { threads, on_progress: &|now| progress.update(now.done, now.skipped, now.total) };
    let written = match layout {
        Layout::Folder => write_folder(&args.out, &source, &specs, &corruptor, &options),
        Layout::Npy => {
            let mut names: Vec<&str> = specs.iter().map(|spec| spec.name).collect();
            names.dedup();
            write_arrays(&args.out, &source, set, &names, &corruptor, &options)
        }
    };
    let elapsed = progress.elapsed();
    drop(progress);
    let written = written.with_context(refused)?;
    print(&written_line(&args.out, written, elapsed))
}

/// Makes Ctrl-C end the program with a word on what is kept.
fn end_on_interrupt(folder: &Path) -> Result<()> {
    end_on_signal(format!("finished files are kept in `{}`; the same command goes on from there", folder.display()))
}

/// What is said at the end.
fn written_line(folder: &Path, written: Progress, elapsed: Duration) -> String {
    let there = match written.skipped {
        0 => String::new(),
        skipped => format!(", {} were there", grouped(skipped)),
    };
    format!(
        "{}: wrote {} of {} images{there}, in {}\n",
        folder.display(),
        grouped(written.done - written.skipped),
        grouped(written.total),
        duration(elapsed)
    )
}

/// The set whose corruptions are written one by one; `None` for `ccc`.
fn corruption_set(set: Set) -> Option<CorruptionSet> {
    Some(match set {
        Set::ImageNetC => CorruptionSet::ImageNetC,
        Set::TinyImageNetC => CorruptionSet::TinyImageNetC,
        Set::CifarC => CorruptionSet::CifarC,
        Set::CBar => CorruptionSet::ImageNetCBar,
        Set::CifarCBar => CorruptionSet::CifarCBar,
        Set::Calibration => CorruptionSet::Calibration,
        Set::Ccc => return None,
    })
}

fn severities(args: &Args) -> Result<Vec<Severity>, CorruptError> {
    if args.severity.is_empty() {
        return Ok(Severity::ALL.to_vec());
    }
    let parse = |text: &String| {
        let bad = || CorruptError::BadSeverity { found: text.clone() };
        Severity::new(text.parse().map_err(|_| bad())?)
    };
    let mut severities = args.severity.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    severities.sort_unstable();
    severities.dedup();
    Ok(severities)
}

/// Every corruption asked for at every severity, in published order.
fn specs(args: &Args, set: CorruptionSet) -> Result<Vec<CorruptionSpec>, CorruptError> {
    let severities = severities(args)?;
    let asked = args.corruption.iter();
    // An unknown name is refused before anything is made of the known ones.
    let asked = asked
        .map(|name| CorruptionSpec::new(set, name, severities[0]).map(|spec| spec.name))
        .collect::<Result<Vec<_>, _>>()?;
    let mut specs = Vec::new();
    for name in names(set) {
        if asked.is_empty() || asked.contains(&name) {
            for &severity in &severities {
                specs.push(CorruptionSpec::new(set, name, severity)?);
            }
        }
    }
    Ok(specs)
}

fn count_names(specs: &[CorruptionSpec]) -> usize {
    let mut names: Vec<&str> = specs.iter().map(|spec| spec.name).collect();
    names.dedup();
    names.len()
}

/// The corruptor, and a name for its frost textures that differs when the files do.
fn corruptor(args: &Args, seed: u64) -> Result<(Corruptor, String)> {
    let corruptor = Corruptor::new(seed);
    let Some(folder) = &args.frost else {
        return Ok((corruptor, "procedural".to_owned()));
    };
    let seen = Cell::new(0u64);
    let textures = FrostTextures::from_folder(folder, |bytes| {
        let file = digest(bytes.iter().copied());
        seen.set(digest(seen.get().to_le_bytes().into_iter().chain(file.to_le_bytes())));
        decode(bytes)
    })
    .with_context(|| format!("cannot use the frost textures in `{}`", folder.display()))?;
    Ok((corruptor.with_frost(textures), format!("files {:016x}", seen.get())))
}

fn clean_images(args: &Args, rule: Option<Preprocess>, limit: Option<usize>, seed: u64) -> Result<Source> {
    let spec: DataSpec = args.data.parse().with_context(|| format!("cannot understand `{}`", args.data))?;
    if spec.corruption.is_some() {
        bail!("--data is `{}`, but clean images were expected; name the corruption with --corruption", args.data);
    }
    refuse_inside(Path::new(&spec.path), &args.out)?;
    let dataset = open(&spec.path).with_context(|| format!("cannot open `{}`", spec.path))?;
    Source::new(dataset, rule, limit, seed).with_context(|| format!("cannot read `{}`", spec.path))
}

/// A corrupted copy below its own original would be read as part of it the next time.
fn refuse_inside(data: &Path, out: &Path) -> Result<()> {
    let (Ok(data), true) = (data.canonicalize(), data.is_dir()) else {
        return Ok(());
    };
    // Only what exists can be resolved; the rest of the path is new and holds no links.
    let existing = out.ancestors().find_map(|path| match path {
        path if path.as_os_str().is_empty() => std::env::current_dir().ok(),
        path => path.canonicalize().ok(),
    });
    ensure!(
        !existing.is_some_and(|path| path.starts_with(&data)),
        "--out is `{}`, inside of --data, but a folder elsewhere was expected",
        out.display()
    );
    Ok(())
}

/// Says so when the constants were made for another size than the images have.
fn note_size(source: &Source, set: CorruptionSet, progress: &ProgressArgs) -> Result<()> {
    let side = match set {
        CorruptionSet::ImageNetC | CorruptionSet::ImageNetCBar => 224,
        CorruptionSet::TinyImageNetC => 64,
        CorruptionSet::CifarC | CorruptionSet::CifarCBar => 32,
        CorruptionSet::Calibration => return Ok(()),
    };
    let first = source
        .load(0)
        .map_err(anyhow::Error::from_boxed)
        .with_context(|| format!("cannot read `{}`", source.relative_path(0)))?;
    let (width, height) = (first.width(), first.height());
    if (width, height) != (side, side) {
        progress.note(&format!(
            "note: the first image is {width} x {height} pixels, but {set} was made for {side} x {side}"
        ));
    }
    Ok(())
}
