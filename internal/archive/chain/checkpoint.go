package chain

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Checkpoint is the published form of a chain's last entry.
type Checkpoint struct {
	// Sink is the name of the sink with the chain, as in logs and metrics. This name is not signed.
	Sink      string    `json:"sink"`
	Cluster   string    `json:"cluster"`
	Sequence  int64     `json:"sequence"` // sequence number of the last entry
	Hash      string    `json:"hash"`     // hash of the last entry
	Time      time.Time `json:"time"`     // time of the last entry
	Key       string    `json:"key_id"`
	Signature string    `json:"signature"`
}

// CheckpointOf returns a checkpoint for the last entry of a chain.
func CheckpointOf(sink string, e table.Entry) Checkpoint {
	return Checkpoint{sink, e.Cluster, e.Sequence, e.Hash, e.At, e.Key, e.Signature}
}

// entry returns the signed part of the chain's entry.
func (c Checkpoint) entry() table.Entry {
	return table.Entry{Cluster: c.Cluster, Sequence: c.Sequence, Hash: c.Hash, At: c.Time, Key: c.Key, Signature: c.Signature}
}

// maxCheckpoints is the maximum size of published checkpoints, in bytes. It is enough for a century of hours.
const maxCheckpoints = 1 << 29

func (c Checkpoint) line() ([]byte, error) {
	text, err := json.Marshal(c)
	return append(text, '\n'), err
}

// parseCheckpoints parses JSON objects, one per line. It ignores a line that a crash or a full disk has cut. The
// checkpoint in this line was published again, or a later checkpoint covers it.
func parseCheckpoints(text []byte) (all []Checkpoint, err error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := bytes.Trim(lines.Bytes(), "\x00 \t\r") // file systems fill the end of a file with zeros
		if len(line) == 0 || isCut(line) {
			continue
		}
		var c Checkpoint
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		all = append(all, c)
	}
	return all, lines.Err()
}

func isCut(line []byte) bool {
	var object json.RawMessage
	return line[0] == '{' && errors.Is(json.NewDecoder(bytes.NewReader(line)).Decode(&object), io.ErrUnexpectedEOF)
}

// If all checkpoints are from the same sink, the argument sink may be empty.
func ofSink(published []Checkpoint, sink string) (all []Checkpoint, err error) {
	for _, c := range published {
		if sink != "" && c.Sink != sink {
			continue
		}
		if len(all) > 0 && all[0].Sink != c.Sink {
			return nil, fmt.Errorf("checkpoints of several sinks, such as %s and %s: select one sink with --chain.sink", all[0].Sink, c.Sink)
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, errors.New("no checkpoints found")
	}
	return all, nil
}
