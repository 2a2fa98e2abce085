// Package flags has the kinds of flags that package flag lacks. Each can be given to
// [flag.TextVar].
package flags
