package address_test

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/address"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"http://127.0.0.1:9090":                         "http://127.0.0.1:9090",
		"https://user:word@store.example.com/a/b?c=d":   "https://store.example.com/a/b",
		"https://token@store.example.com/a%2Fb#c":       "https://store.example.com/a%2Fb",
		"https://user:w@rd@store.example.com?token=%40": "https://store.example.com",
		"http://user:1/23@host/":                        "",
		"http://user:1?23@host/":                        "",
		"http://user:1#23@host/":                        "",
		"http://user:wo rd@host":                        "",
		"http://user:%zz@host":                          "",
		"http://user:word@host:port":                    "",
		"user:word@host:9090":                           "",
		"postgres:///db?host=/run/postgresql":           "postgres:///db",
		"postgres:///user:word@db":                      "",
		"localhost:9090":                                "",
		"//user:word://rest@host":                       "",
		"http:/user:word://rest@host":                   "",
		"":                                              "",
	} {
		u, err := address.Parse(text)
		if err != nil {
			u = &url.URL{}
		}
		if got := address.Public(u); got != want || (err == nil) != (want != "") {
			t.Errorf("Parse(%q) = %q, error %v, want %q", text, got, err, want)
		}
	}
}

// For any characters in the secret of a URL, the public form of the URL must not contain the secret.
func FuzzSecrets(f *testing.F) {
	for _, odd := range []string{"", " ", "%zz", "%", "/", "?", "#", "@", ":", "&", "=", ";", "\"\\", "é", "\n", "%40", "[", "//", "://", "1/23@"} {
		f.Add(odd)
	}
	f.Fuzz(func(t *testing.T, odd string) {
		const first, second = "Pq7hunter", "Zx9tiger"
		secret := first + odd + second
		for _, form := range []string{
			"http://user:%s@host:9090/path", "https://%s@host", "http://user:%s@host:port", "http://user:%s@[::1", "mysql://user:%s@host/db?tls=true",
			"http://host/?token=%s", "https://host?a=1&token=%s&b=%%zz", "user:%s@host:9090", "http:user:%s@host", "http:/user:%s@host", "//user:%s@host",
		} {
			for _, text := range []string{fmt.Sprintf(form, secret), fmt.Sprintf(form, url.QueryEscape(secret)), fmt.Sprintf(form, url.PathEscape(secret))} {
				u, err := address.Parse(text)
				if err != nil {
					clean(t, text, err.Error(), first, second)
					continue
				}
				clean(t, text, address.Public(u), first, second)
				u.Fragment, u.RawFragment = "", "" // servers do not receive the fragment
				password, _ := u.User.Password()
				echo := fmt.Errorf("status 400: %q, %s, %s, %s", "cannot POST "+u.String(), u.RawQuery, password, u.Query().Get("token"))
				clean(t, text, address.Hide(u, echo).Error(), first, second)
				clean(t, text, address.Hide(u, &url.Error{Op: "Post", URL: text, Err: echo}).Error(), first, second)
			}
		}
	})
}

func clean(t *testing.T, text, got string, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		if strings.Contains(got, secret) {
			t.Errorf("the text for %q contains a secret: %s", text, got)
		}
	}
}

func TestHide(t *testing.T) {
	cause := errors.New("token=hunter22 is refused")
	u, err := address.Parse("http://host/?token=hunter22&x=1")
	if err != nil {
		t.Fatal(err)
	}
	got := address.Hide(u, fmt.Errorf("query 1: %w", cause))
	if !errors.Is(got, cause) || got.Error() != "query 1: xxxxx is refused" && got.Error() != "query 1: token=xxxxx is refused" {
		t.Errorf("error is %q", got)
	}
	if address.Hide(u, nil) != nil {
		t.Error("Hide turns nil into an error")
	}
}

func TestIsHTTP(t *testing.T) {
	for text, want := range map[string]bool{
		"http://h": true, "https://h:1/p": true, "https://u:p@h": true, "HTTP://h": true,
		"http://": false, "http:///p": false, "ftp://h": false, "httpss://h": false, "//h": false, "h": false, "": false,
	} {
		u, err := url.Parse(text)
		if err != nil || address.IsHTTP(u) != want {
			t.Errorf("IsHTTP(%q) must be %v, error %v", text, want, err)
		}
	}
}

// A name that begins like a loopback address may be the name of another machine.
func TestIsPrivate(t *testing.T) {
	for host, loopback := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "localhost": true, "LocalHost": true, "::ffff:127.0.0.1": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "localhost.example.com": false, "127.0.0.1.example.com": false, "128.0.0.1": false, "fe80::1%eth0": false, "archive.example.com": false,
	} {
		if got := address.IsLoopback(host); got != loopback {
			t.Errorf("loopback %q: %v, want %v", host, got, loopback)
		}
		if got := address.ListensOnLoopback(net.JoinHostPort(host, "9841")); got != loopback {
			t.Errorf("listening on %q: %v, want %v", host, got, loopback)
		}
		for scheme, private := range map[string]bool{"http": loopback, "https": true} {
			u := &url.URL{Scheme: scheme, Host: net.JoinHostPort(host, "1")}
			if got := address.IsPrivate(u); got != private {
				t.Errorf("%s is private: %v, want %v", u, got, private)
			}
		}
	}
	for _, listen := range []string{":9841", "9841", "localhost", ""} {
		if address.ListensOnLoopback(listen) {
			t.Errorf("%q listens on loopback only", listen)
		}
	}
}
