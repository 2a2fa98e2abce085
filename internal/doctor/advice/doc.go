// Package advice determines how to install gpuledger on a cluster, on which Nodes the exporter is
// missing, and why. It uses documents from the API server, but its caller makes the requests.
package advice
