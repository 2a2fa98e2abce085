// Package address removes secrets from URLs in errors and logs. These are user names, passwords and the values of
// parameters. The package also reports whether only this machine can reach a host, and whether requests to a URL are
// private.
package address

import (
	"cmp"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

var errInvalid = errors.New("invalid URL: the characters / ? # @ % and spaces in a password must be percent-encoded")

// Parse parses a URL, which may have no host. The error does not contain the URL. A URL with an @ after the host is
// invalid. Its password probably contains one of the characters / ? #, so that a part of the password would be the
// host.
func Parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errInvalid
	}
	rest, found := strings.CutPrefix(text[len(u.Scheme):], "://")
	if !found {
		return nil, errInvalid
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 && strings.Contains(rest[i:], "@") {
		return nil, errInvalid
	}
	return u, nil
}

// IsHTTP reports whether a URL is the address of an HTTP or HTTPS server.
func IsHTTP(u *url.URL) bool {
	return u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// IsLoopback reports whether only this machine can reach a host. It resolves only the name localhost, because the
// addresses of other names may change.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

// ListensOnLoopback reports whether only this machine can reach a listen address, such as 127.0.0.1:9841.
func ListensOnLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err == nil && IsLoopback(host)
}

// IsPrivate reports whether requests to a URL are encrypted or stay on this machine.
func IsPrivate(u *url.URL) bool { return u.Scheme == "https" || IsLoopback(u.Hostname()) }

// Public returns a URL without the user, the password, the parameters and the fragment.
func Public(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// Shorter secrets are not hidden, because such short values occur in any text.
const minSecret = 4

// Hide returns an error without the secrets of a URL. It also removes the URL of a failed request.
func Hide(u *url.URL, err error) error {
	if err == nil {
		return nil
	}
	if of, ok := errors.AsType[*url.Error](err); ok {
		err = of.Err
	}
	values := []string{u.RawQuery, u.User.String(), u.Fragment, u.EscapedFragment()}
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		_, value, _ := strings.Cut(pair, "=")
		values = append(values, value) // a value with an invalid encoding stays as it is
	}
	if password, ok := u.User.Password(); ok {
		values = append(values, password)
	}
	if strings.HasPrefix(u.Scheme, "http") {
		values = append(values, u.User.Username()) // the user may be a token
	}
	for name, all := range u.Query() {
		if strings.Join(all, "") == "" {
			all = []string{name} // the name is a part of a value with an unescaped &
		}
		values = append(values, all...)
	}
	var secrets []string
	for _, value := range values {
		quoted := strconv.Quote(value)
		secrets = append(secrets, value, url.QueryEscape(value), url.PathEscape(value), quoted[1:len(quoted)-1])
	}
	secrets = slices.DeleteFunc(secrets, func(s string) bool { return len(s) < minSecret })
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	var pairs []string
	for _, secret := range secrets {
		pairs = append(pairs, secret, "xxxxx")
	}
	return &hidden{err, strings.NewReplacer(pairs...).Replace(err.Error())}
}

type hidden struct {
	error
	text string
}

func (h *hidden) Error() string { return h.text }

func (h *hidden) Unwrap() error { return h.error }
