// Package app assembles the exporter from its flags: sources, mapper, sampler, collector and
// HTTP server. Every part that runs is a Run(ctx) error in one group.
package app
