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

// chainedBooks returns an archive of two hours with a signed hash chain. The folder keys contains the keys and the
// checkpoints.
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

func TestVerifyChain(t *testing.T) {
	folder, keys := chainedBooks(t)
	verify := []string{"verify", "--chain", "--books=" + folder, "--public-key=" + filepath.Join(keys, "public.pem"), "--witness=file://" + filepath.Join(keys, "published.jsonl")}
	r := run(t, append(verify, "-o", "csv")...)
	r.has(0, ",2,2,2,", ",0,true")
	r.lacks("no checkpoint")
	checkpoints := filepath.Join(keys, "published.jsonl")
	published, err := os.ReadFile(checkpoints)
	check(t, err)
	for lines, entry := range map[string]string{strings.SplitAfter(string(published), "\n")[0]: "entry 1 of 2", strings.ReplaceAll(string(published), "east/1", "west"): "entry 0 of 2"} {
		check(t, os.WriteFile(checkpoints, []byte(lines), 0o600))
		run(t, verify...).has(map[string]int{"entry 0 of 2": 1}[entry], "cluster east/1: no checkpoint was published after "+entry)
	}
	check(t, os.WriteFile(checkpoints, published, 0o600))
	charges := filepath.Join(folder, "charges", "cluster=east%2F1", "date=2026-10-01", "charges.csv")
	text, err := os.ReadFile(charges)
	check(t, err)
	check(t, os.WriteFile(charges, []byte(strings.Replace(string(text), "2026-10-01T01:00:00.000Z,a,", "2026-10-01T01:00:00.000Z,b,", 1)), 0o600))
	run(t, verify...).has(1, "cluster east/1, hour 2026-10-01T01: the rows of the hour were changed")
	run(t, append(verify, "--from=2026-10-01", "--to=2026-10-01T01")...).has(0) // the changed row is in the next hour
	check(t, os.WriteFile(charges, text, 0o600))
	entries := filepath.Join(folder, "chain", "cluster=east%2F1", "chain-0000000001.csv")
	text, err = os.ReadFile(entries)
	check(t, err)
	lines := strings.SplitAfter(string(text), "\n")
	check(t, os.WriteFile(entries, []byte(lines[0]+lines[1]), 0o600))
	run(t, verify...).has(1, "checkpoint 2 was published, but the chain ends at entry 1")
}

// TestSign checks that the signature of a statement is valid, and that it is invalid after the statement was changed.
// In make e2e, TestOpenSSL verifies the signature with openssl.
func TestSign(t *testing.T) {
	folder, keys := chainedBooks(t)
	r := run(t, "statement", "--books="+folder, "--month=2026-10", "--prices="+file(t, prices), "--sign="+filepath.Join(keys, "chain.pem"))
	r.has(0)
	document := filepath.Join(keys, "statement.json")
	verify := func(text string) result {
		check(t, os.WriteFile(document, []byte(text), 0o600))
		return run(t, "verify", document, "--public-key="+filepath.Join(keys, "public.pem"))
	}
	want := verify(r.out)
	want.has(0, "The signature is valid", "Chain: east/1, entry 2 of", "Factors: --prices=list.csv ", "blue", "3.000", "KWH")
	want.lacks("Cluster:")
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
	r = run(t, "statement", "--books="+folder, "--month=2026-10", "--of-cluster=east/1", "--sign="+filepath.Join(keys, "chain.pem"))
	verify(r.out).has(0, "Cluster: only east/1\n")
	run(t, "verify", document).has(1, "--public-key")
}
