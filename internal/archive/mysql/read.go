package mysql

import (
	"database/sql"

	"github.com/go-sql-driver/mysql"
)

// OpenReader opens the tables for reading. It needs the right to select only, and does not connect.
func OpenReader(url, passwordFile string) (*sql.DB, error) {
	config, err := parse(url, passwordFile)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}
