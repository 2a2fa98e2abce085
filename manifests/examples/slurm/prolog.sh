#!/bin/sh
# Slurm prolog for gpuledger: writes the GPUs that a job holds. It never fails, because Slurm drains
# a node if the prolog fails.
set -f
PATH=/usr/sbin:/usr/bin:/sbin:/bin
dir=${GPULEDGER_HELD_DIR:-/run/gpuledger-held} job=$SLURM_JOB_ID gpus=${CUDA_VISIBLE_DEVICES:-$SLURM_JOB_GPUS}
case $job in '' | *[!0-9]*) exit 0 ;; esac
umask 022
for folder in "$dir" "$dir/jobs" "$dir/names"; do
	mkdir -p "$folder"
	case $(ls -ld "$folder") in d????-??-*) [ -O "$folder" ] && continue ;; esac
	echo "gpuledger: $folder must be a directory of root that others cannot write to" >&2
	exit 0
done
printf '%s\n' "gpus=$gpus" "uid=$SLURM_JOB_UID" "user=$SLURM_JOB_USER" "account=$SLURM_JOB_ACCOUNT" "partition=$SLURM_JOB_PARTITION" \
	"cluster=$SLURM_CLUSTER_NAME" "sluid=$SLURM_JOB_SLUID" >"$dir/jobs/.$job" && mv "$dir/jobs/.$job" "$dir/jobs/$job"
# The task prolog of the user writes the name of the job here.
rm -f "$dir/names/$job"
[ -n "$SLURM_JOB_UID" ] && (set -C && : >"$dir/names/$job") && chown "$SLURM_JOB_UID" "$dir/names/$job"
IFS=,
for gpu in $gpus; do
	case $gpu in *[!0-9A-Za-z.-]*) ;; GPU-* | MIG-* | [0-9]*) echo "$job $SLURM_JOB_UID" >"$dir/$gpu" ;; esac
done
exit 0
