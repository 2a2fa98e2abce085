package program

import "testing"

// OpenFor opens a group that ends with a test, and prints the logs if the test failed.
func OpenFor(t testing.TB) *Group {
	t.Helper()
	t.TempDir() // The test's folders are removed after this function's cleanup: a program that runs writes into them.
	g, err := Open("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			g.Logs(t.Output())
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// AddressFor is like FreeAddress, but fails the test on an error.
func AddressFor(t testing.TB) string {
	t.Helper()
	address, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}
