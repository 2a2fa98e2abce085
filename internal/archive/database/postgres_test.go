package database

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// By default, the driver must not cache prepared statements. A connection pooler may run the next statement on another
// connection, so a URL can set another mode.
func TestParsePostgres(t *testing.T) {
	for url, want := range map[string]pgx.QueryExecMode{
		"postgres://archive@db/gpuledger":                                         pgx.QueryExecModeDescribeExec,
		"postgres://archive@db/gpuledger?default_query_exec_mode=exec":            pgx.QueryExecModeExec,
		"postgres://archive@db/gpuledger?default_query_exec_mode=simple_protocol": pgx.QueryExecModeSimpleProtocol,
	} {
		config, err := parsePostgres(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if got := config.DefaultQueryExecMode; got != want {
			t.Errorf("%s: mode %s, want %s", url, got, want)
		}
	}
}
