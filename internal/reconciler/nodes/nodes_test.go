package nodes

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

func TestLateCertificate(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.crt")
	synctest.Test(t, func(t *testing.T) {
		opts := *testOptions("gpuledger", "gpuledger.io")
		opts.Exporters.TLS, opts.Exporters.CAFile = true, ca
		n := New(opts, slog.New(slog.DiscardHandler))
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := n.Run(short, Cluster{}); err != nil || short.Err() == nil {
			t.Errorf("Run ended with %v", err)
		}
		time.AfterFunc(time.Minute, func() {
			if err := os.WriteFile(ca, []byte(certificate), 0o600); err != nil {
				t.Error(err)
			}
		})
		if n.client(t.Context()) == nil {
			t.Error("there is no client")
		}
	})
}

const certificate = `-----BEGIN CERTIFICATE-----
MIIBdTCCARugAwIBAgIUCUjlnWTaGmCOUjx+/uRBZffU/U4wCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMjAyMDA2MTJaGA8yMTI2MTAyNzIwMDYx
MlowDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABPin
xgy5WbWEjnV3z1iJ5qJyznPfn0OgqBaa5BH/YyWRrXwxuqAgdzxjmhcJcvErv0a/
ainJiH6QaSZVmlu3/VujUzBRMB0GA1UdDgQWBBQBHp0r0ql9SZXXVaSjok1y40Tr
RzAfBgNVHSMEGDAWgBQBHp0r0ql9SZXXVaSjok1y40TrRzAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0gAMEUCIDSri9YQ5FUw4tw0K9LFkYo7iPD15RUBZCGn
7+hWkw2MAiEA9xiUhK74exx37KgKNNax4u0PKTmCH+obWW0k463H8ZU=
-----END CERTIFICATE-----
`
