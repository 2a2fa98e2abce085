// Package fatal ends tests.
package fatal

import "testing"

// If ends a test if err is not nil.
func If(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
