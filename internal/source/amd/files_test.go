package amd

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// badPages behaves like gpu_vram_bad_pages (Linux, amdgpu_ras_sysfs_badpages_read and kernfs_file_read_iter): a read
// returns at most one page. It returns only whole lines, and leaves room for one more byte.
type badPages struct {
	t    *testing.T
	left string
}

func (b *badPages) Read(buffer []byte) (int, error) {
	if len(buffer) < page {
		b.t.Errorf("a read of %d bytes, want at least a page", len(buffer))
	}
	lines := (min(len(buffer), page) - 1) / line
	n := copy(buffer, b.left[:min(lines*line, len(b.left))])
	b.left = b.left[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// line is in bytes.
const line = len("0xabcdabcd : 0x12345678 : R\n")

func TestBadPagesInParts(t *testing.T) {
	for lines := range 3*page/line + 1 {
		content := strings.Repeat("0x000a0002 : 0x00001000 : R\n", lines)
		got, err := readAll(&badPages{t, content}, maxBadPages)
		if err != nil || !bytes.Equal(got, []byte(content)) {
			t.Errorf("%d lines, of which %d were read, error %v", lines, len(got)/line, err)
		}
	}
}
