// Package trace applies the patches in docs/design.md to copies of the repository. The patches add, for example, a
// gauge, a column of the table charges, and a manager of units. A test fails if a patch cannot be applied, changes a
// different number of files than the page states, or has no effect.
package trace
