// Package nodelabel says which labels and which annotation a Node should have, given
// the inventory of its GPUs. It is pure: it asks nobody, knows no clock, and needs no
// library but the standard one.
package nodelabel
