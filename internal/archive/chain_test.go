package archive

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
)

// Another program with the same key replaces the hash chain. The published checkpoints must reveal the replacement.
// Without the key, the archive must write no more hours.
func TestPublish(t *testing.T) {
	keys := t.TempDir()
	key, public, published := filepath.Join(keys, "key.pem"), filepath.Join(keys, "public.pem"), filepath.Join(keys, "published.jsonl")
	sinktest.KeyFiles(t, key, public)
	simulate(t, func(w *world) {
		sink, dir := w.folder("one")
		_, stop := w.start([]string{"--chain.key=" + key, "--chain.publish=file://" + published}, sink)
		w.until(7, 30)
		stop()
		all, err := chain.Published(w.Context(), "file://"+published, "", "one")
		check(w, err)
		valid, err := chain.ReadKeys(public)
		check(w, err)
		verify := func(dir string) (problems []chain.Problem) {
			r, err := files.OpenReader(w.Context(), dir)
			check(w, err)
			reports, err := chain.Check{Keys: valid, Published: all}.Verify(w.Context(), r)
			check(w, err)
			for _, r := range reports {
				if r.Head.Sequence != 7 || r.Signed != 7 || r.Hours != 7 {
					w.Errorf("cluster %s has %d entries for %d hours, %d of them signed", r.Cluster, r.Head.Sequence, r.Hours, r.Signed)
				}
				problems = append(problems, r.Problems...)
			}
			return problems
		}
		if problems := verify(dir); len(problems) > 0 || len(all) < 6 {
			w.Errorf("%d checkpoints, problems %v", len(all), problems)
		}
		other, otherDir := w.folder("other")
		_, stop = w.start([]string{"--chain.key=" + key}, other)
		w.until(7, 40)
		stop()
		if problems := verify(otherDir); len(problems) == 0 {
			w.Error("a replaced chain is not found")
		}
		_, stop = w.start(nil, sink)
		w.until(8, 30)
		stop()
		if n := len(w.filed(dir, "east")); n != 7 || w.log.logged("set --chain.key") == 0 {
			w.Errorf("%d hours are filed after the key was removed:\n%s", n, w.log)
		}
	})
}

// TestPublishPlaces publishes checkpoints in two places, and one place fails. The other place must receive each
// checkpoint once, without delay. When the failed place works again, it must receive the newest checkpoint.
func TestPublishPlaces(t *testing.T) {
	keys := t.TempDir()
	key := filepath.Join(keys, "key.pem")
	sinktest.KeyFiles(t, key, filepath.Join(keys, "public.pem"))
	failing, working := filepath.Join(keys, "folder", "a.jsonl"), filepath.Join(keys, "b.jsonl")
	simulate(t, func(w *world) {
		sink, _ := w.folder("one")
		_, stop := w.start([]string{"--chain.key=" + key, "--chain.publish=file://" + failing, "--chain.publish=file://" + working}, sink)
		newest := func(path string) map[string]int64 {
			all, err := chain.Published(w.Context(), "file://"+path, "", "")
			check(w, err)
			last := make(map[string]int64)
			for _, c := range all {
				if c.Sequence <= last[c.Cluster] {
					w.Errorf("%s: cluster %s has checkpoint %d after %d", path, c.Cluster, c.Sequence, last[c.Cluster])
				}
				last[c.Cluster] = c.Sequence
			}
			return last
		}
		w.until(6, 30)
		if last := newest(working); last["east"] != 6 {
			w.Errorf("checkpoints %v", last)
		}
		check(w, os.Mkdir(filepath.Dir(failing), 0o700))
		w.until(7, 30)
		stop()
		if last := newest(failing); !maps.Equal(last, newest(working)) || last["east"] != 7 {
			w.Errorf("checkpoints %v", last)
		}
	})
}
