package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// maxDeadLetters is the maximum size of the dead-letter file, in bytes.
const maxDeadLetters = 256 << 20

var errNoDeadLetters = errors.New("no dead-letter file is configured: set --events.dead-letter")

// deadLetters is the file for events that a sink rejects, and for events that still wait at the end of the program.
// Each line is an event in JSON. All sinks share the file.
type deadLetters struct {
	path string
	mu   sync.Mutex
}

// The event has the format of the reconciler, so it can be sent again.
type deadLetter struct {
	Time    time.Time       `json:"time"`
	Sink    string          `json:"sink"`
	Cluster string          `json:"cluster"`
	Reason  string          `json:"reason"`
	Event   json.RawMessage `json:"event"`
}

// When write returns, the events are on disk.
func (l *deadLetters) write(sink, cluster string, events []table.Event, reason error) error {
	if l.path == "" {
		return errNoDeadLetters
	}
	var lines bytes.Buffer
	out := json.NewEncoder(&lines)
	for i := range events {
		text, err := events[i].Append(nil)
		if err != nil {
			return err
		}
		if err := out.Encode(deadLetter{time.Now().UTC(), sink, cluster, reason.Error(), text}); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.append(lines.Bytes())
}

// append writes all lines or no line.
func (l *deadLetters) append(lines []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(l.path), 0o750); err != nil {
		return err
	}
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size()+int64(len(lines)) > maxDeadLetters {
		return fmt.Errorf("%s has more than %d bytes: file its events again, then remove the file", l.path, maxDeadLetters)
	}
	if _, err := file.Write(lines); err != nil {
		return errors.Join(err, file.Truncate(info.Size()))
	}
	return file.Sync()
}
