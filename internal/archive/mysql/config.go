package mysql

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/gpuledger/gpuledger/internal/archive/address"
	"github.com/gpuledger/gpuledger/internal/cli"
)

// parse returns the configuration of the driver for a URL such as
// mysql://archive@db.example.com:3306/gpuledger?tls=true. Its parameters are those of the driver.
// Errors have no secrets.
func parse(text, passwordFile string) (*mysql.Config, error) {
	u, err := address.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "mysql" && u.Scheme != "mariadb" {
		return nil, errors.New("must be a URL such as mysql://archive@db.example.com/gpuledger")
	}
	config, err := mysql.ParseDSN("/?" + strings.ReplaceAll(u.RawQuery, "/", "%2F"))
	if err != nil {
		return nil, fmt.Errorf("parameters of the URL: %w", address.Hide(u, err))
	}
	config.Net, config.Addr = "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "3306"))
	if config.DBName = strings.TrimPrefix(u.Path, "/"); config.DBName == "" {
		return nil, errors.New("no database is given: must be a URL such as mysql://archive@db.example.com/gpuledger")
	}
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	if passwordFile != "" {
		password, err := cli.ReadSecret(passwordFile)
		if err != nil {
			return nil, fmt.Errorf("read the password: %w", err)
		}
		config.Passwd = strings.TrimRight(string(password), "\r\n")
	}
	// Like clients of MySQL: TLS where the server supports it. The server is verified with tls=true.
	config.TLSConfig = cmp.Or(config.TLSConfig, "preferred")
	config.Timeout = cmp.Or(config.Timeout, 10*time.Second)
	config.ParseTime, config.Loc = true, time.UTC
	config.Logger = &mysql.NopLogger{} // errors are returned
	if config.Params == nil {
		config.Params = make(map[string]string)
	}
	config.Params["sql_mode"] = "'STRICT_ALL_TABLES'" // an error for a text that is too long
	return config, nil
}
