// Package trace applies the patches in docs/design.md to copies of the repository. The patches add a gauge, an amount
// of a charge, a manager of units, and other things. A test fails if a patch cannot be applied, changes a different
// number of files than the page states, or has no effect.
package trace
