package sampler_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// extended adds a field to each object in a JSON value, as a later version of the exporter might do.
func extended(t *testing.T, v any) any {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			v[key] = extended(t, inner)
		}
		v["later"] = map[string]any{"joules": 5, "list": []int{1, 2}}
	case []any:
		for i, inner := range v {
			v[i] = extended(t, inner)
		}
	}
	return v
}

// An older exporter must continue the books in the state file of a newer exporter and ignore unknown fields. If the
// file has a later format version, the older exporter must open new books and keep the file.
func TestDowngrade(t *testing.T) {
	w := newWorld(t)
	w.runs(first, 42, train)
	w.gives(first, train)
	s := w.sampler()
	before := w.ticks(s, 5).GPUs[0].Book
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(w.root, "state", "ledger.json")
	saved, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	var lines strings.Builder
	for line := range strings.Lines(strings.TrimRight(string(saved), "\n")) {
		decoder := json.NewDecoder(strings.NewReader(line))
		decoder.UseNumber()
		var v map[string]any
		if err := decoder.Decode(&v); err != nil {
			t.Fatal(err)
		}
		if err := json.NewEncoder(&lines).Encode(extended(t, v)); err != nil {
			t.Fatal(err)
		}
	}
	if objects := strings.Count(lines.String(), `"later"`); objects < 10 {
		t.Fatalf("%d objects are extended, want books, accounts and processes:\n%s", objects, saved)
	}
	w.write("state/ledger.json", lines.String())
	s = w.sampler()
	after := w.ticks(s, 1).GPUs[0].Book
	if !after.Opened.Equal(before.Opened) || after.Energy != before.Energy+100_000 {
		t.Errorf("same format: book %+v\nbook before the restart %+v", after, before)
	}
	if a, b := after.Accounts[0], before.Accounts[0]; a.Owner != b.Owner || !a.Opened.Equal(b.Opened) || a.Energy[gpu.Exclusive] != after.Energy {
		t.Errorf("same format: account %+v\naccount before the restart %+v", a, b)
	}

	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	later := strings.Replace(lines.String(), `"version":3`, `"version":4`, 1)
	w.write("state/ledger.json", later)
	snap := w.ticks(w.sampler(), 2)
	if b := snap.GPUs[0].Book; b.Energy != 100_000 || !b.Opened.After(after.Opened) {
		t.Errorf("later format: book %+v, want a new book with 100000 mJ", b)
	}
	if st := stageOf(snap, stage.State); !st.Up || st.Failures != 1 {
		t.Errorf("later format: stage %+v, want one failure and a stage that is up", st)
	}
	kept, err := os.ReadFile(file + ".newer")
	if diff := cmp.Diff(later, string(kept)); err != nil || diff != "" {
		t.Errorf("file in the later format: error %v (-want +kept):\n%s", err, diff)
	}
}
