package injector

import (
	"errors"
	"flag"
	"fmt"
	"net"

	"github.com/gpuledger/gpuledger/internal/sidecar"
)

const flagAddress = "--webhook.listen-address"

// Options configures the webhook.
type Options struct {
	// Address is the listen address, or empty if the webhook is disabled.
	Address string
	// Certificates is a folder with the files tls.crt and tls.key. If it is empty, the reconciler makes the
	// certificates.
	Certificates string
	// Namespace is the namespace of the ConfigMap, the Secret and the Service.
	Namespace string
}

// Register adds the flags.
func (o *Options) Register(fs *flag.FlagSet) {
	fs.StringVar(&o.Address, "webhook.listen-address", "", "listen `address` of the admission webhook that adds the exporter to pods, as host:port; empty disables the webhook")
	fs.StringVar(&o.Certificates, "webhook.certificates", "", "`folder` with tls.crt and tls.key for the webhook; if empty, the reconciler creates both files and stores them in the Secret gpuledger-webhook")
}

// Validate makes the checks that the flag package cannot make.
func (o *Options) Validate() error {
	if o.Address == "" {
		if o.Certificates != "" {
			return errors.New("--webhook.certificates requires --webhook.listen-address")
		}
		return nil
	}
	if _, _, err := net.SplitHostPort(o.Address); err != nil {
		return fmt.Errorf("%s=%s: must be host:port or :port: %w", flagAddress, o.Address, err)
	}
	return nil
}

// host returns the name that the API server verifies in the webhook's certificate.
func (o *Options) host() string { return sidecar.ServiceName + "." + o.Namespace + ".svc" }
