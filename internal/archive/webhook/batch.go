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

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// batch is a request with rows of an hour.
type batch struct {
	key    string // identifies the batch, the same if it is sent again
	header http.Header
	body   []byte
}

// key returns the idempotency key of a batch. Rows are part of it: a key never has two contents.
func key(h *table.Hour, number int, rows []byte) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %d %d %s %d\n", h.Cluster, h.Start.Unix(), h.Revision, h.Digest, number)
	_, _ = sum.Write(rows)
	return hex.EncodeToString(sum.Sum(nil))
}

func userAgent() string { return "gpuledger-archive/" + cmp.Or(version.Version, "dev") }

// ndjson returns the rows of all tables as JSON lines. The last one is that of the manifest.
func ndjson(h *table.Hour, size int) ([]batch, error) {
	var rows [][]byte
	for _, t := range append(slices.Clone(table.Data), table.Hours) {
		for _, row := range t.Rows(h) {
			rows = append(rows, t.AppendJSON(nil, h.Revision, row))
		}
	}
	return pack(rows, size, func(number int, body []byte) string { return key(h, number, body) })
}

// pack divides lines into batches.
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

// reading is gpuid's record of a serial number.
type reading struct {
	Cluster string    `json:"cluster"`
	Node    string    `json:"node"`
	Machine string    `json:"machine"`
	Source  string    `json:"source"`
	Chassis string    `json:"chassis"`
	GPU     string    `json:"gpu"`
	Time    time.Time `json:"time"`
}

// gpuid returns the serial numbers of each node as a JSON array, with gpuid's headers. They are the
// rows of the SQL view serials.
func gpuid(h *table.Hour, size int) ([]batch, error) {
	byNode := make(map[string][]reading)
	var nodes []string
	for i := range h.GPUs {
		g := &h.GPUs[i]
		if g.Serial == "" || g.Scrapes == 0 {
			continue
		}
		if byNode[g.Node] == nil {
			nodes = append(nodes, g.Node)
		}
		byNode[g.Node] = latest(byNode[g.Node], readingOf(h.Cluster, g))
	}
	var batches []batch
	for _, node := range nodes {
		for part := range slices.Chunk(byNode[node], size) {
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

// latest adds a reading of a node, or replaces an older reading of the same serial number. The GPUs of
// a board share a serial number, and a receiver with gpuid's unique key rejects a second reading.
func latest(of []reading, r reading) []reading {
	i := slices.IndexFunc(of, func(other reading) bool { return other.GPU == r.GPU })
	switch {
	case i < 0:
		return append(of, r)
	case of[i].Time.Before(r.Time):
		of[i] = r
	}
	return of
}

func readingOf(cluster string, g *table.GPU) reading {
	return reading{cluster, g.Node, cmp.Or(g.Machine, g.SystemUUID), "gpuledger", g.ChassisSerial, g.Serial, g.Last.UTC()}
}
