// Package fatal ends a test if an error occurs.
package fatal

import "testing"

// If ends the test with a fatal error unless err is nil.
func If(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
