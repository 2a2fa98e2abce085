#!/bin/sh
# Epilog of Slurm for gpuledger: removes what the prolog wrote, except the files of GPUs that another job holds by now.
dir=${GPULEDGER_HELD_DIR:-/run/gpuledger-held} job=$SLURM_JOB_ID
case $job in '' | *[!0-9]*) exit 0 ;; esac
for file in "$dir"/*; do
	[ -f "$file" ] && read -r holder rest <"$file" && [ "$holder" = "$job" ] && rm -f "$file"
done
rm -f "$dir/jobs/$job"
exit 0
