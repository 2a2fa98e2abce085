package expected_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/internal/reconciler/expected"
)

// TestList changes a folder several times, and checks the page and the log after each change.
func TestList(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) func() {
		return func() {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
				t.Error(err)
			}
		}
	}
	steps := []struct {
		name   string
		do     func()
		page   string
		logged []string
	}{
		{"no file yet", func() {}, "errors 1", []string{"no .csv file"}},
		{"still none", func() {}, "errors 1", nil},
		{
			"two dies of one board", write("rack1.csv", "node,serial\ng1,S1\ng1,S1\ng2,S2\n"),
			"board g1 S1\nboard g2 S2\nerrors 0",
			[]string{"boards=2"},
		},
		{"nothing new", func() {}, "board g1 S1\nboard g2 S2\nerrors 0", nil},
		{
			"a second file with an invalid line", write("rack2.csv", "node,serial\ng3,S3\ng4\n"),
			"board g1 S1\nboard g2 S2\nboard g3 S3\nerrors 1",
			[]string{"rack2.csv: line 3: the column serial is empty", "boards=3"},
		},
		{
			"a board in two nodes", write("rack2.csv", "node,serial\ng3,S1\ng3,S3\n"),
			"board g2 S2\nboard g3 S3\nerrors 1",
			[]string{"is listed in two places, g1 and g3", "boards=2"},
		},
		{
			"a board in two slots", write("rack2.csv", "node,serial,chassis_slot\ng3,S3,1\ng3,S3,2\ng3,S4\ng3,S4,3\n"),
			"board g1 S1\nboard g2 S2\nboard g3 S4\nboard g3 S4\nerrors 1",
			[]string{"is listed in two places, g3 slot 1 and g3 slot 2", "boards=4"},
		},
		{
			"two slots, distinguished by a third line", write("rack2.csv", "node,serial,chassis_slot\ng3,S3,1\ng3,S3\ng3,S3,2\ng3,S4\ng3,S4,3\ng3,S4,5\n"),
			"board g1 S1\nboard g2 S2\nerrors 2",
			[]string{"is listed in two places, g3 slot 1 and g3 slot 2", "is listed in two places, g3 slot 3 and g3 slot 5", "boards=2"},
		},
		{
			"two dies of boards whose slots are known, in any order", write("rack2.csv", "node,serial,chassis_slot\ng3,S3,1\ng3,S4,2\ng3,S3,1\ng3,S4,2\n"),
			"board g1 S1\nboard g2 S2\nboard g3 S3\nboard g3 S4\nerrors 0",
			[]string{"boards=4"},
		},
		{
			"a file that cannot be read", func() {
				if err := os.Mkdir(filepath.Join(folder, "rack0.csv"), 0o700); err != nil {
					t.Error(err)
				}
			},
			"board g1 S1\nboard g2 S2\nboard g3 S3\nboard g3 S4\nerrors 1",
			[]string{"keeping the inventory that was read last", "rack0.csv: is a directory"},
		},
		{
			"the path is missing", func() {
				if err := os.Remove(filepath.Join(folder, "rack0.csv")); err != nil {
					t.Error(err)
				}
				write("rack2.csv", "node,serial,chassis_slot\ng3,S3,1\ng3,S3,2\ng3,S4\ng3,S4,3\n")()
			},
			"board g1 S1\nboard g2 S2\nboard g3 S4\nboard g3 S4\nerrors 1",
			[]string{"is listed in two places, g3 slot 1 and g3 slot 2"},
		},
		{
			"a file that names no columns", write("rack2.csv", "g3,S3\n"),
			"board g1 S1\nboard g2 S2\nboard g3 S4\nboard g3 S4\nerrors 1",
			[]string{"keeping the inventory that was read last", "rack2.csv: line 1: no column"},
		},
		{
			"an empty file", write("rack2.csv", ""),
			"board g1 S1\nboard g2 S2\nboard g3 S4\nboard g3 S4\nerrors 1",
			[]string{"rack2.csv: the list is empty"},
		},
		{
			"a quotation mark that does not end", write("rack2.csv", "node,serial\n\"g3,S3\ng3,S4\n"),
			"board g1 S1\nboard g2 S2\nboard g3 S4\nboard g3 S4\nerrors 1",
			[]string{"rack2.csv: record on line 2"},
		},
		{
			"mended", write("rack2.csv", "node,serial\ng3,S3\n"),
			"board g1 S1\nboard g2 S2\nboard g3 S3\nerrors 0",
			[]string{"boards=3"},
		},
		{
			"a folder that cannot be read", func() {
				if err := os.Rename(folder, folder+".gone"); err != nil {
					t.Error(err)
				}
			},
			"board g1 S1\nboard g2 S2\nboard g3 S3\nerrors 1",
			[]string{"no such file"},
		},
	}
	synctest.Test(t, func(t *testing.T) {
		var logged lines
		list := expected.New(folder, slog.New(slog.NewTextHandler(&logged, nil)))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		steps[0].do()
		go func() { ended <- list.Run(ctx) }()
		for i, step := range steps {
			if i > 0 {
				step.do()
				time.Sleep(30 * time.Second)
			}
			synctest.Wait()
			if got := show(t, list); got != step.page {
				t.Errorf("%s: the page shows\n%s\nwant\n%s", step.name, got, step.page)
			}
			for _, node := range []string{"g1", "g2", "g3", "g4"} {
				if got, want := list.Lists(node), strings.Contains(step.page, "board "+node+" "); got != want {
					t.Errorf("%s: lists %s: %v, want %v", step.name, node, got, want)
				}
			}
			text := logged.take()
			for _, want := range step.logged {
				if !strings.Contains(text, want) {
					t.Errorf("%s: logged %q, want %q", step.name, text, want)
				}
			}
			if len(step.logged) == 0 && text != "" {
				t.Errorf("%s: logged %q", step.name, text)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

func families(t *testing.T, list *expected.Inventory) []*dto.MetricFamily {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(list)
	all, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// show returns the node and the serial number of each board on a page, and the number of errors.
func show(t *testing.T, list *expected.Inventory) string {
	t.Helper()
	var lines []string
	for _, f := range families(t, list) {
		for _, m := range f.GetMetric() {
			if f.GetName() == "gpuledger_expected_inventory_errors" {
				lines = append(lines, fmt.Sprintf("errors %v", m.GetGauge().GetValue()))
				continue
			}
			values := make(map[string]string)
			for _, l := range m.GetLabel() {
				values[l.GetName()] = l.GetValue()
			}
			lines = append(lines, fmt.Sprintf("board %s %s", values["node"], values["serial"]))
		}
	}
	return strings.Join(lines, "\n")
}

func TestCatalogueMatchesPage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "boards.csv")
	if err := os.WriteFile(file, []byte("node,serial\ng1,S1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	list := expected.New(file, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := list.Run(ctx); err != nil {
		t.Fatal(err)
	}
	type shape struct {
		Type, Help string
		Labels     []string
	}
	want, got, used := make(map[string]shape), make(map[string]shape), make(map[string]bool)
	for _, m := range expected.Catalogue() {
		want[m.Name] = shape{m.TypeName(), m.Help, slices.Sorted(slices.Values(m.Labels))}
	}
	page := families(t, list)
	for _, f := range page {
		s := shape{Type: strings.ToLower(f.GetType().String()), Help: f.GetHelp()}
		for _, l := range f.GetMetric()[0].GetLabel() {
			s.Labels = append(s.Labels, l.GetName())
			used[l.GetName()] = true
		}
		got[f.GetName()] = s
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("page differs from the catalogue (-catalogue +page):\n%s", diff)
	}
	if problems, err := promlint.NewWithMetricFamilies(page).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	described := make(map[string]bool)
	for _, l := range expected.Labels() {
		described[l.Name] = true
	}
	if diff := cmp.Diff(used, described); diff != "" {
		t.Errorf("labels (-used +described):\n%s", diff)
	}
}
