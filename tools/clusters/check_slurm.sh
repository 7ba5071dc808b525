#!/usr/bin/env bash
# Runs a small study by a Slurm of one node: four shards, one of which is requeued and one whose program is killed, and compares the joined records with those of
# one undisturbed run. As root, with Debian's slurm-wlm and munge; the two daemons and everything they write stay in a scratch folder.
#
#   tools/clusters/check_slurm.sh target/release/flipcast [PLAN]
#
# Where Slurm is not installed, or this is not root, it says so and checks nothing. In CI, after the tests:
#
#   tools/clusters/check_slurm.sh target/debug/flipcast tools/clusters/tiny.toml
set -euo pipefail
flipcast=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
plan=$(realpath "${2:-$here/plan.toml}")
for program in munged slurmctld slurmd sbatch; do
    command -v "$program" > /dev/null || { echo "check_slurm: skipped, nothing was checked: $program is not installed (apt-get install slurm-wlm)"; exit 0; }
done
[ "$(id -u)" = 0 ] || { echo "check_slurm: skipped, nothing was checked: Slurm's daemons are started as root"; exit 0; }
assets=$(realpath "$here/../../crates/cli/assets/demo")
scratch=$(mktemp -d)
cd "$scratch"
host=$(hostname -s)
log() { echo "$(date +%T) $*"; }

stop() {
    kill $(cat slurmctld.pid slurmd.pid munged.pid 2>/dev/null) 2>/dev/null || true
}
trap stop EXIT

chmod 755 "$scratch"
mkdir state spool
dd if=/dev/urandom of=munge.key bs=1024 count=1 status=none
chmod 400 munge.key
munged --force --key-file="$scratch/munge.key" --socket="$scratch/munge.socket" --pid-file="$scratch/munged.pid" \
    --log-file="$scratch/munged.log" --seed-file="$scratch/munge.seed"
# A requeued task waits until its credential expires: two minutes unless told otherwise.
cat > slurm.conf <<END
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmctldPort=16817
SlurmdPort=16818
AuthType=auth/munge
AuthInfo=socket=$scratch/munge.socket,cred_expire=5
CredType=cred/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
JobAcctGatherType=jobacct_gather/none
SlurmctldParameters=enable_configless
SchedulerParameters=bf_interval=1,sched_interval=1
StateSaveLocation=$scratch/state
SlurmdSpoolDir=$scratch/spool
SlurmctldPidFile=$scratch/slurmctld.pid
SlurmdPidFile=$scratch/slurmd.pid
SlurmctldLogFile=$scratch/slurmctld.log
SlurmdLogFile=$scratch/slurmd.log
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc)
PartitionName=all Nodes=$host Default=YES
END
export SLURM_CONF=$scratch/slurm.conf
slurmctld -f slurm.conf
slurmd -f slurm.conf
for _ in $(seq 30); do sinfo -h 2>/dev/null | grep -q idle && break; sleep 1; done
log "$(sinfo -h)"

cp "$plan" plan.toml

log "one run, undisturbed"
begun=$(date +%s%N)
"$flipcast" study run plan.toml --out whole --set ASSETS="$assets" --threads 1 --progress never
"$flipcast" study merge whole --out whole.jsonl > /dev/null
alone=$((($(date +%s%N) - begun) / 1000000))

log "four shards by Slurm"
"$flipcast" study submit plan.toml --engine slurm --program "$flipcast" --shards 4 --out parts --set ASSETS="$assets" -- --progress never
array=$(squeue -h -o %F | sort -n | head -1)
kept() { cat parts/records-"$1"-of-4.jsonl 2>/dev/null | wc -l; }
for _ in $(seq 600); do [ "$(kept 1)" -gt 8 ] && break; sleep 0.1; done
log "requeue of shard 1 in flight, $(kept 1) records so far"
scontrol requeue "${array}_1"
for _ in $(seq 1200); do [ "$(kept 2)" -gt 2 ] && break; sleep 0.1; done
log "SIGKILL for the program of shard 2, $(kept 2) records so far"
killed=
for process in $(pgrep -f -- '--shard 2/4'); do
    # Others may run shards on this machine too.
    [ "$(readlink "/proc/$process/cwd")" = "$scratch" ] && kill -KILL "$process" && killed=$process
done
[ -n "$killed" ] || log "shard 2 had ended"
for _ in $(seq 600); do [ -s parts/merged.jsonl ] && break; sleep 1; done
scontrol show job "${array}_1" | grep -o 'Restarts=[0-9]*' | head -1 | sed 's/^/shard 1: /'
scontrol show job "${array}_2" | grep -o 'Restarts=[0-9]*' | head -1 | sed 's/^/shard 2: /'
grep -h . parts/submit/*.log | tail -20

log "comparison, times aside"
python3 "$here/compare.py" whole.jsonl parts/merged.jsonl parts
log "one run took $alone ms"
# What the daemons are called by lies in the scratch folder.
stop
rm -rf "$scratch"
