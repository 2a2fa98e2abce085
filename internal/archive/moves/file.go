package moves

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// The file is opened for each write, so that another program can rotate it.
type file struct{ path string }

// openFile returns the ids of the events in a file. A crash can leave an incomplete last line, which openFile removes.
// A file with other content is not changed.
func openFile(path string) (*file, map[string]bool, error) {
	f, sent := &file{path}, make(map[string]bool)
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if !bytes.HasSuffix(line, []byte("\n")) && isCut(line) {
			return f, sent, os.Truncate(path, int64(len(text)-len(line)))
		}
		var row struct{ ID string }
		if json.Unmarshal(line, &row) != nil || row.ID == "" {
			return nil, nil, fmt.Errorf("%s: line %d is not an event of a board: does the file contain other data?", path, n)
		}
		sent[row.ID] = true
	}
	return f, sent, nil
}

func isCut(line []byte) bool {
	begin := bytes.TrimRight(table.Moves.AppendJSON(nil, 0, nil), "}\n")
	n := min(len(line), len(begin))
	return bytes.Equal(line[:n], begin[:n])
}

// add flushes the events to disk. It writes all events or no event.
func (f *file) add(_ context.Context, rows [][]any) (err error) {
	var lines []byte
	for _, row := range rows {
		lines = table.Moves.AppendJSON(lines, 0, row)
	}
	out, err := os.OpenFile(f.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	info, err := out.Stat()
	if err != nil {
		return err
	}
	if _, err := out.Write(lines); err != nil {
		return errors.Join(err, out.Truncate(info.Size()))
	}
	return out.Sync()
}
