#!/bin/sh
# Prolog of Slurm for gpuledger: writes which job holds which GPU. It never fails, because Slurm drains a node whose prolog fails.
dir=${GPULEDGER_HELD_DIR:-/run/gpuledger-held} job=$SLURM_JOB_ID gpus=${CUDA_VISIBLE_DEVICES:-$SLURM_JOB_GPUS}
case $job in '' | *[!0-9]*) exit 0 ;; esac
umask 022 && mkdir -p "$dir/jobs"
printf '%s\n' "gpus=$gpus" "uid=$SLURM_JOB_UID" "user=$SLURM_JOB_USER" "account=$SLURM_JOB_ACCOUNT" "partition=$SLURM_JOB_PARTITION" \
	"cluster=$SLURM_CLUSTER_NAME" "sluid=$SLURM_JOB_SLUID" >"$dir/jobs/.$job" && mv "$dir/jobs/.$job" "$dir/jobs/$job"
IFS=,
for gpu in $gpus; do
	case $gpu in GPU-* | MIG-* | [0-9]*) case $gpu in */*) ;; *) echo "$job $SLURM_JOB_UID" >"$dir/$gpu" ;; esac ;; esac
done
exit 0
