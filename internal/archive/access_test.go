package archive

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/test/certificate"
	"github.com/gpuledger/gpuledger/test/fatal"
)

var check = fatal.If

// The command run may receive events without credentials only on addresses that other machines cannot reach.
func TestEventAddresses(t *testing.T) {
	loopback := map[string]bool{ // true for loopback addresses; an empty text means the default address
		"":                          false,
		"10.1.2.3:9841":             false,
		"127.0.0.1:9841":            true,
		"127.0.0.1:9841 [::1]:9841": true,
		"127.0.0.1:9841 :9842":      false,
		"[::]:9841 localhost:9841":  false,
	}
	dir := t.TempDir()
	certificate.Write(t, dir, "archive.example.com")
	web := func(name, clients string) string {
		file := filepath.Join(dir, name)
		text := "tls_server_config: {cert_file: cert.pem, key_file: key.pem, " + clients + "}\n"
		check(t, os.WriteFile(file, []byte(text), 0o600))
		return "--web.config.file=" + file
	}
	credentials := map[string]bool{ // true for credentials that allow every address
		"":                           false,
		"--events.token-file=tokens": true,
		"--events.insecure":          true,
		web("required.yml", "client_ca_file: cert.pem, client_auth_type: RequireAndVerifyClientCert"): true,
		web("tls.yml", ""): false,
		web("any.yml", "client_auth_type: RequireAnyClientCert"):                                false,
		web("given.yml", "client_ca_file: cert.pem, client_auth_type: VerifyClientCertIfGiven"): false,
		web("request.yml", "client_auth_type: RequestClientCert"):                               false,
	}
	for addresses, local := range loopback {
		for credential, enough := range credentials {
			args := []string{"run", "--folder=x", "--events.receive"}
			for address := range strings.FieldsSeq(addresses) {
				args = append(args, "--web.listen-address="+address)
			}
			if credential != "" {
				args = append(args, credential)
			}
			_, err := Parse(args)
			if valid := local || enough; (err == nil) != valid {
				t.Errorf("%q: error %v, want none: %v", args, err, valid)
			}
			if err == nil {
				continue
			}
			for _, text := range []string{"--events.token-file", "RequireAndVerifyClientCert", "--events.insecure"} {
				if !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%q: the error %q is not a line with %s", args, err, text)
				}
			}
		}
	}
	if _, err := Parse([]string{"run", "--folder=x"}); err != nil {
		t.Errorf("without events: %v", err)
	}
}

// If other users may read or change a secret file, the program must not start. The error must name the flag and the
// file.
func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	certificate.Write(t, dir, "archive.example.com")
	key := filepath.Join(dir, "key.pem")
	web := filepath.Join(dir, "web.yml")
	check(t, os.WriteFile(web, []byte("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"), 0o644))
	secret := filepath.Join(dir, "secret")
	check(t, os.WriteFile(secret, []byte("east one\n"), 0o600))
	tests := []struct{ flag, value, file string }{
		{"--events.token-file", secret, secret},
		{"--http.token-file", secret, secret},
		{"--mysql.password-file", secret, secret},
		{"--web.config.file", web, key},
	}
	for _, tt := range tests {
		for mode, valid := range map[os.FileMode]bool{0o600: true, 0o640: true, 0o644: false, 0o660: false, 0o666: false} {
			check(t, os.Chmod(tt.file, mode))
			_, err := Parse([]string{"run", "--folder=x", "--http.url=https://x", "--events.receive", "--web.listen-address=127.0.0.1:9841", tt.flag + "=" + tt.value})
			if (err == nil) != valid || err != nil && (!strings.HasPrefix(err.Error(), tt.flag+": "+tt.file+" has the mode ") || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%s with the mode %04o: error %v", tt.flag, mode, err)
			}
		}
	}
}
