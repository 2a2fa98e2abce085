package books

import (
	"context"
	"errors"
)

// OpenDatabase opens the books in a database.
func OpenDatabase(ctx context.Context, url, passwordFile string) (Source, error) {
	return nil, errors.New("todo")
}
