package amd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxFile is in bytes. The driver's files are at most one page long.
const maxFile = 64 << 10

var errTooLong = errors.New("file is too long")

func readFile(path ...string) ([]byte, error) { return readUpTo(maxFile, path...) }

func readUpTo(limit int, path ...string) ([]byte, error) {
	f, err := os.Open(filepath.Join(path...))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	content, err := readAll(f, limit)
	if err != nil {
		err = fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return content, err
}

// page is the minimum page size of Linux kernels, in bytes. One read from a file in sysfs returns at most a page.
const page = 4 << 10

// readAll reads with a buffer of at least a page, because the driver returns only whole lines of gpu_vram_bad_pages. If
// a line does not fit into the buffer, the driver returns no data, as if the file had ended.
func readAll(r io.Reader, limit int) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(bufio.NewReaderSize(r, page), int64(limit)+1))
	if err == nil && len(content) > limit {
		err = errTooLong
	}
	return content, err
}

// readText returns an empty string if the file cannot be read.
func readText(path ...string) string {
	content, err := readFile(path...)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

func readNumber(path ...string) (uint64, error) {
	content, err := readFile(path...)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(content)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parse %s: %w", filepath.Join(path...), err)
	}
	return n, nil
}

func exists(path ...string) bool {
	_, err := os.Stat(filepath.Join(path...))
	return err == nil
}
