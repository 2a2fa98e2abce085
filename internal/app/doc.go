// Package app assembles the exporter from its flags: sources, mapper, sampler, collector and HTTP
// server. Every part with a goroutine has a method Run(ctx) error, and all these methods run in one
// errgroup.
package app
