package chain_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/version"

	"github.com/gpuledger/gpuledger/internal/archive/ask"
	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/test/fatal"
)

var update = flag.Bool("update", false, "write the output of commands into docs/dispute.md")

const (
	disputePage  = "../../../docs/dispute.md"
	disputeBegin = "<!-- go test ./internal/archive/chain -run=TestDispute -update: begin -->\n"
	disputeEnd   = "<!-- end -->"
)

const (
	kWh    = 3_600_000_000 // mJ
	prices = "from,until,cluster,model,per_kwh,per_gpu_hour,currency\n2026-01-01,,,,0.20,,EUR\n2026-01-01,,east,H100,,2,EUR\n2026-10-02,,,,0.30,,EUR\n"
)

var check = fatal.If

// disputed writes an archive of three hours with its chain, checkpoints, prices and keys to a folder. The private key
// and all times are the same in every run.
func disputed(t *testing.T, dir string) {
	t.Helper()
	key := ed25519.NewKeyFromSeed([]byte("a key for the page docs/dispute.")[:ed25519.SeedSize])
	der, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(dir, "chain.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	der, err = x509.MarshalPKIXPublicKey(key.Public())
	check(t, err)
	check(t, os.WriteFile(filepath.Join(dir, "public.pem"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600))
	check(t, os.WriteFile(filepath.Join(dir, "prices.csv"), []byte(prices), 0o600))
	signer, err := chain.ReadSigner(filepath.Join(dir, "chain.pem"))
	check(t, err)
	sink, err := files.Open(filepath.Join(dir, "archive"), []string{"csv"})
	check(t, err)
	sink.SignWith(signer)
	for n := range 3 {
		start := time.Date(2026, 10, 31, 11+n, 0, 0, 0, time.UTC)
		h := &table.Hour{Cluster: "east", Start: start}
		for i, who := range []string{"search/index-0", "vision/train-0"} {
			namespace, pod, _ := strings.Cut(who, "/")
			uuid, serial, energy := fmt.Sprintf("GPU-%d", i+1), fmt.Sprint(1653924023101+i), int64(n+2*i+1)*kWh/10
			h.GPUs = append(h.GPUs, table.GPU{Node: "gpu-1", UUID: uuid, Serial: serial, Model: "H100", Energy: energy, First: start, Last: start.Add(time.Hour), Scrapes: 60})
			h.Charges = append(h.Charges, table.Charge{
				Node: "gpu-1", UUID: uuid, Serial: serial, Namespace: namespace, Pod: pod, PodUID: "u-" + pod, Team: namespace,
				Energy: energy, Exclusive: energy, Held: 3_600_000, GPUTime: 3_600_000, Active: 3_600_000, Busy: 3_000_000, Began: start, Ended: start.Add(time.Hour),
			})
		}
		time.Sleep(time.Until(start.Add(65 * time.Minute)))
		check(t, sink.Replace(t.Context(), sinktest.Complete(h)))
		head, err := sink.Head(t.Context(), "east")
		check(t, err)
		check(t, chain.Publish(t.Context(), "file:"+filepath.Join(dir, "checkpoints.jsonl"), "", chain.CheckpointOf("folder", head)))
	}
	check(t, sink.Close())
}

// TestDispute compares docs/dispute.md with the output of its commands.
func TestDispute(t *testing.T) {
	text, err := os.ReadFile(disputePage)
	check(t, err)
	before, rest, _ := strings.Cut(string(text), disputeBegin)
	old, after, found := strings.Cut(rest, disputeEnd)
	if !found {
		t.Fatalf("%s has no line %q", disputePage, disputeEnd)
	}
	path, err := filepath.Abs(disputePage)
	check(t, err)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Chdir(t.TempDir())
	version.Version = "0.1.0"
	t.Cleanup(func() { version.Version = "" })
	var page string
	synctest.Test(t, func(t *testing.T) {
		disputed(t, ".")
		page = regexp.MustCompile("(?s)```console\n.*?```").ReplaceAllStringFunc(old, func(block string) string { return answered(t, block) })
	})
	if *update {
		check(t, os.WriteFile(path, []byte(before+disputeBegin+page+disputeEnd+after), 0o600))
		return
	}
	if diff := cmp.Diff(page, old); diff != "" {
		t.Errorf("%s (-run +page):\n%s", disputePage, diff)
	}
}

func answered(t *testing.T, block string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("```console\n")
	for line := range strings.Lines(block) {
		command, is := strings.CutPrefix(line, "$ gpuledger-archive ")
		if !is {
			continue
		}
		command, to, _ := strings.Cut(strings.TrimSpace(command), " > ")
		var out, failure bytes.Buffer
		terminal := ask.Terminal{Out: &out, Err: &failure, Program: "gpuledger-archive"}
		if status := ask.Run(context.Background(), strings.Fields(command), terminal, time.Now()); status != 0 {
			t.Errorf("%s: exit status %d: %s%s", command, status, &out, &failure)
		}
		b.WriteString(line)
		if to != "" {
			check(t, os.WriteFile(to, out.Bytes(), 0o600))
			continue
		}
		b.Write(out.Bytes())
	}
	return b.String() + "```"
}
