//! `flipcast study submit`.

use super::{PlanArgs, run as shard};
use crate::commands::numbers::parse_count;
use crate::failure::{Advised, Environment, Fired};
use crate::output::print;
use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use flipcast_record::write_atomically;
use flipcast_study::submit::{Cluster, Files, Queue, Resources, Submission, kubernetes, ray, slurm};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// Most shards of one study.
const MAX_SHARDS: u64 = 100_000;
/// How often a shard on this machine is started again when it was killed.
const LOCAL_RETRIES: usize = 3;

/// Hand a plan to an engine that runs its shards: Slurm, Ray, Kubernetes, or processes of this machine.
///
/// Writes what the engine takes to FOLDER/submit, hands it over, and has the shards joined to FOLDER/merged.jsonl at the end. Whatever ran them, `flipcast
/// study status PLAN --out FOLDER` tells how far they are. Submitted again, the same command makes what is still missing. What stands behind `--` goes to every `flipcast study run`, such as
/// `-- --device cuda --jobs 4`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    plan: PlanArgs,
    /// What runs the shards
    #[arg(long, value_enum)]
    engine: Engine,
    /// Number of shards
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_SHARDS))]
    shards: u64,
    /// The folder of the records, where all shards reach it
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Show the files, and write and submit nothing
    #[arg(long)]
    dry_run: bool,
    /// Cores of a shard
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_count)]
    cpus: usize,
    /// GPUs of a shard
    #[arg(long, value_name = "N", default_value_t = 0)]
    gpus: usize,
    /// Memory of a shard in MiB
    #[arg(long, value_name = "MIB", value_parser = parse_count)]
    memory: Option<usize>,
    /// The program on the engine's machines [default: this one; `flipcast` in a container]
    #[arg(long, value_name = "PATH")]
    program: Option<String>,
    /// Slurm: the partition
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// Slurm: the longest time of a shard, such as 12:00:00
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
    /// Ray: the cluster's address
    #[arg(long)]
    address: Option<String>,
    /// Kubernetes: the container image that holds the program
    #[arg(long)]
    image: Option<String>,
    /// Kubernetes: the namespace
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Kubernetes: a claim of a volume that all pods can write to, which holds plan, data and records
    #[arg(long, value_name = "NAME")]
    claim: Option<String>,
    /// Kubernetes: where the volume is mounted; paths of the plan and FOLDER lie there
    #[arg(long, value_name = "PATH", default_value = "/study")]
    mount: String,
    /// Kubernetes: most shards at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    parallel: Option<u64>,
    /// Arguments of every `flipcast study run`
    #[arg(last = true, value_name = "ARGS")]
    more: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// An array of jobs with `sbatch`
    Slurm,
    /// Tasks of a Ray cluster, by a driver in Python
    Ray,
    /// An Indexed Job with `kubectl`
    Kubernetes,
    /// Processes of this machine
    Local,
}

/// What a shard's command line says, to check it before it is handed over.
#[derive(Debug, Parser)]
#[command(name = "flipcast study run", no_binary_name = true)]
struct ShardLine {
    #[command(flatten)]
    args: shard::Args,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let loaded = args.plan.load()?;
    let submission = args.submission(&loaded.plan.study.name)?;
    let files = match args.engine {
        Engine::Slurm => slurm(&submission, &Queue { partition: args.partition.clone(), time: args.time.clone() }),
        Engine::Ray => ray(&submission),
        Engine::Kubernetes => kubernetes(&submission, &args.cluster()?),
        Engine::Local => Files::new(),
    };
    let mut shown = String::new();
    for (name, text) in &files {
        let path = submission.files.join(name);
        if !args.dry_run {
            make_folder(&submission.files)?;
            write_atomically(&path, text.as_bytes())?;
        }
        shown += &format!("# {}\n{text}\n", path.display());
    }
    if args.dry_run {
        return print(&shown);
    }
    match args.engine {
        Engine::Slurm => submit_slurm(&submission),
        Engine::Ray => submit_ray(&submission, args.address.as_deref()),
        Engine::Kubernetes => submit_kubernetes(&submission),
        Engine::Local => run_here(&submission),
    }
}

impl Args {
    fn submission(&self, name: &str) -> Result<Submission> {
        let mut run = vec!["study".to_owned(), "run".to_owned()];
        let mut words = self.plan.words();
        words.extend(["--out".to_owned(), self.out.display().to_string()]);
        words.extend(self.more.iter().cloned());
        let line = ShardLine::try_parse_from(&words).map_err(|error| Advised {
            problem: format!("what stands behind `--` does not suit `flipcast study run`\n{}", error.render()),
            hint: "`flipcast study run --help` lists its arguments".to_owned(),
        })?;
        if line.args.threads() == 0 {
            // An engine's machine may have more cores than the shard is given.
            words.extend(["--threads".to_owned(), (self.cpus / line.args.jobs()).max(1).to_string()]);
        }
        run.extend(words);
        // Refits need all cells. A shard that has made its own makes those of the whole plan.
        let first = [run.clone(), vec!["--shard".to_owned(), format!("1/{}", self.shards)]].concat();
        let out = self.out.display();
        let merge = ["study", "merge", &out.to_string(), "--out", &format!("{out}/merged.jsonl")].map(str::to_owned);
        let (work, program) = match self.engine {
            Engine::Kubernetes => (PathBuf::from(&self.mount), "flipcast".to_owned()),
            _ => {
                let here = std::env::current_dir().context("cannot tell the current folder")?;
                let process = std::env::current_exe().context("cannot tell where this program lies")?;
                (here, program_of(&process))
            }
        };
        Ok(Submission {
            name: name.to_owned(),
            program: self.program.clone().unwrap_or(program),
            run,
            finish: vec![first, merge.to_vec()],
            // In a container the folder may lie elsewhere than here; the files are for this machine.
            files: match self.engine {
                Engine::Kubernetes => {
                    PathBuf::from(format!("submit-{}", self.out.file_name().unwrap_or_default().display()))
                }
                _ => work.join(&self.out).join("submit"),
            },
            work,
            shards: self.shards,
            resources: Resources { cpus: self.cpus, gpus: self.gpus, memory: self.memory },
        })
    }

