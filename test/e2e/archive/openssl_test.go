//go:build e2e

package archive_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

func openssl(t *testing.T, dir string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "openssl", args...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("openssl %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func keys(t *testing.T, dir string) {
	t.Helper()
	openssl(t, dir, "genpkey", "-algorithm", "ed25519", "-out", "chain.pem")
	openssl(t, dir, "pkey", "-in", "chain.pem", "-pubout", "-out", "public.pem")
}

func opensslVerifies(t *testing.T, dir, message, signature string) {
	t.Helper()
	sig, err := base64.StdEncoding.DecodeString(signature)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(dir, "sig"), sig, 0o600))
	check(t, os.WriteFile(filepath.Join(dir, "message"), []byte(message), 0o600))
	openssl(t, dir, "pkeyutl", "-verify", "-pubin", "-inkey", "public.pem", "-rawin", "-in", "message", "-sigfile", "sig")
}

// TestOpenSSL checks with openssl that the hash and the signature of a chain entry cover the documented bytes. The
// signature of a statement must cover its payload. openssl also creates the keys.
func TestOpenSSL(t *testing.T) {
	t.Parallel()
	dir, folder := t.TempDir(), t.TempDir()
	keys(t, dir)
	signer, err := chain.ReadSigner(filepath.Join(dir, "chain.pem"))
	check(t, err)
	sink, err := files.Open(folder, []string{"csv"})
	check(t, err)
	sink.SignWith(signer)
	start := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	for n := range 2 {
		check(t, sink.Replace(t.Context(), sinktest.Hour(start.Add(time.Duration(n)*time.Hour), int64(n)+1)))
	}
	check(t, sink.Close())
	r, err := files.OpenReader(t.Context(), folder)
	check(t, err)
	entries, err := r.Entries(t.Context(), sinktest.Cluster)
	check(t, err)
	entryVerifies(t, dir, entries[0].Hash, entries[1])

	out, err := exec.CommandContext(t.Context(), binary(), "statement", "--books="+folder, "--month=2026-10", "--sign="+filepath.Join(dir, "chain.pem")).Output()
	check(t, err)
	var signed struct {
		Payload, PayloadType string
		Signatures           []struct{ KeyID, Sig string }
	}
	check(t, json.Unmarshal(out, &signed))
	payload, err := base64.StdEncoding.DecodeString(signed.Payload)
	check(t, err)
	// https://github.com/secure-systems-lab/dsse/blob/v1.0.0/protocol.md
	opensslVerifies(t, dir, fmt.Sprintf("DSSEv1 %d %s %d %s", len(signed.PayloadType), signed.PayloadType, len(payload), payload), signed.Signatures[0].Sig)
}

func entryVerifies(t *testing.T, dir, previous string, e table.Entry) {
	t.Helper()
	const moment = "2006-01-02T15:04:05.000Z"
	opensslVerifies(t, dir, fmt.Sprintf("gpuledger checkpoint\n\"east/1\"\n2\n%s\n%s\n", e.Hash, e.At.Format(moment)), e.Signature)
	text := fmt.Sprintf(`cluster="east/1" hour="2026-10-01T01:00:00.000Z" sequence="2" kind="hour" filed_at=%q state="complete" rows_digest=%q manifest_digest=%q previous=%q key_id=%q `+"\n",
		e.At.Format(moment), e.Rows, e.Manifest, previous, e.Key)
	check(t, os.WriteFile(filepath.Join(dir, "entry"), []byte(text), 0o600))
	if out := openssl(t, dir, "dgst", "-sha256", "-r", "entry"); !strings.HasPrefix(out, e.Hash+" ") {
		t.Errorf("the hash of the entry is %s, openssl returns %s", e.Hash, out)
	}
	openssl(t, dir, "pkey", "-pubin", "-in", "public.pem", "-outform", "DER", "-out", "public.der")
	if out := openssl(t, dir, "dgst", "-sha256", "-r", "public.der"); !strings.HasPrefix(out, e.Key+" ") {
		t.Errorf("the key's identifier is %s, openssl returns %s", e.Key, out)
	}
	if e.Kind != table.HourEntry {
		t.Errorf("kind %s, want %s", e.Kind, table.HourEntry)
	}
}
