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

// Options is what the flags say of the exporters.
type Options struct {
	DaemonSets daemonSets
	TLS        bool
	CAFile     string
	ServerName string
	CertFile   string
	KeyFile    string
	Username   string
	// PasswordFile is read again whenever it is needed, as are the files above.
	PasswordFile string
	Timeout      time.Duration
}

// Register adds the flags, with their defaults.
func (o *Options) Register(fs *flag.FlagSet) {
	o.DaemonSets = daemonSets{{Namespace: "gpuledger", Name: "gpuledger"}: {}}
	fs.TextVar(&o.DaemonSets, "exporter.daemonsets", o.DaemonSets, "`daemonsets` whose pods may hold an exporter, as namespace/name with commas between; only administrators may create pods in these namespaces, for such a pod decides a Node's labels")
	fs.BoolVar(&o.TLS, "exporter.tls", false, "read the exporters over TLS")
	fs.StringVar(&o.CAFile, "exporter.tls.ca-file", "", "`file` with the certificates that vouch for the exporters' ones")
	fs.StringVar(&o.ServerName, "exporter.tls.server-name", "", "`name` that must be in the exporters' certificates")
	fs.StringVar(&o.CertFile, "exporter.tls.cert-file", "", "`file` with our own certificate, if the exporters ask for one")
	fs.StringVar(&o.KeyFile, "exporter.tls.key-file", "", "`file` with its key")
	fs.StringVar(&o.Username, "exporter.basic-auth.username", "", "`name` to log in to the exporters with; needs TLS")
	fs.StringVar(&o.PasswordFile, "exporter.basic-auth.password-file", "", "`file` with the password")
	fs.DurationVar(&o.Timeout, "exporter.timeout", 5*time.Second, "`time` that one exporter gets to answer")
}

// Validate checks what the flag package cannot.
func (o *Options) Validate() error {
	var errs []error
	bad := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(len(o.DaemonSets) == 0, "--exporter.daemonsets is empty")
	bad(o.TLS && o.ServerName == "", "--exporter.tls needs --exporter.tls.server-name: exporters are reached by IP address")
	bad(!o.TLS && (o.CAFile != "" || o.ServerName != "" || o.CertFile != "" || o.KeyFile != ""), "--exporter.tls.* without --exporter.tls")
	bad((o.CertFile == "") != (o.KeyFile == ""), "--exporter.tls.cert-file and --exporter.tls.key-file belong together")
	bad((o.Username == "") != (o.PasswordFile == ""), "--exporter.basic-auth.username and --exporter.basic-auth.password-file belong together")
	bad(!o.TLS && o.Username != "", "--exporter.basic-auth.* without --exporter.tls: a password is not sent in the clear")
	bad(o.Timeout < 100*time.Millisecond, "--exporter.timeout=%v: want at least 100ms", o.Timeout)
	return errors.Join(errs...)
}

// Namespaces returns where exporters may be, in alphabetical order.
func (o *Options) Namespaces() []string {
	namespaces := make(map[string]struct{})
	for d := range o.DaemonSets {
		namespaces[d.Namespace] = struct{}{}
	}
	return slices.Sorted(maps.Keys(namespaces))
}

// DaemonSet names a DaemonSet.
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
