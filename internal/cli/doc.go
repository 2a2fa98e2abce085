// Package cli contains start-up code of all programs: flag types that package flag lacks, the logger, and limits for
// memory and processors.
package cli
