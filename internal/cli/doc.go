// Package cli has what both programs do when they start: flags of kinds that package flag
// lacks, the logger, and limits on what the program takes of the machine.
package cli
