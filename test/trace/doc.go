// Package trace applies the patches that docs/design.md describes to copies of the repository. The patches add a gauge,
// an amount of a charge, a manager of units, and other things. The tests fail if a patch cannot be applied, if it
// changes a different number of files than the page states, or if it has no effect.
package trace
