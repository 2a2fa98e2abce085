// Package advice decides from documents of the API server how gpuledger is installed on a cluster, on
// which Nodes the exporter is missing, and why. It makes no request.
package advice
