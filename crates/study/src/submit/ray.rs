use super::quote::{double, list};
use super::{Files, NEVER, RETRIES, SOME_FAILED, Submission};

/// A driver, `driver.py`, that hands one task per shard to Ray and joins what they made.
///
/// Ray places tasks by the cores and GPUs they ask for, and starts a task again whose worker died. A program outlives no worker: otherwise its lock would keep
/// the next one out.
pub fn ray(submission: &Submission) -> Files {
    let memory = submission.resources.memory.map(|mib| format!(", memory={mib} << 20")).unwrap_or_default();
    let finish: Vec<String> = submission.finish.iter().map(list).collect();
    let text = format!(
        r#""""Runs a study of flipcast in {shards} shards on Ray: python3 driver.py [ADDRESS]

Without an address a cluster is looked for, and begun on this machine where there is none.
"""
import ctypes
import signal
import subprocess
import sys

import ray

PROGRAM = {program}
RUN = {run}
FINISH = [{finish}]
WORK = {work}
SHARDS = {shards}
SOME_FAILED, NEVER = {SOME_FAILED}, {NEVER}


class Again(Exception):
    """The shard was killed or its records are still in use."""


def die_with_worker():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


@ray.remote(num_cpus={cpus}, num_gpus={gpus}{memory}, max_retries={RETRIES}, retry_exceptions=[Again])
def run_shard(number):
    command = [PROGRAM, *RUN, "--shard", f"{{number}}/{{SHARDS}}"]
    code = subprocess.call(command, cwd=WORK, preexec_fn=die_with_worker)
    if code in (0, SOME_FAILED):
        return code
    if code == NEVER:
        raise RuntimeError(f"shard {{number}} cannot work, see its output above")
    raise Again(f"shard {{number}} ended with {{code}}")


def main():
    ray.init(address=sys.argv[1] if len(sys.argv) > 1 else None)
    codes = ray.get([run_shard.remote(number + 1) for number in range(SHARDS)])
    incomplete = sum(code == SOME_FAILED for code in codes)
    if incomplete:
        print(f"{{incomplete}} of {{SHARDS}} shards list cells that could not be made", file=sys.stderr)
    for arguments in FINISH:
        subprocess.run([PROGRAM, *arguments], cwd=WORK, check=True)


if __name__ == "__main__":
    main()
"#,
        program = double(&submission.program),
        run = list(&submission.run),
        finish = finish.join(", "),
        work = double(&submission.work.display().to_string()),
        shards = submission.shards,
        cpus = submission.resources.cpus,
        gpus = submission.resources.gpus,
    );
    vec![("driver.py", text)]
}

#[cfg(test)]
mod tests {
    use super::super::testing::submission;
    use super::*;

    #[test]
    fn words_reach_the_driver_as_they_were() {
        let text = &ray(&submission())[0].1;
        assert!(text.contains(r#""--set", "DATA=/data/it's mine"]"#), "{text}");
        assert!(text.contains("num_cpus=8, num_gpus=1, memory=16384 << 20"), "{text}");
    }
}
