// Package trace applies the patches of docs/design.md to a copy of the repository: a gauge, an amount of a charge, a manager of units, a kind of owner.
// Its tests fail if a patch does not fit the code, changes another number of files than the page states, or has no effect.
package trace
