// Package manifest records the hours that were sent to a sink that cannot be read, such as a server.
package manifest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// ErrLocked means that another process has opened the file.
var ErrLocked = errors.New("another gpuledger-archive uses this file")

type hour struct {
	cluster string
	start   int64 // Unix seconds
}

// Manifest contains the hours that the sink has received, with their revisions and digests. The zero value exists only
// in memory.
type Manifest struct {
	filed map[hour]table.Filed
	file  *os.File // nil if the manifest is only in memory
}

type line struct {
	Cluster  string    `json:"cluster"`
	Hour     time.Time `json:"hour"`
	Revision int64     `json:"revision"`
	Digest   string    `json:"digest"`
	Reason   string    `json:"reason,omitempty"` // reason for accepted gaps
}

// Open opens or creates a file with one JSON object per line. Another process cannot open the file at the same time. A
// later line about an hour replaces earlier lines. A crash can leave an incomplete last line, which Open removes.
func Open(path string) (*Manifest, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, err
	}
	m := &Manifest{file: file}
	if err := m.load(); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func (m *Manifest) load() error {
	if err := unix.Flock(int(m.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("%w: %w", err, ErrLocked)
	}
	end := int64(0) // end of the last complete line
	in := bufio.NewReader(m.file)
	for n := 1; ; n++ {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		var l line
		if err := json.Unmarshal(bytes.TrimSpace(text), &l); err != nil || l.Revision < 1 || l.Digest == "" || l.Hour.IsZero() {
			return fmt.Errorf("line %d is not a line of a manifest: repair the line, or remove it to file its hour again", n)
		}
		m.set(l)
		end += int64(len(text))
	}
	if err := m.file.Truncate(end); err != nil {
		return err
	}
	_, err := m.file.Seek(end, io.SeekStart)
	return err
}

func (m *Manifest) set(l line) {
	if m.filed == nil {
		m.filed = make(map[hour]table.Filed)
	}
	m.filed[hour{l.Cluster, l.Hour.Unix()}] = table.Filed{Revision: l.Revision, Digest: l.Digest, Reason: l.Reason}
}

// Filed returns the entry for an hour. It returns zero if there is no entry.
func (m *Manifest) Filed(cluster string, start time.Time) table.Filed {
	return m.filed[hour{cluster, start.Unix()}]
}

// Clusters returns the first and last recorded hour of each cluster.
func (m *Manifest) Clusters() map[string]table.Span {
	spans := make(map[string]table.Span)
	for h := range m.filed {
		spans[h.cluster] = spans[h.cluster].Extend(time.Unix(h.start, 0))
	}
	return spans
}

// Add records that the sink has received an hour. When Add returns, the record is on disk.
func (m *Manifest) Add(h *table.Hour) error {
	l := line{h.Cluster, h.Start.UTC(), h.Revision, h.Digest, h.Reason}
	if m.file != nil {
		text, err := json.Marshal(l)
		if err != nil {
			return err
		}
		if _, err := m.file.Write(append(text, '\n')); err != nil {
			return err
		}
		if err := m.file.Sync(); err != nil {
			return err
		}
	}
	m.set(l)
	return nil
}

// Close unlocks the file.
func (m *Manifest) Close() error {
	if m.file == nil {
		return nil
	}
	return m.file.Close()
}
