package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// KeepsEvents reports whether the format of the requests can contain events.
func (c *Config) KeepsEvents() bool { return c.Format != "gpuid" }

// OpenEvents returns a sink that is used only for Append. It does not open the manifest, which the sink for hours has
// opened.
func OpenEvents(c Config) (*Sink, error) {
	c.Manifest = ""
	return Open(c)
}

// Append posts rows of one of the tables [table.Appended]. After an error, the next call sends all rows again. The
// batches may then contain other rows, so a receiver detects duplicates by the keys of the rows.
func (s *Sink) Append(ctx context.Context, t table.Table, rows [][]any) error {
	lines := make([][]byte, len(rows))
	for i, row := range rows {
		lines[i] = t.AppendJSON(nil, 0, row)
	}
	batches, err := pack(lines, s.config.Batch, func(_ int, body []byte) string {
		sum := sha256.Sum256(body)
		return hex.EncodeToString(sum[:])
	})
	if err != nil {
		return err
	}
	for i, b := range batches {
		if err := s.send(ctx, b); err != nil {
			return fmt.Errorf("batch %d of %d: %w", i+1, len(batches), err)
		}
	}
	return nil
}
