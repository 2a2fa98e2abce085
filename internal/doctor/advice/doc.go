// Package advice determines how to install gpuledger on a cluster, on which Nodes the exporter is
// missing, and why. The package uses documents from the API server, but the caller of the package
// requests the documents.
package advice
