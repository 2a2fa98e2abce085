package files

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net/url"
	"path"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/gpuid"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// In the layout gpuid, a folder or bucket contains only the serial numbers of boards. The program gpuid defines this
// format.
const (
	LayoutTables = "tables"
	LayoutGPUID  = "gpuid"
)

// LayoutHelp is the help of the flags that set a layout.
const LayoutHelp = "`layout` of the files: tables, or gpuid for serial numbers in gpuid's folders and CSV records"

// CheckLayout returns an error if a layout is unknown. The error names the flag.
func CheckLayout(flag, layout string) error {
	if layout != LayoutTables && layout != LayoutGPUID {
		return fmt.Errorf("%s=%s: must be %s or %s", flag, layout, LayoutTables, LayoutGPUID)
	}
	return nil
}

// Serials is a sink for serial numbers in gpuid's layout. It writes CSV files without a header, one for each node and
// hour:
//
//	year=2026/month=11/day=01/hour=15/cluster=east/node=a/20261101-150000-gpuledger.csv
//
// The manifest of such a sink is in the folder _gpuledger, which readers of gpuid's layout ignore.
type Serials struct {
	storage  storage
	manifest *Sink
}

// OpenSerials returns a sink for serial numbers in a local folder. It creates a missing folder, and locks the folder
// against other processes.
func OpenSerials(path string) (*Serials, error) {
	s, err := Open(path, []string{formats[0].name})
	if err != nil {
		return nil, err
	}
	return newSerials(s), nil
}

// OpenSerialsBucket returns a sink for serial numbers in a bucket.
func OpenSerialsBucket(ctx context.Context, c S3) (*Serials, error) {
	c.Formats = []string{formats[0].name}
	s, err := OpenS3(ctx, c)
	if err != nil {
		return nil, err
	}
	return newSerials(s), nil
}

func newSerials(s *Sink) *Serials {
	at := s.storage
	s.storage = below{at, "_gpuledger"}
	return &Serials{at, s}
}

// below restricts a storage to one folder. Names in lists still begin with this folder.
type below struct {
	storage
	folder string
}

func (b below) open(ctx context.Context, name, known string) (content, string, error) {
	return b.storage.open(ctx, path.Join(b.folder, name), known)
}

func (b below) list(ctx context.Context, of listing, each func(info)) error {
	return b.storage.list(ctx, listing{path.Join(b.folder, of.folder), of.deep}, each)
}

func (b below) write(ctx context.Context, name string, data []byte, tag string) (string, error) {
	return b.storage.write(ctx, path.Join(b.folder, name), data, tag)
}

func (b below) remove(ctx context.Context, name string) error {
	return b.storage.remove(ctx, path.Join(b.folder, name))
}

// Filed returns the row of an hour in the manifest. It returns zero if there is no such row.
func (s *Serials) Filed(ctx context.Context, cluster string, hour time.Time) (table.Filed, error) {
	return s.manifest.Filed(ctx, cluster, hour)
}

// Clusters returns the first and last archived hour of each cluster since a time.
func (s *Serials) Clusters(ctx context.Context, since time.Time) (map[string]table.Span, error) {
	return s.manifest.Clusters(ctx, since)
}

// Close unlocks the folder.
func (s *Serials) Close() error { return s.storage.Close() }

// Replace replaces the files of an hour, but keeps files from gpuid. It first removes the hour from the manifest, and
// adds it again last.
func (s *Serials) Replace(ctx context.Context, h *table.Hour) error {
	none := func([][]any) [][]any { return nil }
	if err := s.manifest.apply(ctx, &filing{Hour: h, changes: []change{{table.Hours, none}}}); err != nil {
		return err
	}
	folder := hourFolder(h)
	stale := make(map[string]bool)
	err := s.storage.list(ctx, listing{folder, true}, func(found info) { stale[found.name] = path.Base(found.name) == fileName(h) })
	if err != nil {
		return err
	}
	for _, node := range gpuid.Nodes(h) {
		name := path.Join(folder, "node="+url.PathEscape(node.Name), fileName(h))
		if err := s.put(ctx, name, node.Readings); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		stale[name] = false
	}
	for name, ours := range stale {
		if !ours {
			continue
		}
		if err := s.storage.remove(ctx, name); err != nil {
			return err
		}
	}
	return s.manifest.apply(ctx, &filing{Hour: h, changes: []change{{table.Hours, func([][]any) [][]any { return table.Hours.Rows(h) }}}})
}

func hourFolder(h *table.Hour) string {
	return path.Join(h.Start.UTC().Format("year=2006/month=01/day=02/hour=15"), clusterFolder(h.Cluster))
}

// fileName follows gpuid's pattern. All revisions of an hour have the same name.
func fileName(h *table.Hour) string {
	return h.Start.UTC().Format("20060102-150405") + "-gpuledger.csv"
}

// put writes a file. If another program changed the file at the same time, it writes again.
func (s *Serials) put(ctx context.Context, name string, readings []gpuid.Reading) error {
	var data bytes.Buffer
	out := csv.NewWriter(&data)
	for _, r := range readings {
		if err := out.Write(r.Record()); err != nil {
			return err
		}
	}
	if out.Flush(); out.Error() != nil {
		return out.Error()
	}
	for range attempts {
		in, tag, err := s.storage.open(ctx, name, "")
		if err != nil {
			return err
		}
		if in != nil {
			_ = in.Close()
		}
		if _, err := s.storage.write(ctx, name, data.Bytes(), tag); !errors.Is(err, errChanged) {
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
	return errChanged
}
