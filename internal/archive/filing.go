package archive

import (
	"flag"
	"net/url"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/archive/address"
	"github.com/gpuledger/gpuledger/internal/archive/ask"
)

// filingFlags are flags that change which hours are filed, and where. A name that ends with a dot stands for all flags
// that begin with it.
var filingFlags = []string{
	"chain.key", "cluster", "folder", "folder.", "gpu.max-power", "month.close-after", "mysql.", "postgres.", "s3.", "sqlite", "store.", "team.label",
}

// driverParameters contains the parameters in the URL of a database that are not secret.
var driverParameters = []string{"password-file", "sslcert", "sslkey", "sslmode", "sslrootcert", "tls"}

// filing returns the flags of the program as words of a shell, for commands that file hours in the same sinks. It omits
// passwords, standard output, and HTTP receivers, because the path of their URL may be a secret.
func (c *Config) filing(fs *flag.FlagSet) string {
	var words []string
	add := func(name, value string) {
		if value, ok := public(value); ok {
			words = append(words, "--"+name+"="+ask.Quoted(value))
		}
	}
	fs.Visit(func(f *flag.Flag) {
		if isFiling(f.Name) {
			add(f.Name, f.Value.String())
		}
	})
	if c.unset && c.SQLite != "" {
		add("sqlite", c.SQLite)
	}
	for _, text := range c.urls {
		if scheme, _, _ := strings.Cut(strings.ToLower(text), ":"); !slices.Contains([]string{"http", "https", "stdout"}, scheme) {
			add("to", text)
		}
	}
	return strings.Join(words, " ")
}

// isFiling reports whether a flag changes which hours are filed, and where.
func isFiling(name string) bool {
	return slices.ContainsFunc(filingFlags, func(of string) bool {
		return name == of || strings.HasSuffix(of, ".") && strings.HasPrefix(name, of)
	})
}

// public returns the value of a flag without secrets. It reports false if a URL is invalid.
func public(value string) (string, bool) {
	scheme, _, remote := strings.Cut(value, "://")
	if !remote || scheme == "file" || scheme == "sqlite" {
		return value, true
	}
	u, err := address.Parse(value)
	if err != nil {
		return "", false
	}
	u.Fragment, u.RawFragment = "", ""
	switch scheme {
	case "s3": // the parameters of the URL are flags
		u.User = nil
	case "http", "https":
		return address.Public(u), true
	default:
		u.User = userOf(u)
		parameters := u.Query()
		for name := range parameters {
			if !slices.Contains(driverParameters, name) {
				parameters.Del(name)
			}
		}
		u.RawQuery = parameters.Encode()
	}
	return u.String(), true
}

// userOf returns the user of a URL without a password, or nil if there is none.
func userOf(u *url.URL) *url.Userinfo {
	if u.User == nil {
		return nil
	}
	return url.User(u.User.Username())
}