    fn cluster(&self) -> Result<Cluster> {
        let needed = |value: &Option<String>, flag: &str| {
            value.clone().ok_or_else(|| Advised {
                problem: format!("Kubernetes needs `{flag}`"),
                hint: "an image holds the program, a claim the plan, the data and the records: `--image REGISTRY/flipcast:TAG --claim NAME`"
                    .to_owned(),
            })
        };
        Ok(Cluster {
            image: needed(&self.image, "--image")?,
            namespace: self.namespace.clone(),
            claim: needed(&self.claim, "--claim")?,
            mount: self.mount.clone(),
            parallel: self.parallel,
        })
    }
}

/// What starts a shard: this program, or, where `process` is a Python that runs it, the command of that name.
fn program_of(process: &Path) -> String {
    match process.file_stem().is_some_and(|stem| stem == "flipcast") {
        true => process.display().to_string(),
        false => "flipcast".to_owned(),
    }
}

fn make_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder `{}`", folder.display()))
}

/// What a program of the engine prints when it did what it was asked.
fn ask(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| {
        Environment(format!("`{program}` cannot be started ({error}); `--dry-run` shows the files without it"))
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Environment(format!("`{program}` refused the study: {}", said.trim())).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn submit_slurm(submission: &Submission) -> Result<()> {
    let file = |name: &str| submission.files.join(name).display().to_string();
    // Held until what joins it is in the queue: whatever happens in between, no array runs that nobody joins.
    let printed = ask("sbatch", &["--parsable", "--hold", &file("shards.sbatch")])?;
    // A cluster's name may follow the number.
    let array = printed.split(';').next().unwrap_or_default().to_owned();
    let after = format!("--dependency=afterok:{array}");
    let joined = ask("sbatch", &["--parsable", &after, "--kill-on-invalid-dep=yes", &file("finish.sbatch")]);
    let released = joined.and_then(|finish| ask("scontrol", &["release", &array]).map(|_| finish));
    let finish = released.inspect_err(|_| {
        // What depends on the array goes with it.
        let _ = ask("scancel", &[&array]);
    })?;
    print(&format!(
        "{} shards submitted as Slurm job {array}, joined by job {finish}; logs in {}\n",
        submission.shards,
        submission.files.display()
    ))
}

fn submit_ray(submission: &Submission, address: Option<&str>) -> Result<()> {
    let driver = submission.files.join("driver.py");
    let status = Command::new("python3").arg(&driver).args(address).status().map_err(|error| {
        Environment(format!("`python3` cannot be started ({error}); `--dry-run` shows the driver without it"))
    })?;
    match status.success() {
        true => Ok(()),
        false => Err(Environment(format!("the driver `{}` ended with {status}", driver.display())).into()),
    }
}

fn submit_kubernetes(submission: &Submission) -> Result<()> {
    let file = |name: &str| submission.files.join(name).display().to_string();
    let said = ask("kubectl", &["apply", "-f", &file("shards.yaml")])?;
    print(&format!("{said}\nwhen it is complete: kubectl apply -f {}\n", file("finish.yaml")))
}

/// Shards as processes, all at once; a killed one starts again.
fn run_here(submission: &Submission) -> Result<()> {
    let start = |shard: u64| -> Result<Child> {
        let mut command = Command::new(&submission.program);
        command.args(&submission.run).args(["--shard", &format!("{shard}/{}", submission.shards)]);
        let cannot = || format!("cannot start `{}`", submission.program);
        command.current_dir(&submission.work).spawn().with_context(cannot)
    };
    let mut running: Vec<(u64, usize, Child)> = Vec::new();
    for shard in 1..=submission.shards {
        running.push((shard, 0, start(shard)?));
    }
    let mut failed = Vec::new();
    while let Some((shard, starts, mut child)) = running.pop() {
        let status = child.wait().context("cannot wait for a shard")?;
        if status.code().is_none() && starts < LOCAL_RETRIES {
            running.push((shard, starts + 1, start(shard)?));
        } else if !status.success() {
            failed.push(format!("shard {shard} ended with {status}"));
        }
    }
    for arguments in &submission.finish {
        let status = Command::new(&submission.program).args(arguments).current_dir(&submission.work).status();
        let status = status.with_context(|| format!("cannot start `{}`", submission.program))?;
        anyhow::ensure!(status.success(), "the shards cannot be joined");
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Fired(failed.join("\n")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_not_started_as_python() {
        assert_eq!(program_of(Path::new("/opt/bin/flipcast")), "/opt/bin/flipcast");
        assert_eq!(program_of(Path::new("/usr/bin/python3.12")), "flipcast");
    }
}
