// Package nfd writes the labels of a node to a feature file. Node Feature Discovery's worker reads this file and labels
// the Node. Thus the Node gets its labels although the exporter has no access to the API server. The file is described
// in Node Feature Discovery's documentation of the local feature source.
package nfd

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/inventory"
	"github.com/gpuledger/gpuledger/internal/nodelabel"
)

const (
	name = "gpuledger"
	// period is the interval between two readings. Labels change only after two equal readings.
	period = time.Minute
	// validity is the time after which Node Feature Discovery ignores a file that is no longer written, for example
	// because the exporter was removed.
	validity = time.Hour
	// refresh is the age at which an unchanged file is written again.
	refresh = 20 * time.Minute
)

// File writes a feature file.
type File struct {
	// Directory is the directory from which Node Feature Discovery reads feature files.
	Directory string
	// Latest returns the latest snapshot, or nil before the first snapshot.
	Latest func() *gpu.Snapshot
	Log    *slog.Logger

	read, written map[string]string // labels of the last reading, and labels in the file
	at            time.Time         // time of the last write
	failed        bool              // set if the last write failed
}

// Run writes the file until the context ends. If a write fails, Run logs the error once and repeats the write.
func (f *File) Run(ctx context.Context) error {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			err := f.update(now)
			if err != nil && !f.failed {
				f.Log.Warn("cannot write the labels for Node Feature Discovery", "err", err)
			}
			f.failed = err != nil
		}
	}
}

// update writes the file in two cases: two equal readings differ from the labels in the file, or the file will expire
// soon. While the driver does not respond, the file keeps its labels.
func (f *File) update(now time.Time) error {
	labels, want := f.labels(), f.written
	if labels != nil {
		if maps.Equal(labels, f.read) {
			want = labels
		}
		f.read = labels
	}
	if want == nil || maps.Equal(want, f.written) && now.Sub(f.at) < refresh {
		return nil
	}
	return f.write(want, now)
}

// labels returns nil if the snapshot is not complete.
func (f *File) labels() map[string]string {
	snapshot := f.Latest()
	if snapshot == nil {
		return nil
	}
	page := inventory.New(snapshot)
	if !page.DriverUp || page.Contradiction() != nil {
		return nil
	}
	rules := nodelabel.Rules{Scheme: nodelabel.Own, Prefix: nodelabel.OwnPrefix}
	return rules.Desired(snapshot.Node.Name, page).Labels
}

// write replaces the file. It first writes a file whose name begins with a dot, because Node Feature Discovery ignores
// such files.
func (f *File) write(labels map[string]string, now time.Time) error {
	var text strings.Builder
	fmt.Fprintf(&text, "# +expiry-time=%s\n", now.Add(validity).UTC().Format(time.RFC3339))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&text, "%s=%s\n", key, labels[key])
	}
	partial := filepath.Join(f.Directory, "."+name)
	if err := os.WriteFile(partial, []byte(text.String()), 0o644); err != nil { //nolint:gosec // other users must be able to read the file
		return err
	}
	if err := os.Rename(partial, filepath.Join(f.Directory, name)); err != nil {
		return err
	}
	f.written, f.at = labels, now
	return nil
}
