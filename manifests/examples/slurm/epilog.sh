#!/bin/sh
# Slurm epilog for gpuledger: removes the files that the prolog wrote, except the files of GPUs that another
# job now holds.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
dir=${GPULEDGER_HELD_DIR:-/run/gpuledger-held} job=$SLURM_JOB_ID
case $job in '' | *[!0-9]*) exit 0 ;; esac
for folder in "$dir" "$dir/jobs" "$dir/names"; do
	[ -e "$folder" ] || [ -L "$folder" ] || continue # an earlier prolog did not create it
	case $(ls -ld "$folder") in d????-??-*) [ -O "$folder" ] || exit 0 ;; *) exit 0 ;; esac
done
for file in "$dir"/*; do
	[ -f "$file" ] && read -r holder rest <"$file" && [ "$holder" = "$job" ] && rm -f "$file"
done
rm -f "$dir/jobs/$job" "$dir/names/$job"
exit 0
