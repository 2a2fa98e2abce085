// Package cli contains start-up code that all programs share: flag types that are missing in
// package flag, the logger, and limits for memory and processors.
package cli
