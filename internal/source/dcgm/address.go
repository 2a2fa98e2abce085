package dcgm

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Embedded is the address of an engine that runs in this process.
const Embedded = "embedded"

const defaultPort = "5555"

// An Address is the address of a host engine.
type Address struct {
	text string
	kind kind
	// target is the part that the library receives: a path, host:port, or a URI.
	target string
}

type kind int

const (
	socket kind = iota
	tcp
	uri // the library must parse it
	embedded
)

// ParseAddress parses an address: the path of a unix socket, host:port, a URI with unix://, tcp://
// or vsock://, or [Embedded].
func ParseAddress(s string) (Address, error) {
	a := Address{text: s, target: s}
	scheme, rest, isURI := strings.Cut(s, "://")
	switch {
	case s == Embedded:
		a.kind = embedded
		return a, nil
	case isURI && strings.EqualFold(scheme, "vsock"):
		a.kind = uri
		return a, nil
	case isURI && strings.EqualFold(scheme, "unix"):
		a.target = rest // libraries before 4.5 support a path, but no URI
	case isURI && strings.EqualFold(scheme, "tcp"):
		a.kind, a.target = tcp, rest
	case isURI:
		return Address{}, fmt.Errorf("scheme must be unix, tcp or vsock")
	case !filepath.IsAbs(s):
		a.kind = tcp
	}
	if a.kind == socket {
		if !filepath.IsAbs(a.target) {
			return Address{}, fmt.Errorf("path of the socket must be absolute")
		}
		return a, nil
	}
	host, port, err := net.SplitHostPort(a.target)
	if err != nil {
		host, port = a.target, defaultPort
	}
	if host == "" || strings.ContainsAny(host, "/ ") || port == "" {
		return Address{}, fmt.Errorf("must be a socket path, host:port, a URI or %q", Embedded)
	}
	a.target = net.JoinHostPort(strings.Trim(host, "[]"), port)
	return a, nil
}

// String returns the text that was passed to ParseAddress.
func (a Address) String() string { return a.text }

// Port returns the TCP port to which the library connects, or 0 if it uses no port.
func (a Address) Port() uint16 {
	if a.kind != tcp {
		return 0
	}
	_, text, _ := net.SplitHostPort(a.target)
	port, _ := strconv.ParseUint(text, 10, 16) // the library takes numbers only
	return uint16(port)
}

// IsVSOCK reports whether the library connects through a vsock to a hypervisor.
func (a Address) IsVSOCK() bool { return a.kind == uri }

// check returns an error if the socket is missing, because the library's error does not contain the path.
func (a Address) check() error {
	if a.kind != socket {
		return nil
	}
	info, err := os.Stat(a.target)
	switch {
	case err != nil:
		return fmt.Errorf("%w (is nv-hostengine running with --domain-socket, and is its socket mounted here?)", err)
	case info.Mode()&os.ModeSocket == 0:
		return fmt.Errorf("%s is not a socket", a.target)
	}
	return nil
}
