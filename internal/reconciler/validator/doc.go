// Package validator checks the inventories that exporters report. It is pure: time
// arrives in arguments, and nothing is asked or written.
//
// Three rules stand against the two ways in which labels go wrong. A change of
// identity needs two equal readings, so that a driver that is just being loaded
// changes nothing. It needs room in the [Budget], so that a driver release that
// blanks a field cannot take the labels off a fleet. And a GPU that two Nodes claim
// is nobody's, so that a node that lies cannot take over another one's identity.
package validator
