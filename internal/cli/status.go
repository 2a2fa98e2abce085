package cli

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// StatusLine shows a line at the bottom of a terminal. The line can change while a program writes other text above it.
type StatusLine struct {
	w io.Writer

	mu    sync.Mutex
	text  string
	drawn time.Time
}

const redraw = 100 * time.Millisecond

const clearLine = "\r\x1b[K"

// NewStatusLine returns a status line for a terminal. It returns nil if the file is not a terminal.
func NewStatusLine(f *os.File) *StatusLine {
	if !isTerminal(f) {
		return nil
	}
	return &StatusLine{w: f}
}

// Set changes the text of the line. An empty text removes the line. Set ignores a change that comes too soon after the
// previous change.
func (l *StatusLine) Set(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text = labelvalue.Printable(text)
	if text == l.text || text != "" && time.Since(l.drawn) < redraw {
		return
	}
	l.text, l.drawn = text, time.Now()
	_, _ = io.WriteString(l.w, clearLine+l.text)
}

// Write writes text above the line.
func (l *StatusLine) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text == "" {
		return l.w.Write(text)
	}
	_, err := io.WriteString(l.w, clearLine+string(text)+l.text)
	return len(text), err
}
