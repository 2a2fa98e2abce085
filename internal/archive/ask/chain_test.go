package ask_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
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

// openssl runs openssl with a shell's words, in a folder.
func openssl(t *testing.T, dir string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is missing: install the Debian package openssl")
	}
	c := exec.Command("openssl", args...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("openssl %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// chainedBooks returns a folder with two hours and a signed chain, and a folder with the key that openssl made.
func chainedBooks(t *testing.T) (folder, keys string) {
	t.Helper()
	folder, keys = t.TempDir(), t.TempDir()
	openssl(t, keys, "genpkey", "-algorithm", "ed25519", "-out", "chain.pem")
	openssl(t, keys, "pkey", "-in", "chain.pem", "-pubout", "-out", "public.pem")
	signer, err := chain.ReadSigner(filepath.Join(keys, "chain.pem"))
	check(t, err)
	sink, err := files.Open(folder, []string{"csv"})
	check(t, err)
	sink.SignWith(signer)
	for n := range 2 {
		check(t, sink.Replace(t.Context(), sinktest.Hour(october.Add(time.Duration(n)*time.Hour), int64(n+1)*kWh)))
		head, err := sink.Head(t.Context(), sinktest.Cluster)
		check(t, err)
		check(t, chain.Publish(t.Context(), "file://"+filepath.Join(keys, "published.jsonl"), chain.CheckpointOf("folder", head)))
	}
	check(t, sink.Close())
	return folder, keys
}

// TestVerifyChain checks the answers about a whole, a changed and a cut chain.
func TestVerifyChain(t *testing.T) {
	folder, keys := chainedBooks(t)
	verify := []string{"verify", "--chain", "--books=" + folder, "--public-key=" + filepath.Join(keys, "public.pem"), "--witness=file://" + filepath.Join(keys, "published.jsonl")}
	if r := run(t, append(verify, "-o", "csv")...); r.status != 0 || !strings.Contains(r.out, ",2,2,2,") || !strings.Contains(r.out, ",0,true") {
		t.Errorf("exit status %d: %s%s", r.status, r.out, r.err)
	}
	charges := filepath.Join(folder, "charges", "cluster=east%2F1", "date=2026-10-01", "charges.csv")
	text, err := os.ReadFile(charges)
	check(t, err)
	check(t, os.WriteFile(charges, []byte(strings.Replace(string(text), "2026-10-01T01:00:00.000Z,a,", "2026-10-01T01:00:00.000Z,b,", 1)), 0o600))
	if r := run(t, verify...); r.status != 1 || !strings.Contains(r.out, "cluster east/1, hour 2026-10-01T01: its rows were changed") {
		t.Errorf("a changed row: exit status %d: %s%s", r.status, r.out, r.err)
	}
	if r := run(t, append(verify, "--from=2026-10-01", "--to=2026-10-01T01")...); r.status != 0 {
		t.Errorf("an hour before the changed row: exit status %d: %s%s", r.status, r.out, r.err)
	}
	check(t, os.WriteFile(charges, text, 0o600))
	entries := filepath.Join(folder, "chain", "cluster=east%2F1", "chain-0000000001.csv")
	text, err = os.ReadFile(entries)
	check(t, err)
	lines := strings.SplitAfter(string(text), "\n")
	check(t, os.WriteFile(entries, []byte(lines[0]+lines[1]), 0o600))
	if r := run(t, verify...); r.status != 1 || !strings.Contains(r.out, "checkpoint 2 was published, but the chain ends at entry 1") {
		t.Errorf("a removed entry: exit status %d: %s%s", r.status, r.out, r.err)
	}
}

// TestSign checks that a signed statement verifies with openssl, and that no change of it does.
func TestSign(t *testing.T) {
	folder, keys := chainedBooks(t)
	r := run(t, "statement", "--books="+folder, "--month=2026-10", "--prices="+file(t, prices), "--sign="+filepath.Join(keys, "chain.pem"))
	if r.status != 0 {
		t.Fatalf("exit status %d: %s", r.status, r.err)
	}
	document := filepath.Join(keys, "statement.json")
	verify := func(text string) result {
		check(t, os.WriteFile(document, []byte(text), 0o600))
		return run(t, "verify", document, "--public-key="+filepath.Join(keys, "public.pem"))
	}
	want := verify(r.out)
	for _, part := range []string{"The signature is valid", "Chain: east/1, entry 2 of", "Factors: --prices=list.csv ", "blue", "3.000", "KWH"} {
		if want.status != 0 || !strings.Contains(want.out, part) {
			t.Errorf("exit status %d, no %q:\n%s%s", want.status, part, want.out, want.err)
		}
	}
	var signed struct {
		Payload, PayloadType string
		Signatures           []struct{ KeyID, Sig string }
	}
	check(t, json.Unmarshal([]byte(r.out), &signed))
	payload, err := base64.StdEncoding.DecodeString(signed.Payload)
	check(t, err)
	sig, err := base64.StdEncoding.DecodeString(signed.Signatures[0].Sig)
	check(t, err)
	// https://github.com/secure-systems-lab/dsse/blob/v1.0.0/protocol.md
	check(t, os.WriteFile(filepath.Join(keys, "message"), fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(signed.PayloadType), signed.PayloadType, len(payload), payload), 0o600))
	check(t, os.WriteFile(filepath.Join(keys, "sig"), sig, 0o600))
	openssl(t, keys, "pkeyutl", "-verify", "-pubin", "-inkey", "public.pem", "-rawin", "-in", "message", "-sigfile", "sig")
	random := rand.New(rand.NewPCG(7, 8))
	refused := 0
	for range 300 {
		changed := []byte(r.out)
		changed[random.IntN(len(changed))] = "ABCxyz019+/= {}\",:"[random.IntN(18)]
		if got := verify(string(changed)); got.status == 0 && got.out != want.out {
			t.Errorf("a changed document is valid:\n%s", got.out)
		} else if got.status != 0 {
			refused++
		}
	}
	if refused < 200 {
		t.Errorf("only %d of 300 changes are refused", refused)
	}
	if r := run(t, "verify", document); r.status != 1 || !strings.Contains(r.err, "--public-key") {
		t.Errorf("without a key: exit status %d: %s", r.status, r.err)
	}
}

// TestEntrySignature checks with openssl that an entry's hash and signature cover the documented bytes.
func TestEntrySignature(t *testing.T) {
	folder, keys := chainedBooks(t)
	r, err := files.OpenReader(t.Context(), folder)
	check(t, err)
	entries, err := r.Entries(t.Context(), sinktest.Cluster)
	check(t, err)
	e := entries[1]
	sig, err := base64.StdEncoding.DecodeString(e.Signature)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(keys, "sig"), sig, 0o600))
	check(t, os.WriteFile(filepath.Join(keys, "message"), fmt.Appendf(nil, "gpuledger checkpoint\n\"east/1\"\n2\n%s\n%s\n", e.Hash, e.At.Format("2006-01-02T15:04:05.000Z")), 0o600))
	openssl(t, keys, "pkeyutl", "-verify", "-pubin", "-inkey", "public.pem", "-rawin", "-in", "message", "-sigfile", "sig")
	text := fmt.Sprintf(`cluster="east/1" hour="2026-10-01T01:00:00.000Z" sequence="2" kind="hour" filed_at=%q state="complete" rows_digest=%q manifest_digest=%q previous=%q key_id=%q `+"\n",
		e.At.Format("2006-01-02T15:04:05.000Z"), e.Rows, e.Manifest, entries[0].Hash, e.Key)
	check(t, os.WriteFile(filepath.Join(keys, "entry"), []byte(text), 0o600))
	if out := openssl(t, keys, "dgst", "-sha256", "-r", "entry"); !strings.HasPrefix(out, e.Hash+" ") {
		t.Errorf("the hash of the entry is %s, openssl returns %s", e.Hash, out)
	}
	openssl(t, keys, "pkey", "-pubin", "-in", "public.pem", "-outform", "DER", "-out", "public.der")
	if out := openssl(t, keys, "dgst", "-sha256", "-r", "public.der"); !strings.HasPrefix(out, e.Key+" ") {
		t.Errorf("the key's identifier is %s, openssl returns %s", e.Key, out)
	}
	if e.Kind != table.HourEntry {
		t.Errorf("kind %s", e.Kind)
	}
}
