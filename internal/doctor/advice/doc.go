// Package advice determines how to install gpuledger on a cluster, on which Nodes the exporter is missing, and why. The
// package makes no requests itself: its caller provides the function [Get].
package advice
