package database_test

import (
	"context"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/database"
)

// TestSecrets checks that no error contains a password or a parameter from the URL. No server listens at the address.
func TestSecrets(t *testing.T) {
	const first, second = "Pq7hunter", "Zx9tiger"
	for _, odd := range []string{"", " ", "%zz", "%", "/", "?", "#", "@", ":", "&", "é", "%20", "'", `\`} {
		secret := first + odd + second
		for _, form := range []string{
			"postgres://archive:%s@127.0.0.1:1/db", "postgres://archive:%s@127.0.0.1:port/db", "postgres://archive:%s@[::1/db", "postgres://archive@127.0.0.1:1/db?password=%s",
			"postgres://archive@127.0.0.1:1/db?sslmode=%s", "postgres:archive:%s@127.0.0.1:1/db", "host=127.0.0.1 port=1 password=%s sslmode=x", "archive:%s@127.0.0.1",
		} {
			text := strings.ReplaceAll(form, "%s", secret)
			for name, open := range map[string]func(context.Context, string) error{
				"Open": func(ctx context.Context, url string) error {
					_, err := database.Postgres.Open(ctx, url, "")
					return err
				},
				"OpenReader": func(ctx context.Context, url string) error {
					_, err := database.Postgres.OpenReader(ctx, url, "")
					return err
				},
			} {
				err := open(t.Context(), text)
				switch {
				case err == nil:
					t.Errorf("%s opens %s", name, text)
				case strings.Contains(err.Error(), first) || strings.Contains(err.Error(), second):
					t.Errorf("%s: the error for %s contains the secret: %v", name, text, err)
				}
			}
		}
	}
}
