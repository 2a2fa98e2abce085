// Package trace applies the patches in docs/design.md to copies of the repository. The patches add, for example, a
// gauge, a column of the table charges, and a manager of units. A test fails if a patch cannot be applied or has no
// effect, or if the number of changed files differs from the page.
package trace
