package archive

import (
	"context"
	"log/slog"
	"math"
	"runtime/debug"
	"time"

	"github.com/prometheus/common/version"

	"github.com/gpuledger/gpuledger/internal/archive/ask"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/archive/web"
	"github.com/gpuledger/gpuledger/internal/serve"
)

func (a *archive) openSite(c *Config, server *serve.Server) (err error) {
	if a.site, err = newSite(c, server, a.log); a.site != nil {
		a.site.Refused(func() print.Answer { return a.refusals.answer(c.shown, c.locked()) })
	}
	return err
}

// newSite returns nil if the configuration enables no pages.
func newSite(c *Config, server *serve.Server, log *slog.Logger) (*web.Site, error) {
	if !c.Web.Pages {
		return nil, nil
	}
	var libraries []*ask.Library
	for _, p := range keeping(c) {
		libraries = append(libraries, &ask.Library{Open: p.Books, Label: p.Label, Sink: p.Name, Config: c.Web.Settings, Filing: c.shown, Locked: c.locked(), Now: time.Now})
	}
	if len(libraries) == 0 {
		libraries = []*ask.Library{{Config: c.Web.Settings, Now: time.Now}}
	}
	site, err := web.New(c.Web, libraries, func() map[string]string { return c.Serve.Web().Users }, log)
	if err != nil {
		return nil, err
	}
	site.Version(version.Version)
	server.Receive(web.SearchPath)
	server.Keep(site.Header())
	return site, nil
}

// If the program uses more memory (in bytes), the Go runtime collects garbage more often. $GOMEMLIMIT overrides this
// limit. For a month of 8,000 GPUs, the pages may use 256 MiB.
const softLimit = 192 << 20

// Serve serves the pages until the context ends. It archives no hours.
func Serve(ctx context.Context, c Config, log *slog.Logger) error {
	log.Info("starting", "version", version.Version, "revision", version.GetRevision())
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(softLimit)
	}
	server := serve.New(c.Serve, log)
	site, err := newSite(&c, server, log)
	if err != nil {
		return err
	}
	mux, _ := newMux(log, server.Collector())
	site.Register(mux)
	return server.Run(ctx, mux)
}
