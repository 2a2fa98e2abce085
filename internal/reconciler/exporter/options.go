package exporter

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gpuledger/gpuledger/internal/cli"
)

// Options configures the connections to exporters.
type Options struct {
	DaemonSets daemonSets
	TLS        bool
	CAFile     string
	ServerName string
	CertFile   string
	KeyFile    string
	Username   string
	// The client reads PasswordFile and the files above for each use, so that administrators can replace the files.
	PasswordFile string
	Timeout      time.Duration
}

// Register adds the flags with their defaults.
func (o *Options) Register(fs *flag.FlagSet) {
	o.DaemonSets = daemonSets{{Namespace: "gpuledger", Name: "gpuledger"}: {}}
	fs.TextVar(&o.DaemonSets, "exporter.daemonsets", o.DaemonSets, "comma-separated `daemonsets` that run exporters, as namespace/name; permit only administrators to create pods in these namespaces, because an exporter determines the labels of its Node")
	fs.BoolVar(&o.TLS, "exporter.tls", false, "read the exporters over TLS")
	fs.StringVar(&o.CAFile, "exporter.tls.ca-file", "", "CA bundle `file` that verifies exporter certificates")
	fs.StringVar(&o.ServerName, "exporter.tls.server-name", "", "server `name` in the exporter certificates")
	fs.StringVar(&o.CertFile, "exporter.tls.cert-file", "", "client certificate `file`, if the exporters require one")
	fs.StringVar(&o.KeyFile, "exporter.tls.key-file", "", "client key `file`")
	fs.StringVar(&o.Username, "exporter.basic-auth.username", "", "`name` of the basic auth user; requires TLS")
	fs.StringVar(&o.PasswordFile, "exporter.basic-auth.password-file", "", "`file` with the basic auth password")
	fs.DurationVar(&o.Timeout, "exporter.timeout", 5*time.Second, "`timeout` of one exporter request")
}

// Validate makes the checks that the flag package cannot make.
func (o *Options) Validate() error {
	var errs []error
	bad := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(len(o.DaemonSets) == 0, "--exporter.daemonsets is empty")
	bad(o.TLS && o.ServerName == "", "--exporter.tls requires --exporter.tls.server-name: exporters are reached by IP address")
	bad(!o.TLS && (o.CAFile != "" || o.ServerName != "" || o.CertFile != "" || o.KeyFile != ""), "--exporter.tls.* requires --exporter.tls")
	bad((o.CertFile == "") != (o.KeyFile == ""), "--exporter.tls.cert-file and --exporter.tls.key-file must be set together")
	bad((o.Username == "") != (o.PasswordFile == ""), "--exporter.basic-auth.username and --exporter.basic-auth.password-file must be set together")
	bad(!o.TLS && o.Username != "", "--exporter.basic-auth.* requires --exporter.tls: a password is never sent unencrypted")
	bad(o.Timeout < 100*time.Millisecond, "--exporter.timeout=%v: must be at least 100ms", o.Timeout)
	errs = append(errs, cli.CheckSecret("exporter.tls.key-file", o.KeyFile), cli.CheckSecret("exporter.basic-auth.password-file", o.PasswordFile))
	return errors.Join(errs...)
}

// Namespaces returns the namespaces of the DaemonSets in alphabetical order.
func (o *Options) Namespaces() []string {
	namespaces := make(map[string]struct{})
	for d := range o.DaemonSets {
		namespaces[d.Namespace] = struct{}{}
	}
	return slices.Sorted(maps.Keys(namespaces))
}

// DaemonSet is the namespace and the name of a DaemonSet.
type DaemonSet struct{ Namespace, Name string }

// daemonSets is a flag that lists DaemonSets as namespace/name.
type daemonSets map[DaemonSet]struct{}

func (d daemonSets) MarshalText() ([]byte, error) {
	var names []string
	for ds := range d {
		names = append(names, ds.Namespace+"/"+ds.Name)
	}
	slices.Sort(names)
	return []byte(strings.Join(names, ",")), nil
}

func (d *daemonSets) UnmarshalText(text []byte) error {
	*d = make(daemonSets)
	var list cli.List
	if err := list.UnmarshalText(text); err != nil {
		return err
	}
	for _, word := range list {
		namespace, name, _ := strings.Cut(word, "/")
		if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
			return fmt.Errorf("%q is not namespace/name", word)
		}
		(*d)[DaemonSet{namespace, name}] = struct{}{}
	}
	return nil
}
