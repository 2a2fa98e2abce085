// Package fatal ends tests.
package fatal

import "testing"

// If ends a test if there is an error.
func If(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
