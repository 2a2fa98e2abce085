// Package validator checks the inventories that exporters report. It is pure: time is an
// argument, and there is no I/O.
//
// Three rules prevent wrong labels. A change of identity needs two equal readings, so that a driver
// that is being loaded changes nothing. It needs room in the [Budget], so that a driver release
// without a field cannot remove the labels of a fleet. A GPU that two Nodes report belongs to
// neither of them, so that a compromised node cannot take over the identity of another node.
package validator
