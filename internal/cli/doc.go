// Package cli holds the start-up code of all programs: kinds of flags that package flag lacks, the
// logger, and limits on memory and processors.
package cli
