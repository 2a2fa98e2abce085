package outbox

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"net/url"

	"github.com/gpuledger/gpuledger/internal/cli"
	"github.com/gpuledger/gpuledger/internal/event"
)

// Options configures the connection to the archive.
type Options struct {
	// URL is the base URL of the archive. If it is empty, no events are sent.
	URL     string
	Cluster string
	// TokenFile and CAFile are paths. The files may not exist yet, and they are read again when they change.
	TokenFile, CAFile string
	// CertFile and KeyFile contain the client certificate, if the archive requires one.
	CertFile, KeyFile string
	// TokenOverHTTP sends the token even without TLS.
	TokenOverHTTP bool
	// Dial connects to the archive. If it is nil, the connection uses TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Register adds the flags with their defaults.
func (o *Options) Register(fs *flag.FlagSet) {
	fs.StringVar(&o.URL, "events.url", "", "base `URL` of a gpuledger-archive to which events of GPU pods and workloads are sent; default is none")
	fs.StringVar(&o.Cluster, "events.cluster", "", "`name` of this cluster in the archive: the external label cluster of its Prometheus")
	fs.StringVar(&o.TokenFile, "events.token-file", "", "`file` with the bearer token for the archive; requires TLS, except on loopback or with --events.token-over-http")
	fs.BoolVar(&o.TokenOverHTTP, "events.token-over-http", false, "send the token without TLS, to an archive in the same cluster; anyone who can read the network traffic between the pods can then read the token")
	fs.StringVar(&o.CAFile, "events.tls.ca-file", "", "CA bundle `file` that verifies the certificate of the archive")
	fs.StringVar(&o.CertFile, "events.tls.cert-file", "", "client certificate `file`, if the archive requires one")
	fs.StringVar(&o.KeyFile, "events.tls.key-file", "", "client key `file`")
}

// Validate makes the checks that the flag package cannot make.
func (o *Options) Validate() error {
	if o.URL == "" {
		if o.Cluster+o.TokenFile+o.CAFile+o.CertFile+o.KeyFile != "" || o.TokenOverHTTP {
			return errors.New("--events.cluster, --events.token-file, --events.token-over-http and --events.tls.* require --events.url")
		}
		return nil
	}
	var errs []error
	base, err := url.Parse(o.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.User != nil {
		return fmt.Errorf("--events.url=%s: must be a URL such as https://archive.example.com, without a password", o.URL)
	}
	if o.Cluster == "" {
		errs = append(errs, errors.New("--events.url requires --events.cluster"))
	}
	if o.TokenFile != "" && base.Scheme != "https" && !loopback(base.Hostname()) && !o.TokenOverHTTP {
		errs = append(errs, errors.New("--events.token-file requires an --events.url with https, or --events.token-over-http to send the token unencrypted"))
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		errs = append(errs, errors.New("--events.tls.cert-file and --events.tls.key-file must be set together"))
	}
	return errors.Join(append(errs, cli.CheckSecret("events.token-file", o.TokenFile), cli.CheckSecret("events.tls.key-file", o.KeyFile))...)
}

// address returns the URL for requests. The options must be valid.
func (o *Options) address() string {
	at, err := url.Parse(o.URL)
	if err != nil {
		return o.URL
	}
	at = at.JoinPath(event.Path)
	q := at.Query()
	q.Set(event.ClusterParameter, o.Cluster)
	at.RawQuery = q.Encode()
	return at.String()
}

func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}
