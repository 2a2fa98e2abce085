package books_test

import (
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/books"
)

// TestDatabaseSecrets checks that errors of a database contain no password or parameter from its URL. No server listens
// at the address.
func TestDatabaseSecrets(t *testing.T) {
	const first, second = "Pq7hunter", "Zx9tiger"
	for _, odd := range []string{"", " ", "%zz", "%", "/", "?", "#", "@", ":", "&", "é", "%20", "'"} {
		secret := first + odd + second
		for _, form := range []string{
			"postgres://reader:%s@127.0.0.1:1/db", "postgres://reader:%s@127.0.0.1:port/db", "postgres://reader@127.0.0.1:1/db?password=%s", "postgres://reader@127.0.0.1:1/db?sslmode=%s",
			"postgres://reader@127.0.0.1:1/db?connect_timeout=%s", "mysql://reader:%s@127.0.0.1:1/db", "mysql://reader:1/%s@127.0.0.1:1/db", "mysql://reader@127.0.0.1:1/db?tls=%s",
			"mysql://reader@127.0.0.1:1/db?parseTime=%s", "mysql://reader@127.0.0.1:port/db?x=%s",
		} {
			text := strings.ReplaceAll(form, "%s", secret)
			_, err := books.OpenDatabase(t.Context(), text, "")
			switch {
			case err == nil:
				t.Errorf("%s is opened", text)
			case strings.Contains(err.Error(), first) || strings.Contains(err.Error(), second):
				t.Errorf("the error for %s contains the secret: %v", text, err)
			}
		}
	}
}
