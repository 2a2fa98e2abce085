//go:build e2e

package kubelet_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/test/certificate"
	"github.com/gpuledger/gpuledger/test/program"
)

// These hosts occur in the documented commands.
const (
	codeHost     = "github.com"
	imageHost    = "ghcr.io"
	registryHost = "registry.example.com"
)

// serveRelease serves an empty registry, the files of the release, and the repository with the release's tag, at the
// node's address. Programs that start later resolve the documented hosts to the node, and trust their certificates.
func serveRelease(t *testing.T, dir, crane string) {
	t.Helper()
	registry := program.AddressFor(t)
	start(t, dir, crane, "registry", "serve", "--address="+registry)

	repository := filepath.Join(dir, "code", "gpuledger", "gpuledger")
	for _, args := range [][]string{{"clone", "--quiet", "--bare", "../../..", repository}, {"-C", repository, "tag", version}} {
		_, err := output("git", args...)
		check(t, err)
	}
	const files = "/gpuledger/gpuledger/releases/download/" + version + "/"
	mux := http.NewServeMux()
	mux.Handle("/", httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: registry}))
	mux.Handle(codeHost+"/", &cgi.Handler{
		Path: "/usr/lib/git-core/git-http-backend",
		Env:  []string{"GIT_PROJECT_ROOT=" + filepath.Join(dir, "code"), "GIT_HTTP_EXPORT_ALL=1"},
	})
	mux.Handle(codeHost+files, http.StripPrefix(files, http.FileServer(http.Dir(release(t)))))

	certificate.Write(t, dir, codeHost, imageHost, registryHost)
	authority := filepath.Join(dir, "cert.pem")
	pair, err := tls.LoadX509KeyPair(authority, filepath.Join(dir, "key.pem"))
	check(t, err)
	listener, err := tls.Listen("tcp", net.JoinHostPort(nodeIP, "443"), &tls.Config{Certificates: []tls.Certificate{pair}})
	check(t, err)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	t.Cleanup(func() { check(t, server.Close()) })
	go func() { _ = server.Serve(listener) }() // Serve returns after Close

	trust(t, authority, codeHost, imageHost, registryHost)
}

// trust makes programs that start later resolve the given hosts to the node's address. These programs also trust the
// authority that signed the hosts' certificates.
func trust(t *testing.T, authority string, names ...string) {
	t.Helper()
	for _, variable := range []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"} {
		t.Setenv(variable, authority)
	}
	t.Setenv("NO_PROXY", "*")
	hosts := filepath.Join(t.TempDir(), "hosts")
	check(t, os.WriteFile(hosts, []byte("127.0.0.1 localhost\n"+nodeIP+" "+strings.Join(names, " ")+"\n"), 0o644))
	check(t, unix.Mount(hosts, "/etc/hosts", "", unix.MS_BIND, ""))
	t.Cleanup(func() { check(t, unix.Unmount("/etc/hosts", unix.MNT_DETACH)) })
}
