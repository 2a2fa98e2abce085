//go:build oauth

package web_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/test/program"
)

// oauthEnv is the environment variable that contains the folder of oauth2-proxy.
const oauthEnv = "GPULEDGER_E2E_OAUTH2_PROXY"

// clientSecret is the secret that the proxy and the issuer share.
const clientSecret = "the secret of the client"

// groupScopes selects the data that each group may see. Only the proxy has the address 127.0.0.1. Other clients of a
// test have the address 127.0.0.2.
const groupScopes = `
header: X-Forwarded-Groups
proxy:
  addresses: [127.0.0.1/32]
readers:
  finance: {all: true}
  users-a: {teams: [team-a]}
  users-b: {teams: [team-b]}
`

// oauth is oauth2-proxy in front of the archive, with an issuer.
type oauth struct {
	proxy, archive string // URLs of the proxy and the archive
}

// documented returns the flags of a command from docs/web.md, with some other values.
func documented(t *testing.T, command string, values map[string]string) (flags []string) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/web.md")
	check(t, err)
	_, section, found := strings.Cut(string(text), "## With oauth2-proxy\n")
	if !found {
		t.Fatal("docs/web.md has no section on oauth2-proxy")
	}
	_, section, found = strings.Cut(section, "$ "+command)
	if !found {
		t.Fatalf("docs/web.md has no command %s", command)
	}
	section, _, _ = strings.Cut(section, "```")
	section, _, _ = strings.Cut(section, "\n$ ")
	for _, match := range regexp.MustCompile(`--([a-z.-]+)(?:=('[^']*'|\S*))?`).FindAllStringSubmatch(section, -1) {
		flag, value := match[0], strings.Trim(match[2], "'")
		if changed, ok := values[match[1]]; ok {
			value = changed
			delete(values, match[1])
		}
		if match[2] != "" {
			flag = "--" + match[1] + "=" + value
		}
		flags = append(flags, flag)
	}
	for name := range values {
		t.Fatalf("docs/web.md does not name --%s for %s", name, command)
	}
	return flags
}

// openOAuth starts the archive and oauth2-proxy with the documented flags. The given flags are added to the flags of
// oauth2-proxy.
func openOAuth(t *testing.T, flags ...string) oauth {
	t.Helper()
	folder := os.Getenv(oauthEnv)
	if folder == "" {
		t.Fatalf("%s is not set: run the test with make oauth-check", oauthEnv)
	}
	group := program.OpenFor(t)
	bin := t.TempDir()
	check(t, program.Build(t.Context(), bin, "gpuledger-archive"))
	readers := filepath.Join(t.TempDir(), "readers.yaml")
	check(t, os.WriteFile(readers, []byte(groupScopes), 0o600))
	archive, proxy := program.AddressFor(t), program.AddressFor(t)
	serve, err := group.Start("serve", filepath.Join(bin, "gpuledger-archive"), append([]string{"serve"}, documented(t, "gpuledger-archive serve", map[string]string{
		"sqlite": drawn(t, rand.New(rand.NewPCG(1, 0))), "web.listen-address": archive, "web.pages.readers": readers,
	})...)...)
	check(t, err)
	check(t, serve.Ready(t.Context(), "http://"+archive+"/-/healthy"))

	t.Setenv("OAUTH2_PROXY_CLIENT_SECRET", clientSecret)
	t.Setenv("OAUTH2_PROXY_COOKIE_SECRET", "0123456789abcdef0123456789abcdef")
	echo := httptest.NewServer(http.HandlerFunc(echoHeaders))
	t.Cleanup(echo.Close)
	callback := "http://" + proxy + "/oauth2/callback"
	all := append(documented(t, "oauth2-proxy", map[string]string{
		"oidc-issuer-url": newIssuer(t, callback), "redirect-url": callback, "http-address": proxy, "upstream": "http://" + archive + "/",
	}), "--cookie-secure=false", "--upstream="+echo.URL+"/echo/") // the test uses no TLS
	p, err := group.Start("oauth2-proxy", filepath.Join(folder, "oauth2-proxy"), append(all, flags...)...)
	check(t, err)
	check(t, p.Ready(t.Context(), "http://"+proxy+"/ping"))
	return oauth{proxy: "http://" + proxy, archive: "http://" + archive}
}

// echoHeaders writes the headers with the user of a request. On /echo/slow, it first waits for 35 seconds.
func echoHeaders(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/echo/slow" {
		select {
		case <-r.Context().Done():
			return
		case <-time.After(35 * time.Second):
		}
	}
	for _, name := range []string{"X-Forwarded-User", "X-Forwarded-Groups", "X-Forwarded-Email", "X-Forwarded-Preferred-Username"} {
		for _, value := range r.Header.Values(name) {
			_, _ = io.WriteString(w, name+": "+value+"\n")
		}
	}
}

// browser is a client with cookies. expires is the lifetime of its session with the proxy.
type browser struct {
	http.Client
	expires time.Duration
}

// open returns a browser. login is the user who is logged in at the issuer. If login is empty, no user is logged in.
func (o oauth) open(t *testing.T, login string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	check(t, err)
	at, err := url.Parse(o.proxy)
	check(t, err)
	jar.SetCookies(at, []*http.Cookie{{Name: "login", Value: login}}) // cookies apply to all ports of the host
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	b := new(browser)
	b.Client = http.Client{Jar: jar, Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, address)
	}}, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		for _, cookie := range r.Response.Cookies() {
			if cookie.Name == "_oauth2_proxy" {
				b.expires = time.Until(cookie.Expires)
			}
		}
		return nil
	}}
	t.Cleanup(b.CloseIdleConnections)
	return b
}

