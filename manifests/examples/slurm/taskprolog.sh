#!/bin/sh
# Slurm task prolog for gpuledger, run as the user: writes the name of a job and its index in a job
# array into the file that the prolog created for the user. It prints nothing, because Slurm reads
# its output, and never fails.
file=${GPULEDGER_HELD_DIR:-/run/gpuledger-held}/names/$SLURM_JOB_ID
[ -f "$file" ] && [ -O "$file" ] && [ ! -s "$file" ] &&
	printf '%s\n' "name=$SLURM_JOB_NAME" "array=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}" >"$file" 2>/dev/null
exit 0
