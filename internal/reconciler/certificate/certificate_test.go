package certificate_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuledger/gpuledger/internal/reconciler/certificate"
	testcertificate "github.com/gpuledger/gpuledger/test/certificate"
)

const host = "gpuledger-webhook.gpuledger.svc"

// TestRenew calls Renew on each day of ten simulated years. A TLS client that trusts the first authority must always
// accept the certificate, even if the client's clock is a day slow or a month fast.
func TestRenew(t *testing.T) {
	start := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	data, changed, err := certificate.Renew(nil, host, start)
	check(t, err)
	if !changed {
		t.Fatal("an empty Secret was not filled")
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data[certificate.Authority])
	certificates := 1
	for day := range 3650 {
		now := start.AddDate(0, 0, day)
		before := maps.Clone(data)
		data, changed, err = certificate.Renew(data, host, now)
		check(t, err)
		if changed {
			certificates++
		}
		if string(before[certificate.Authority]) != string(data[certificate.Authority]) {
			t.Fatalf("day %d: the authority has changed", day)
		}
		if !changed && day%30 != 0 {
			continue
		}
		for _, clock := range []time.Time{now.Add(-23 * time.Hour), now.AddDate(0, 0, 29)} {
			check(t, handshake(t, data, &tls.Config{RootCAs: roots, ServerName: host, Time: func() time.Time { return clock }}))
		}
	}
	if want := 3650/60 + 1; certificates < want-1 || certificates > want+1 {
		t.Errorf("%d certificates in ten years, want one for every 60 days", certificates)
	}
	if err := handshake(t, data, &tls.Config{RootCAs: roots, ServerName: "other.gpuledger.svc", Time: func() time.Time { return start.AddDate(0, 0, 3649) }}); err == nil {
		t.Error("the certificate is accepted for another host")
	}
}

func handshake(t *testing.T, data map[string][]byte, client *tls.Config) error {
	t.Helper()
	var holder certificate.Holder
	check(t, holder.Set(data[certificate.Server], data[certificate.ServerKey]))
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: holder.Get, MinVersion: tls.VersionTLS13})
	check(t, err)
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.Copy(io.Discard, c) // the client closes the connection
			_ = c.Close()
		}
	}()
	c, err := tls.Dial("tcp", l.Addr().String(), client)
	if err == nil {
		err = c.Close()
	}
	return err
}

func TestBrokenSecrets(t *testing.T) {
	now := time.Now()
	good, _, err := certificate.Renew(nil, host, now)
	check(t, err)
	other, _, err := certificate.Renew(nil, host, now)
	check(t, err)
	tests := []struct {
		name   string
		change func(map[string][]byte)
		host   string
		want   string // "kept" if Renew replaces nothing, "server" if it replaces only the server certificate, or a part of the error
	}{
		{"complete", func(map[string][]byte) {}, host, "kept"},
		{"another key", func(d map[string][]byte) { d["another"] = []byte("x") }, host, "kept"},
		{"no certificate", func(d map[string][]byte) { delete(d, certificate.Server) }, host, "server"},
		{"no key", func(d map[string][]byte) { delete(d, certificate.ServerKey) }, host, "server"},
		{"a truncated certificate", func(d map[string][]byte) { d[certificate.Server] = d[certificate.Server][:100] }, host, "server"},
		{"the key of another certificate", func(d map[string][]byte) { d[certificate.ServerKey] = other[certificate.ServerKey] }, host, "server"},
		{"a certificate from another authority", func(d map[string][]byte) {
			d[certificate.Server], d[certificate.ServerKey] = other[certificate.Server], other[certificate.ServerKey]
		}, host, "server"},
		{"a certificate for another host", func(map[string][]byte) {}, "gpuledger-webhook.elsewhere.svc", "server"},
		{"no key for the authority", func(d map[string][]byte) { delete(d, certificate.AuthorityKey) }, host, "remove both"},
		{"no authority", func(d map[string][]byte) { delete(d, certificate.Authority) }, host, "remove both"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			data := maps.Clone(good)
			tt.change(data)
			renewed, changed, err := certificate.Renew(data, tt.host, now)
			switch {
			case err != nil:
				if !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %v, want %s", err, tt.want)
				}
			case changed != (tt.want == "server"):
				t.Errorf("changed: %v, want %s", changed, tt.want)
			case string(renewed[certificate.Authority]) != string(good[certificate.Authority]) || string(renewed["another"]) != string(data["another"]):
				t.Error("the authority or a key of another program changed")
			}
		})
	}
}

// TestFollow checks that the Holder uses a changed certificate after at most a minute. While the files are invalid, the
// Holder must keep the last valid certificate.
func TestFollow(t *testing.T) {
	folder, written := t.TempDir(), 0
	write := func() {
		written++
		made := t.TempDir()
		testcertificate.Write(t, made, host)
		check(t, os.Rename(filepath.Join(made, "cert.pem"), filepath.Join(folder, "tls.crt")))
		check(t, os.Rename(filepath.Join(made, "key.pem"), filepath.Join(folder, "tls.key")))
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		var holder certificate.Holder
		go holder.Follow(ctx, folder, slog.New(slog.DiscardHandler))
		leaf := func() string {
			time.Sleep(61 * time.Second)
			c, err := holder.Get(nil)
			if err != nil {
				return ""
			}
			return string(c.Certificate[0])
		}
		if leaf() != "" || !holder.Expiry().IsZero() {
			t.Error("a certificate without files")
		}
		write()
		first := leaf()
		if first == "" || holder.Expiry().IsZero() {
			t.Fatal("the files were not read")
		}
		check(t, os.WriteFile(filepath.Join(folder, "tls.key"), []byte("x"), 0o600))
		if leaf() != first {
			t.Error("the broken files changed the certificate")
		}
		write()
		if second := leaf(); second == first || second == "" {
			t.Error("the new files were not read")
		}
	})
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
