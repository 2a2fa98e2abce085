package ask_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
)

// chainedBooks returns a folder with two hours and a signed chain, and a folder with the keys and the checkpoints.
func chainedBooks(t *testing.T) (folder, keys string) {
	t.Helper()
	folder, keys = t.TempDir(), t.TempDir()
	signer := sinktest.KeyFiles(t, filepath.Join(keys, "chain.pem"), filepath.Join(keys, "public.pem"))
	sink, err := files.Open(folder, []string{"csv"})
	check(t, err)
	sink.SignWith(signer)
	for n := range 2 {
		check(t, sink.Replace(t.Context(), sinktest.Hour(october.Add(time.Duration(n)*time.Hour), int64(n+1)*kWh)))
		head, err := sink.Head(t.Context(), sinktest.Cluster)
		check(t, err)
		check(t, chain.Publish(t.Context(), "file://"+filepath.Join(keys, "published.jsonl"), "", chain.CheckpointOf("folder", head)))
	}
	check(t, sink.Close())
	return folder, keys
}

// TestVerifyChain checks the answers about chains that are complete, changed or truncated.
func TestVerifyChain(t *testing.T) {
	folder, keys := chainedBooks(t)
	verify := []string{"verify", "--chain", "--books=" + folder, "--public-key=" + filepath.Join(keys, "public.pem"), "--witness=file://" + filepath.Join(keys, "published.jsonl")}
	if r := run(t, append(verify, "-o", "csv")...); r.status != 0 || strings.Contains(r.err, "no checkpoint") || !strings.Contains(r.out, ",2,2,2,") || !strings.Contains(r.out, ",0,true") {
		t.Errorf("exit status %d: %s%s", r.status, r.out, r.err)
	}
	checkpoints := filepath.Join(keys, "published.jsonl")
	published, err := os.ReadFile(checkpoints)
	check(t, err)
	for lines, entry := range map[string]string{strings.SplitAfter(string(published), "\n")[0]: "entry 1 of 2", strings.ReplaceAll(string(published), "east/1", "west"): "entry 0 of 2"} {
		check(t, os.WriteFile(checkpoints, []byte(lines), 0o600))
		if r := run(t, verify...); !strings.Contains(r.out, "cluster east/1: no checkpoint was published after "+entry) {
			t.Errorf("without newer checkpoints: %s%s", r.out, r.err)
		}
	}
	check(t, os.WriteFile(checkpoints, published, 0o600))
	charges := filepath.Join(folder, "charges", "cluster=east%2F1", "date=2026-10-01", "charges.csv")
	text, err := os.ReadFile(charges)
	check(t, err)
	check(t, os.WriteFile(charges, []byte(strings.Replace(string(text), "2026-10-01T01:00:00.000Z,a,", "2026-10-01T01:00:00.000Z,b,", 1)), 0o600))
	if r := run(t, verify...); r.status != 1 || !strings.Contains(r.out, "cluster east/1, hour 2026-10-01T01: the rows of the hour were changed") {
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

// TestSign checks that a signed statement is valid, and that a changed statement is not. In make e2e, TestOpenSSL
// verifies the signature with openssl.
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
	if strings.Contains(want.out, "Cluster:") {
		t.Errorf("a statement of all clusters:\n%s", want.out)
	}
	r = run(t, "statement", "--books="+folder, "--month=2026-10", "--of-cluster=east/1", "--sign="+filepath.Join(keys, "chain.pem"))
	if got := verify(r.out); !strings.Contains(got.out, "Cluster: only east/1\n") {
		t.Errorf("a statement of a cluster:\n%s%s", got.out, got.err)
	}
	if r := run(t, "verify", document); r.status != 1 || !strings.Contains(r.err, "--public-key") {
		t.Errorf("without a key: exit status %d: %s", r.status, r.err)
	}
}
