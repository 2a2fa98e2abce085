package database

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/test/fatal"
)

var check = fatal.If

func TestParseMySQL(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	check(t, os.WriteFile(file, []byte("s3cret?/\n"), 0o600))
	const set = "&parseTime=true&timeout=10s&tls=preferred&sql_mode=%27STRICT_ALL_TABLES%27"
	tests := []struct{ url, file, want string }{
		{"mysql://archive@db/assets", "", "archive@tcp(db:3306)/assets?" + set[1:]},
		{"mariadb://archive:p%40ss@db:3307/assets", "", "archive:p@ss@tcp(db:3307)/assets?" + set[1:]},
		{"mysql://archive@[::1]/assets", file, "archive:s3cret?/@tcp([::1]:3306)/assets?" + set[1:]},
		{"mysql://archive:old@db/assets?tls=true&timeout=3s", file, "archive:s3cret?/@tcp(db:3306)/assets?parseTime=true&timeout=3s&tls=true&sql_mode=%27STRICT_ALL_TABLES%27"},
	}
	for _, tt := range tests {
		config, err := parseMySQL(tt.url, tt.file)
		if err != nil {
			t.Errorf("%s: %v", tt.url, err)
			continue
		}
		if got := config.FormatDSN(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.url, got, tt.want)
		}
	}
}

// Errors about invalid URLs must not contain the password.
func TestParseMySQLErrors(t *testing.T) {
	for _, url := range []string{
		"", "archive:s3cret@tcp(db)/assets", "postgres://archive:s3cret@db/assets", "mysql://archive:s3cret@db", "mysql://archive:s3cret@db:port/assets",
		"mysql://archive:s3cret@/assets", "mysql://archive:s3cret@db/assets?timeout=1",
	} {
		if _, err := parseMySQL(url, ""); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("error for %s is %v, want an error without the password", url, err)
		}
	}
	if _, err := parseMySQL("mysql://archive@db/assets", "missing"); err == nil || !strings.Contains(err.Error(), "read the password") {
		t.Errorf("error for a missing password file is %v", err)
	}
}
