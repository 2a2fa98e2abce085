package serve

import (
	"bufio"
	"net/http"
	"sync"
)

// bufferSize is what is sent at once. The encoder writes in small pieces, and the server
// makes a system call of every few of them.
const bufferSize = 64 << 10

var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, bufferSize) }}

// buffered gives a handler a large buffer to write to.
func buffered(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := buffers.Get().(*bufio.Writer)
		b.Reset(w)
		handler.ServeHTTP(bufferedWriter{w, b}, r)
		_ = b.Flush() // an error here is the client's going away
		b.Reset(nil)
		buffers.Put(b)
	})
}

// bufferedWriter has the methods of a [bufio.Writer] that the encoder looks for: with
// them it writes to the buffer itself and not to another one before it.
type bufferedWriter struct {
	http.ResponseWriter
	buffer *bufio.Writer
}

func (w bufferedWriter) Write(p []byte) (int, error)       { return w.buffer.Write(p) }
func (w bufferedWriter) WriteString(s string) (int, error) { return w.buffer.WriteString(s) }
func (w bufferedWriter) WriteByte(c byte) error            { return w.buffer.WriteByte(c) }
func (w bufferedWriter) WriteRune(r rune) (int, error)     { return w.buffer.WriteRune(r) }
