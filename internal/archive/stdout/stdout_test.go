package stdout_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/stdout"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/event"
	"github.com/gpuledger/gpuledger/test/fatal"
)

var noon = sinktest.Noon

var check = fatal.If

func open(c stdout.Config, w io.Writer) (*stdout.Sink, error) {
	c.Output = &stdout.Output{}
	return stdout.Open(c, w)
}

func TestPrint(t *testing.T) {
	const row = `{"table":"workloads","revision":1,"cluster":"east/1","hour":"2026-03-01T12:00:00.000Z","kind":"Job","namespace":"ml","name":"j","uid":"w","parent_uid":""}` + "\n"
	tests := []struct {
		config stdout.Config
		want   string
	}{
		{stdout.Config{Format: "json", Table: "workloads"}, row + strings.ReplaceAll(row, "T12", "T13")},
		{stdout.Config{Format: "csv", Table: "workloads"}, "cluster,hour,kind,namespace,name,uid,parent_uid\neast/1,2026-03-01T12:00:00.000Z,Job,ml,j,w,\neast/1,2026-03-01T13:00:00.000Z,Job,ml,j,w,\n"},
	}
	for _, tt := range tests {
		var out strings.Builder
		s, err := open(tt.config, &out)
		check(t, err)
		first := sinktest.Hour(noon, 7)
		for _, h := range []*table.Hour{first, sinktest.Hour(noon.Add(time.Hour), 5)} {
			check(t, s.Replace(t.Context(), h))
		}
		if diff := cmp.Diff(tt.want, out.String()); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tt.config, diff)
		}
		if filed, err := s.Filed(t.Context(), first.Cluster, noon); err != nil || filed != first.Filed {
			t.Errorf("manifest has %+v, error %v", filed, err)
		}
		check(t, s.Close())
	}
}

// All tables must be printed, with the manifest last.
func TestTables(t *testing.T) {
	var out strings.Builder
	s, err := open(stdout.Config{Format: "json"}, &out)
	check(t, err)
	check(t, s.Replace(t.Context(), sinktest.Hour(noon, 7)))
	var got []string
	for line := range strings.Lines(out.String()) {
		_, name, _ := strings.Cut(line, `{"table":"`)
		name, _, _ = strings.Cut(name, `"`)
		got = append(got, name)
	}
	if diff := cmp.Diff([]string{"gpu_hours", "charges", "pods", "workloads", "hours"}, got); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
}

// closed fails like a closed pipe.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// If the rows of an hour cannot be printed, the hour must not count as archived.
func TestClosed(t *testing.T) {
	s, err := open(stdout.Config{Format: "json"}, closed{})
	check(t, err)
	h := sinktest.Hour(noon, 7)
	if err := s.Replace(t.Context(), h); err == nil {
		t.Error("no error")
	}
	if filed, err := s.Filed(t.Context(), h.Cluster, noon); err != nil || filed != (table.Filed{}) {
		t.Errorf("manifest has %+v, error %v", filed, err)
	}
	if _, err := open(stdout.Config{Format: "csv", Table: "charges"}, closed{}); err == nil {
		t.Error("no error for a header that cannot be printed")
	}
}

func TestOpen(t *testing.T) {
	for want, c := range map[string]stdout.Config{
		"json or csv":     {Format: "xml"},
		"gpu_hours":       {Format: "json", Table: "gpus"},
		"--stdout.table ": {Format: "csv"},
	} {
		if _, err := open(c, &strings.Builder{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error for %+v is %v, want an error with %q", c, err, want)
		}
	}
	var out strings.Builder
	s, err := open(stdout.Config{Format: "csv", Table: "workloads"}, &out)
	check(t, err)
	check(t, s.Close())
	if want := "cluster,hour,kind,namespace,name,uid,parent_uid\n"; out.String() != want {
		t.Errorf("output without hours is %q, want %q", out.String(), want)
	}
}

// Events must be printed as lines of their table. A second sink with the same output must not print another header.
func TestAppend(t *testing.T) {
	tests := []struct {
		config stdout.Config
		want   string
		keeps  bool
	}{
		{stdout.Config{Format: "json"}, `{"table":"snapshots","cluster":"east/1","hour":"2026-03-01T12:00:00.000Z","at":"2026-03-01T12:00:00.000Z","id":"u/snapshot/7","namespace":"ml","pod":"p","pod_uid":"u","resource_version":"7","node":"","object":"{}","filed_by":""}` + "\n", true},
		{stdout.Config{Format: "json", Table: "charges"}, "", false},
		{stdout.Config{Format: "csv", Table: "snapshots"}, "cluster,hour,at,id,namespace,pod,pod_uid,resource_version,node,object,filed_by\neast/1,2026-03-01T12:00:00.000Z,2026-03-01T12:00:00.000Z,u/snapshot/7,ml,p,u,7,,{},\n", true},
	}
	rows := table.EventRows(table.Snapshots, "east/1", table.Place([]event.Event{{
		Kind: event.Snapshot, ID: "u/snapshot/7", At: noon, Namespace: "ml", Pod: "p", PodUID: "u", ResourceVersion: "7",
	}}, noon))
	for _, tt := range tests {
		var out strings.Builder
		tt.config.Output = &stdout.Output{}
		for range 2 {
			_, err := stdout.Open(tt.config, &out)
			check(t, err)
		}
		s, err := stdout.Open(tt.config, &out)
		check(t, err)
		check(t, s.Append(t.Context(), table.Snapshots, rows))
		if diff := cmp.Diff(tt.want, out.String()); diff != "" || tt.config.KeepsEvents() != tt.keeps {
			t.Errorf("%s %s keeps events: %t (-want +got):\n%s", tt.config.Format, tt.config.Table, tt.config.KeepsEvents(), diff)
		}
	}
}
