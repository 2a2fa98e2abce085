package webhook

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/common/version"

	"github.com/gpuledger/gpuledger/internal/archive/gpuid"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// batch is a request with rows of one hour.
type batch struct {
	key    string // idempotency key; the same if the batch is sent again
	header http.Header
	body   []byte
}

// The idempotency key contains a digest of the rows, so different batches have different keys.
func key(h *table.Hour, number int, rows []byte) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %d %d %s %d\n", h.Cluster, h.Start.Unix(), h.Revision, h.Digest, number)
	_, _ = sum.Write(rows)
	return hex.EncodeToString(sum.Sum(nil))
}

func userAgent() string { return "gpuledger-archive/" + cmp.Or(version.Version, "dev") }

// ndjson returns the rows of all tables as JSON lines. The last line is the hour's row in the manifest.
func ndjson(h *table.Hour, size int) ([]batch, error) {
	var rows [][]byte
	for _, t := range append(slices.Clone(table.Data), table.Hours) {
		for _, row := range t.Rows(h) {
			rows = append(rows, t.AppendJSON(nil, h.Revision, row))
		}
	}
	return pack(rows, size, func(number int, body []byte) string { return key(h, number, body) })
}

func pack(lines [][]byte, size int, key func(number int, body []byte) string) ([]batch, error) {
	var batches []batch
	for part := range slices.Chunk(lines, size) {
		body := bytes.Join(part, nil)
		var packed bytes.Buffer
		zip := gzip.NewWriter(&packed)
		if _, err := zip.Write(body); err != nil {
			return nil, err
		}
		if err := zip.Close(); err != nil {
			return nil, err
		}
		batches = append(batches, batch{key(len(batches), body), http.Header{
			"Content-Type":     {"application/x-ndjson"},
			"Content-Encoding": {"gzip"},
			"User-Agent":       {userAgent()},
		}, packed.Bytes()})
	}
	return batches, nil
}

// readings returns one or more requests for each node. The body is a JSON array of serial numbers. The headers are the
// same as in gpuid.
func readings(h *table.Hour, size int) ([]batch, error) {
	var batches []batch
	for _, node := range gpuid.Nodes(h) {
		for part := range slices.Chunk(node.Readings, size) {
			body, err := json.Marshal(part)
			if err != nil {
				return nil, err
			}
			batches = append(batches, batch{key(h, len(batches), body), http.Header{
				"Content-Type":    {"application/json"},
				"User-Agent":      {userAgent() + " (gpuid-http-exporter/1.0)"},
				"X-Records-Count": {strconv.Itoa(len(part))},
				"X-Timestamp":     {h.Start.Add(time.Hour).UTC().Format(time.RFC3339)},
			}, body})
		}
	}
	return batches, nil
}
