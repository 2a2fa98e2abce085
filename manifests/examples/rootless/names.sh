#!/bin/sh
# Writes the names of rootless containers for gpuledger. The user runs this script during the
# session. It writes the id, name and image of each running container into the file that root created
# for the user. It writes the file when the script starts, and each time that a container starts.
set -f
file=${GPULEDGER_NAMES:-/run/gpuledger-names/$(id -u)} format='{{.ID}} {{.Names}} {{.Image}}'
# Without DOCKER_HOST, docker could list the containers of root.
socket=${DOCKER_HOST:-unix://${XDG_RUNTIME_DIR:-/run/user/$(id -u)}/docker.sock}
export DOCKER_HOST="$socket"

has() { command -v "$1" >/dev/null && { [ "$1" = podman ] || [ -S "${socket#unix://}" ]; }; }

write() {
	if [ -h "$file" ] || [ ! -f "$file" ] || [ ! -O "$file" ]; then
		echo "gpuledger: $file must be a file of the user $(id -u): see docs/managers.md" >&2
		exit 1
	fi
	names=$(for engine in podman docker; do has $engine && $engine ps --no-trunc --format "$format"; done)
	printf '%s\n' "$names" >"$file"
}

# watch ENGINE: print a line for each container that starts, and after each interruption.
watch() {
	while :; do
		has "$1" && "$1" events --since=10s --filter=type=container --filter=event=start --format='{{.ID}}'
		sleep 60 # the engine is missing, or its daemon restarts
		echo
	done
}

write
{ watch podman & watch docker & wait; } | while read -r _; do write; done
