package web

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/gpuledger/gpuledger/internal/archive/ask"
)

// readers selects the data that each reader may see.
type readers struct {
	// Header is the header in which a proxy sends the authenticated user, or the groups of this user, separated by
	// commas.
	Header string `json:"header"`
	// Proxy identifies the proxy by its addresses, or by the names in its client certificate.
	Proxy struct {
		Addresses    []netip.Prefix `json:"addresses"`
		Certificates []string       `json:"certificates"`
	} `json:"proxy"`
	// Readers contains the scopes of users and groups by name.
	Readers map[string]reader `json:"readers"`
}

type reader struct {
	All bool `json:"all"`
	ask.Rule
}

func readReaders(path string) (*readers, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--web.pages.readers: %w", err)
	}
	all := new(readers)
	if err := yaml.UnmarshalStrict(text, all); err != nil {
		return nil, fmt.Errorf("--web.pages.readers=%s: %w", path, err)
	}
	if err := all.validate(); err != nil {
		return nil, fmt.Errorf("--web.pages.readers=%s: %w", path, err)
	}
	return all, nil
}

func (r *readers) validate() error {
	proxies := len(r.Proxy.Addresses) + len(r.Proxy.Certificates)
	switch {
	case len(r.Readers) == 0:
		return errors.New("readers must have the name of a user or group")
	case r.Header != "" && proxies == 0:
		return errors.New("header requires proxy.addresses or proxy.certificates: otherwise every client could set the header")
	case r.Header == "" && proxies > 0:
		return errors.New("proxy requires header: set it to a name such as X-Forwarded-Groups")
	case strings.EqualFold(r.Header, "Authorization"):
		return errors.New("header must name a header with the user or the groups, not Authorization")
	}
	for name, reader := range r.Readers {
		values := slices.Concat(reader.Teams, reader.Namespaces, reader.Clusters)
		if name == "" || strings.ContainsAny(name, ",") || name != strings.TrimSpace(name) {
			return fmt.Errorf("readers: %q must be the name of a user or group", name)
		}
		if reader.All == (len(values) > 0) || slices.Contains(values, "") {
			return fmt.Errorf("readers: %s must have either all: true, or at least one of teams, namespaces and clusters", name)
		}
	}
	return nil
}

// identity returns the users and groups of a request. They come from the header of a trusted proxy. Without this
// header, the result is the user of basic auth. users contains the users whose passwords the server checks.
func (r *readers) identity(req *http.Request, users map[string]string) []string {
	if values := req.Header.Values(r.Header); r.Header != "" && len(values) > 0 && r.trusted(req) {
		if len(values) > 1 {
			return nil // the proxy has not removed a header from the client
		}
		var names []string
		for name := range strings.SplitSeq(values[0], ",") {
			names = append(names, strings.TrimSpace(name))
		}
		return names
	}
	user, _, ok := req.BasicAuth()
	if _, known := users[user]; ok && known {
		return []string{user}
	}
	return nil
}

func (r *readers) trusted(req *http.Request) bool {
	host, _, err := net.SplitHostPort(req.RemoteAddr)
	if err != nil {
		return false
	}
	if ip, err := netip.ParseAddr(host); err == nil && slices.ContainsFunc(r.Proxy.Addresses, func(p netip.Prefix) bool { return p.Contains(ip.Unmap().WithZone("")) }) {
		return true
	}
	if req.TLS == nil || len(req.TLS.VerifiedChains) == 0 || len(req.TLS.VerifiedChains[0]) == 0 {
		return false
	}
	leaf := req.TLS.VerifiedChains[0][0]
	return slices.ContainsFunc(append(slices.Clone(leaf.DNSNames), leaf.Subject.CommonName), func(name string) bool {
		return slices.Contains(r.Proxy.Certificates, name)
	})
}

// scope combines the scopes of the names. If no name is known, the result is empty.
func (r *readers) scope(names []string) (s ask.Scope) {
	for _, name := range names {
		known, ok := r.Readers[name]
		switch {
		case ok && known.All:
			s.All = true
		case ok:
			s.Rules = append(s.Rules, known.Rule)
		}
	}
	return s
}
