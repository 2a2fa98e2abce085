package program

import "testing"

// OpenFor opens a group that ends with the test. If the test failed, the group prints its logs.
func OpenFor(t testing.TB) *Group {
	t.Helper()
	t.TempDir() // the test's folders are removed after the cleanup below, because programs write into them until they end
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

// BuiltFor is [Built], but ends the test on an error.
func BuiltFor(t testing.TB, name string) string {
	t.Helper()
	path, err := Built(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// AddressFor is [FreeAddress], but ends the test on an error.
func AddressFor(t testing.TB) string {
	t.Helper()
	address, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}
