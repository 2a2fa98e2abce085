// Package nodelabel computes the labels and the annotation of a Node from the inventory of its
// GPUs. It is pure: no I/O, no clock, standard library only.
package nodelabel
