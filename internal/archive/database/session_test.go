package database

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
)

// TestUnlock checks that the locks of a failed transaction are released after its rollback.
func TestUnlock(t *testing.T) {
	var ended error
	dialect := *SQLite
	dialect.unlock = func(ctx context.Context, t *transaction, _ lock) error {
		ended = t.exec(ctx, SQL("select 1"))
		return nil
	}
	d, err := dialect.Open(t.Context(), filepath.Join(t.TempDir(), "archive.db"), "")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	failed := errors.New("failed")
	if err := d.transaction(t.Context(), func(*transaction) error { return failed }, lock{}); !errors.Is(err, failed) {
		t.Errorf("error is %v", err)
	}
	if !errors.Is(ended, sql.ErrTxDone) {
		t.Errorf("locks are released during the transaction: a statement returns %v", ended)
	}
}