func (b *browser) get(t *testing.T, page string, header http.Header) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page, nil)
	check(t, err)
	if header != nil {
		r.Header = header
	}
	response, err := b.Do(r)
	check(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	check(t, err)
	return response.StatusCode, string(text)
}

// podsPage lists the pods of each team in the random archive.
const podsPage = "/statement/2026-10?by=team,pod&o=csv"

// sees requests a page, and checks its status. The page must contain a pod of each given team, but no pod or namespace
// of other teams.
func (b *browser) sees(t *testing.T, page string, header http.Header, status int, teams ...string) {
	t.Helper()
	got, body := b.get(t, page, header.Clone())
	if got != status {
		t.Errorf("status %d, want %d:\n%s", got, status, body)
	}
	for _, team := range []string{"a", "b", "c", "d"} {
		want := strings.Contains(strings.Join(teams, ""), team)
		for _, mark := range marksOf([]string{team}) {
			if !want && strings.Contains(body, mark) {
				t.Errorf("the response contains %s:\n%s", mark, body)
			}
		}
		if want && !strings.Contains(body, "zq"+team+"-pod") {
			t.Errorf("the response does not contain the pod of team %s:\n%s", team, body)
		}
	}
}

// forged contains headers of a client that pretends to be a member of the group finance.
var forged = map[string]http.Header{
	"other group":  {"X-Forwarded-Groups": {"finance"}},
	"two headers":  {"X-Forwarded-Groups": {"users-a", "finance"}},
	"lower case":   {"x-forwarded-groups": {"finance"}},
	"underscores":  {"X_Forwarded_Groups": {"finance"}},
	"all headers":  {"X-Forwarded-User": {"finance"}, "X-Forwarded-Email": {"finance"}, "X-Forwarded-Groups": {"finance"}, "X-Auth-Request-Groups": {"finance"}},
	"hop by hop":   {"Connection": {"X-Forwarded-Groups"}, "X-Forwarded-Groups": {"finance"}},
	"address":      {"X-Forwarded-For": {"127.0.0.1"}, "X-Real-Ip": {"127.0.0.1"}, "X-Forwarded-Groups": {"finance"}},
	"basic auth":   {"Authorization": {"Basic ZmluYW5jZTp4"}, "X-Forwarded-Groups": {"finance"}},
	"session":      {"Cookie": {"_oauth2_proxy=ZmluYW5jZQ==|1|x"}, "X-Forwarded-Groups": {"finance"}},
	"bearer token": {"Authorization": {"Bearer e30.e30.x"}, "X-Forwarded-Groups": {"finance"}},
}

// TestOAuth2Proxy reads the archive through oauth2-proxy with the flags of docs/web.md.
func TestOAuth2Proxy(t *testing.T) {
	o := openOAuth(t)
	for login, teams := range map[string][]string{"alice": {"a"}, "bob": {"b"}, "both": {"a", "b"}, "carol": {"a", "b", "c", "d"}} {
		t.Run(login, func(t *testing.T) {
			b := o.open(t, login)
			b.sees(t, o.proxy+podsPage, nil, http.StatusOK, teams...)
			if b.expires < 7*time.Hour || b.expires > 8*time.Hour {
				t.Errorf("the session expires in %s, docs/web.md documents 8 hours", b.expires)
			}
		})
	}
	for name, header := range forged {
		t.Run("alice with "+name, func(t *testing.T) {
			b := o.open(t, "alice")
			b.get(t, o.proxy+podsPage, nil)
			if name == "hop by hop" { // the proxy removes its own header
				b.sees(t, o.proxy+podsPage, header, http.StatusForbidden)
				return
			}
			b.sees(t, o.proxy+podsPage, header, http.StatusOK, "a")
		})
		t.Run("no login with "+name, func(t *testing.T) {
			o.open(t, "").sees(t, o.proxy+podsPage, header, http.StatusUnauthorized) // from the issuer
		})
		t.Run("without the proxy with "+name, func(t *testing.T) {
			o.open(t, "alice").sees(t, o.archive+podsPage, header, http.StatusForbidden)
		})
	}
	t.Run("user without a group", func(t *testing.T) {
		o.open(t, "eve").sees(t, o.proxy+podsPage, nil, http.StatusForbidden)
	})
}

// TestOAuth2ProxyHeaders checks the headers in docs/web.md. It also checks that the proxy waits for a slow page.
func TestOAuth2ProxyHeaders(t *testing.T) {
	o := openOAuth(t)
	for login, groups := range map[string]string{"both": "users-a,users-b", "comma": "x,finance"} {
		_, got := o.open(t, login).get(t, o.proxy+"/echo/", nil)
		want := "X-Forwarded-User: 4711-" + login + "\nX-Forwarded-Groups: " + groups + "\nX-Forwarded-Email: " + login + "@example.com\nX-Forwarded-Preferred-Username: " + login + "\n"
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("headers of %s (-want +got):\n%s", login, diff)
		}
	}
	if status, body := o.open(t, "alice").get(t, o.proxy+"/echo/slow", nil); status != http.StatusOK {
		t.Errorf("a page that takes 35 seconds: status %d\n%s", status, body)
	}
}

// TestOAuth2ProxyPreserved checks the warning in docs/web.md about --skip-auth-strip-headers=false: with this flag, a
// client can add groups.
func TestOAuth2ProxyPreserved(t *testing.T) {
	o := openOAuth(t, "--skip-auth-strip-headers=false")
	b := o.open(t, "alice")
	b.get(t, o.proxy+podsPage, nil)
	b.sees(t, o.proxy+podsPage, forged["other group"], http.StatusOK, "a", "b", "c", "d")
}
