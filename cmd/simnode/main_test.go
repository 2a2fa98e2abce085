package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

func TestBadFlags(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"unknown flag", []string{"--verbose"}, "-verbose"},
		{"unknown scenario", []string{"--scenario=dgx"}, "must be one of: dgx-h100 gb200"},
		{"address without a port", []string{"--web.listen-address=localhost"}, "--web.listen-address"},
		{"board without a machine", []string{"--board=3=1"}, "3=1: must be POSITION=NUMBER.POSITION"},
		{"board with an extra number", []string{"--board=3=1.3,4"}, "3=1.3,4: must be POSITION=NUMBER.POSITION"},
		{"board twice", []string{"--board=3=1.3", "--board=3=2.3"}, "position 3 already has a board"},
		{"no such board", []string{"--board=3=1.8"}, "no board 8 in dgx-h100"},
		{"argument", []string{"gb200"}, `unexpected argument "gb200"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			if got := status(run(t.Context(), tt.args, output{&out, &errs})); got != 2 {
				t.Errorf("status %d, want 2", got)
			}
			if s := errs.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, tt.want) {
				t.Errorf("stderr is %q, want one line with %q", s, tt.want)
			}
		})
	}
}

func TestList(t *testing.T) {
	var out bytes.Buffer
	if got := status(run(t.Context(), []string{"--list"}, output{&out, &out})); got != 0 {
		t.Errorf("status %d, want 0", got)
	}
	if n, want := strings.Count(out.String(), "\n"), len(simnode.Scenarios()); n != want {
		t.Errorf("%d lines, want %d:\n%s", n, want, &out)
	}
}

// stub writes a shell script in place of the exporter, and an empty file in place of the driver library. It returns the
// flags that select them. Tests with a stub cover only the lifetime of the child process; cmd/gpuledger tests the real
// exporter.
func stub(t *testing.T, script string) []string {
	t.Helper()
	dir := t.TempDir()
	exporter, library := filepath.Join(dir, "exporter"), filepath.Join(dir, "library")
	if err := os.WriteFile(exporter, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(library, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--exporter=" + exporter, "--nvml.library=" + library, "--web.listen-address=127.0.0.1:0"}
}

func TestExporterEnds(t *testing.T) {
	for script, want := range map[string]string{"exit 3": "exit status 3", "exit 0": "status 0"} {
		var out, errs bytes.Buffer
		if got := status(run(t.Context(), stub(t, script), output{&out, &errs})); got != 1 {
			t.Errorf("status %d, want 1", got)
		}
		if !strings.Contains(errs.String(), "simnode: exporter ended unexpectedly") || !strings.Contains(errs.String(), want) {
			t.Errorf("stderr is %q, want %q", &errs, want)
		}
	}
}

func TestNothingToStart(t *testing.T) {
	var out, errs bytes.Buffer
	args := []string{"--exporter=/nonexistent/gpuledger", "--nvml.library=" + t.TempDir(), "--web.listen-address=127.0.0.1:0"}
	if got := status(run(t.Context(), args, output{&out, &errs})); got != 1 || !strings.Contains(errs.String(), "/nonexistent/gpuledger") {
		t.Errorf("status %d, stderr %q", got, &errs)
	}
}

func TestAddressTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var out, errs bytes.Buffer
	args := append(stub(t, "exit 3"), "--web.listen-address="+l.Addr().String())
	if got := status(run(t.Context(), args, output{&out, &errs})); got != 1 || out.Len() > 0 {
		t.Errorf("status %d, want 1; stdout is:\n%s", got, &out)
	}
	if s := errs.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, "address already in use") || !strings.Contains(s, "make run ADDRESS=") {
		t.Errorf("stderr is %q", s)
	}
}

func TestBaseURL(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:9840": "http://127.0.0.1:9840", ":9840": "http://localhost:9840",
		"0.0.0.0:80": "http://localhost:80", "[::]:80": "http://localhost:80", "[::1]:80": "http://[::1]:80",
	} {
		if got := baseURL(listen); got != want {
			t.Errorf("baseURL(%q) = %q, want %q", listen, got, want)
		}
	}
}
