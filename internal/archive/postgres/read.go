package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Reader reads the tables. It needs the right to select only.
type Reader struct{ conn *pgx.Conn }

// OpenReader connects for reading.
func OpenReader(ctx context.Context, url string) (*Reader, error) {
	config, err := parse(url)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["search_path"] = schemaName
	config.RuntimeParams["timezone"] = "UTC"
	config.RuntimeParams["default_transaction_read_only"] = "on"
	conn, err := connect(ctx, url, config)
	if err != nil {
		return nil, err
	}
	return &Reader{conn}, nil
}

// Close closes the connection.
func (r *Reader) Close() error { return (&Database{conn: r.conn}).Close() }

// Rows are the rows of a query. They must be closed before the next query.
type Rows struct{ pgx.Rows }

// Close ends the query.
func (r Rows) Close() error {
	r.Rows.Close()
	return r.Err()
}

// Query sends a statement with its parameters $1, $2 and so on.
func (r *Reader) Query(ctx context.Context, text string, values ...any) (Rows, error) {
	rows, err := r.conn.Query(ctx, text, values...)
	return Rows{rows}, err
}
