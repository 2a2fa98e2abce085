#!/bin/sh
# Adds the exporter to the DaemonSet in the output of the device plugin's chart, before Helm sends it to the API server.
# It needs kubectl. In Helm 3:
#   helm upgrade --install nvdp nvdp/nvidia-device-plugin --post-renderer manifests/examples/post-renderer/post-renderer.sh ...
# In Helm 4 a post-renderer is a plugin:
#   helm plugin install manifests/examples/post-renderer
#   helm upgrade --install nvdp nvdp/nvidia-device-plugin --post-renderer gpuledger ...
set -eu
component=$(cd -P "$(dirname "$0")" && cd ../../components/sidecar && pwd -P)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp -R "$component" "$folder/sidecar"
cat >"$folder/chart.yaml"
cat >"$folder/kustomization.yaml" <<EOF
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [chart.yaml]
components: [sidecar]
EOF
kubectl kustomize "$folder" >"$folder/patched.yaml"
if ! grep -q "name: gpuledger$" "$folder/patched.yaml"; then
	echo "post-renderer.sh: the chart contains no DaemonSet of a device plugin without the container gpuledger: see components/sidecar for its names" >&2
	exit 1
fi
cat "$folder/patched.yaml"
