package serve

import (
	"compress/gzip"
	"io"
	"maps"
	"net/http"

	"github.com/prometheus/common/expfmt"
)

// after serves a page with two parts. The function write writes the first part, and the handler writes the second part.
// If the response is compressed, each part is a member of one gzip file (RFC 1952, section 2.2).
func after(write func(io.Writer) error, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if expfmt.NegotiateAccept(r.Header, expfmt.DefaultOpenMetricsAcceptedFormats()...).FormatType() == expfmt.TypeProtoDelim {
			r = r.Clone(r.Context())
			r.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
		}
		rest := newAnswer(0)
		rest.reset()
		handler.ServeHTTP(rest, r)
		if rest.status != http.StatusOK {
			rest.send(w)
			return
		}
		maps.Copy(w.Header(), rest.header)
		if rest.header.Get("Content-Encoding") == "gzip" {
			z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the compression level is valid; a low level is used, because compression takes most of the time
			_ = write(z)                                   // an error means that the client disconnected
			_ = z.Close()
		} else {
			_ = write(w)
		}
		_, _ = w.Write(rest.Bytes())
	})
}
