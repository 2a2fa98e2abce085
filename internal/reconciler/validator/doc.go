// Package validator checks the inventories that exporters report. It does no I/O, and the time is always an argument.
//
// Three rules prevent wrong labels. First, a change of identity requires two equal readings, so that an incomplete
// reading during the start of a driver changes nothing. Second, a change of identity must be within the [Budget], so
// that a driver release that omits a field cannot remove the labels of a fleet. Third, a GPU that two Nodes report is
// assigned to neither Node, so that a compromised node cannot take over the identity of another node.
package validator
