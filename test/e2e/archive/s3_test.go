//go:build e2e

package archive_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/test/program"
)

// secret belongs to the access key "archive". TestMain sets both in the environment.
const secret = "archive-secret"

// bucket starts an S3 gateway with the empty bucket "assets". folder contains the objects.
func bucket(t *testing.T, group *program.Group) (folder, url string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "assets")
	check(t, os.Mkdir(folder, 0o755))
	return folder, gateway(t, group, folder, secret)
}

// gateway starts an S3 gateway with a bucket, whose objects are in a folder.
func gateway(t *testing.T, group *program.Group, folder, secret string) (url string) {
	t.Helper()
	address := program.AddressFor(t)
	p, err := group.Start("versitygw", filepath.Join(os.Getenv("GPULEDGER_E2E_S3"), "versitygw"),
		"--port", address, "--access", "archive", "--secret", secret, "posix", filepath.Dir(folder))
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	check(t, p.Wait(ctx, func() error {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}))
	return "http://" + address
}

// TestS3 checks that a bucket contains the same Parquet files as a folder, byte for byte. In one case, the archive is
// killed at random times. In another case, three programs write hours of one day at the same time. Two of them write
// the same hours.
func TestS3(t *testing.T) {
	t.Parallel()
	s := foldtest.NewStore()
	foldtest.NewFleet(s, began, 7, 4, "cluster", "east").Run(hours * 60)
	group := program.OpenFor(t)
	store := "--store.url=" + simulated(t, s)
	objects, endpoint := bucket(t, group)
	folder := t.TempDir()
	into := func(url string, args ...string) *exec.Cmd {
		return command(t.Context(), t.TempDir(), append(args, store, "--s3.endpoint="+endpoint, "--s3.url="+url)...)
	}
	fileHours(t, folder, store)
	want := tree(t, folder)
	for name := range want {
		if !strings.HasSuffix(name, ".parquet") {
			delete(want, name)
		}
	}

	kill(t, func() *exec.Cmd { return into("s3://assets/killed", "--again") })
	if out, err := into("s3://assets/killed").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if diff := cmp.Diff(want, tree(t, filepath.Join(objects, "killed"))); diff != "" {
		t.Errorf("after the kills (-folder +bucket):\n%s", diff)
	}

	var programs sync.WaitGroup
	noon := began.Add(12 * time.Hour).Format(time.RFC3339)
	for _, arg := range []string{"--until=" + noon, "--from=" + noon, "--until=" + noon} {
		programs.Go(func() {
			if out, err := into("s3://assets/both", arg).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	programs.Wait()
	if diff := cmp.Diff(want, tree(t, filepath.Join(objects, "both"))); diff != "" {
		t.Errorf("filed by three programs (-folder +bucket):\n%s", diff)
	}

	for _, name := range []string{"both", "both/"} {
		if a := ask(t, "missing", "--books=s3://assets/"+name, "--s3.endpoint="+endpoint, "--to="+noon, "-o", "json"); a.status != 0 {
			t.Errorf("read %s: exit status %d: %s", name, a.status, a.errors)
		}
	}
	if a := ask(t, "missing", "--books=s3://assets/bot", "--s3.endpoint="+endpoint); a.status != 1 || !strings.Contains(a.errors, "s3://assets/bot has no files of the archive") {
		t.Errorf("read an empty prefix: exit status %d: %s", a.status, a.errors)
	}

	endpoint = gateway(t, group, objects, "another")
	if a := ask(t, "missing", "--books=s3://assets/both", "--s3.endpoint="+endpoint); a.status != 1 || !strings.Contains(a.errors, "s3://assets/both") {
		t.Errorf("read with another secret: exit status %d: %s", a.status, a.errors)
	}
	if out, err := into("s3://assets/refused").CombinedOutput(); err == nil || !strings.Contains(string(out), "--s3.url") {
		t.Errorf("with another secret: %v\n%s", err, out)
	}
}

func TestS3Sink(t *testing.T) {
	t.Parallel()
	objects, endpoint := bucket(t, program.OpenFor(t))
	n := 0
	open := func(t *testing.T, formats ...string) *files.Sink {
		n++
		sink, err := files.OpenS3(t.Context(), files.S3{URL: fmt.Sprintf("s3://assets/%d", n), Endpoint: endpoint, Lookup: "auto", Formats: formats})
		check(t, err)
		return sink
	}
	sinktest.Test(t, func(t *testing.T) sinktest.Sink { return open(t, "parquet") })
	sinktest.Test(t, func(t *testing.T) sinktest.Sink { return open(t, "csv", "parquet") })
	sinktest.TestAppend(t, func(t *testing.T) (sinktest.Appender, sinktest.Rows) {
		return open(t, "csv"), func(of table.Table) (found [][]string) {
			names, err := filepath.Glob(filepath.Join(objects, strconv.Itoa(n), of.Name, "*", "*", "*.csv"))
			check(t, err)
			for _, name := range names {
				found = append(found, lines(t, name)[1:]...)
			}
			return found
		}
	})
}
