package archive

import (
	"flag"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/archive/address"
	"github.com/gpuledger/gpuledger/internal/archive/ask"
	"github.com/gpuledger/gpuledger/internal/archive/sinks"
)

// filingFlags lists the flags that select hours and sinks. If a name ends with a dot, it stands for all flags with this
// prefix.
var filingFlags = []string{
	"chain.key", "chain.name", "cluster", "folder", "folder.", "gpu.max-power", "month.close-after", "mysql.", "postgres.", "s3.", "sqlite", "store.", "team.label",
}

// The values of these flags are made absolute.
var pathFlags = []string{"chain.key", "folder", "mysql.password-file", "sqlite", "store.http.config.file"}

// These parameters of a store URL contain no secret.
var storeParameters = []string{
	"dedup", "deny_partial_response", "engine", "extra_filters[]", "extra_label", "max_source_resolution", "namespace", "nocache", "partial_response", "replicaLabels[]",
}

// These parameters of a database URL contain no secret.
var driverParameters = []string{"password-file", "sslcert", "sslkey", "sslmode", "sslrootcert", "tls"}

// filing returns the flags that a command needs to write hours to the same sinks, as shell words. It omits passwords,
// standard output and HTTP receivers, because the URL of a receiver may contain a secret.
func (c *Config) filing(fs *flag.FlagSet) string {
	var words []string
	add := func(name, value string) {
		if slices.Contains(pathFlags, name) {
			value = absolute(value)
		}
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
	for _, of := range []struct {
		name string
		urls []string
	}{{"to", c.urls}, {"chain.publish", c.Chain.Publish}} {
		for _, text := range of.urls {
			if scheme, _, _ := strings.Cut(strings.ToLower(text), ":"); !slices.Contains([]string{"http", "https", "stdout"}, scheme) {
				add(of.name, text)
			}
		}
	}
	return strings.Join(words, " ")
}

func absolute(path string) string {
	if whole, err := filepath.Abs(path); err == nil && path != "" {
		return whole
	}
	return path
}

func (c *Config) locked() string {
	if c.Run && slices.ContainsFunc(c.places, func(p sinks.Place) bool { return p.Folder != "" }) {
		return "a command cannot write in a folder while this program uses it: stop the program, run the command, and start the program again"
	}
	return ""
}

func isFiling(name string) bool {
	return slices.ContainsFunc(filingFlags, func(of string) bool {
		return name == of || strings.HasSuffix(of, ".") && strings.HasPrefix(name, of)
	})
}

// public removes the secrets from the value of a flag. It returns false for an invalid URL.
func public(value string) (string, bool) {
	scheme, rest, _ := strings.Cut(value, ":")
	if scheme = strings.ToLower(scheme); scheme == "file" || scheme == "sqlite" {
		return localURL(scheme, rest)
	}
	if !strings.Contains(value, "://") {
		return value, true
	}
	u, err := address.Parse(value)
	if err != nil {
		return "", false
	}
	u.Fragment, u.RawFragment = "", ""
	switch scheme {
	case "s3": // the parameters of the URL set flags
		u.User = nil
	case "http", "https":
		u.User = nil
		keep(u, storeParameters)
	default:
		if u.User != nil {
			u.User = url.User(u.User.Username())
		}
		keep(u, driverParameters)
	}
	return u.String(), true
}

// localURL keeps the parameters. They set flags and contain no secret.
func localURL(scheme, rest string) (string, bool) {
	path, parameters, found := strings.Cut(rest, "?")
	path, err := url.PathUnescape(strings.TrimPrefix(path, "//"))
	if err != nil || path == "" {
		return "", false
	}
	u := url.URL{Scheme: scheme, Path: absolute(path)}
	if found {
		u.RawQuery = parameters
	}
	return u.String(), true
}

func keep(u *url.URL, names []string) {
	parameters := u.Query()
	maps.DeleteFunc(parameters, func(name string, _ []string) bool { return !slices.Contains(names, name) })
	u.RawQuery = parameters.Encode()
}
