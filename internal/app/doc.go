// Package app assembles the exporter from its flags: sources, mapper, sampler, collector and HTTP
// server. Every part with a goroutine is a method Run(ctx) error, and all run in one group.
package app
