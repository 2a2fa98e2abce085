// Package cli contains start-up code that all programs share: types of flags that package flag
// lacks, the logger, and limits for memory and processors.
package cli
