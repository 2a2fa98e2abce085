// Package app assembles the exporter from its flags: sources, mapper, sampler, collector and HTTP
// server. Every part with a goroutine has a method Run(ctx) error. All these methods run in one
// group.
package app
