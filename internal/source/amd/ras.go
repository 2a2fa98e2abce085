package amd

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// rasFile matches the files with error counts in a GPU's folder ras. Each file has one line per type of error, such as
// "ue: 0" (Linux, amdgpu_ras.c).
var rasFile = regexp.MustCompile(`^([a-z0-9_]{1,32})_err_count$`)

// Only newer GPUs report deferred errors ("de").
var rasTypes = map[string]gpu.RASType{"ce": gpu.RASCorrectable, "ue": gpu.RASUncorrectable, "de": gpu.RASDeferred}

const (
	// maxBlocks is higher than the number of blocks in any GPU.
	maxBlocks = 64
	// maxErrors is the largest plausible increase of a count between two readings.
	maxErrors = 1 << 20
)

// errorCount protects a count against a single wrong number. A number is accepted if its increase over the last
// accepted number is plausible. Otherwise, for example after a driver reload, it is stored in held. The next number is
// accepted if it is a plausible successor of held.
type errorCount struct {
	accepted uint64
	held     *uint64
}

// see reports whether it accepted the number.
func (c *errorCount) see(n uint64) bool {
	continues := func(last uint64) bool { return n >= last && n-last <= maxErrors }
	if continues(c.accepted) || c.held != nil && continues(*c.held) {
		c.accepted, c.held = n, nil
		return true
	}
	c.held = &n
	return false
}

type rasKey struct {
	block string
	kind  gpu.RASType
}

// readRAS omits a block if its file cannot be read or is malformed, and logs this once.
func (r *reader) readRAS() []gpu.RASErrors {
	folder := filepath.Join(r.card.folder, "ras")
	entries, _ := os.ReadDir(folder) // the folder is missing on GPUs without RAS
	var out []gpu.RASErrors
	blocks := 0
	for _, e := range entries {
		match := rasFile.FindStringSubmatch(e.Name())
		if match == nil {
			continue
		}
		if blocks++; blocks > maxBlocks {
			break
		}
		counts, err := readCounts(filepath.Join(folder, e.Name()))
		if err != nil {
			r.logOnce("some error counts are unknown", err)
			continue
		}
		for kind, n := range counts {
			if r.plausible(rasKey{match[1], kind}, n) {
				out = append(out, gpu.RASErrors{Block: match[1], Type: kind, Count: n})
			}
		}
	}
	slices.SortFunc(out, func(a, b gpu.RASErrors) int {
		return cmp.Or(cmp.Compare(a.Block, b.Block), cmp.Compare(a.Type, b.Type))
	})
	return out
}

// The first number is always plausible.
func (r *reader) plausible(key rasKey, n uint64) bool {
	c := r.errors[key]
	if c == nil {
		if r.errors == nil {
			r.errors = make(map[rasKey]*errorCount)
		}
		r.errors[key] = &errorCount{accepted: n}
		return true
	}
	return c.see(n)
}

var errNoCount = errors.New("no count")

// Each line must be valid.
func readCounts(path string) (map[gpu.RASType]uint64, error) {
	content, err := readFile(path)
	if err != nil {
		return nil, err
	}
	counts := make(map[gpu.RASType]uint64)
	for line := range strings.Lines(strings.TrimSpace(string(content))) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), ": ")
		kind, known := rasTypes[name]
		n, err := strconv.ParseUint(number, 10, 32)
		if _, twice := counts[kind]; !known || err != nil || twice || n == 1<<32-1 {
			return nil, fmt.Errorf("parse %s: malformed line %q", path, strings.TrimSpace(line))
		}
		counts[kind] = n
	}
	if len(counts) == 0 {
		return nil, fmt.Errorf("parse %s: %w", path, errNoCount)
	}
	return counts, nil
}
