// Package nodelabel computes the labels and the annotation of a Node from the inventory of its GPUs. It does no I/O,
// uses no clock and imports only the standard library.
package nodelabel
