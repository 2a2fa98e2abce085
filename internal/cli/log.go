package cli

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/lmittmann/tint"
	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// LogConfig configures the log.
type LogConfig struct {
	Level  slog.Level
	Format string
}

// Register adds the flags of the log with their defaults.
func (c *LogConfig) Register(fs *flag.FlagSet) {
	fs.TextVar(&c.Level, "log.level", slog.LevelInfo, "lowest `level` to log: debug, info, warn or error")
	fs.StringVar(&c.Format, "log.format", "auto", "`format` of the log: json, text, or auto, which is text on a terminal and json elsewhere")
}

// Validate checks values that the flag package cannot check.
func (c *LogConfig) Validate() error {
	switch c.Format {
	case "auto", "json", "text":
		return nil
	default:
		return fmt.Errorf("--log.format=%s: must be json, text or auto", c.Format)
	}
}

// NewLogger returns a logger that writes to stderr. The format auto is text on a terminal, and JSON elsewhere.
func NewLogger(c LogConfig) *slog.Logger { return NewLoggerTo(os.Stderr, c) }

// NewLoggerTo is like [NewLogger], but writes to w. The output of w must go to stderr.
func NewLoggerTo(w io.Writer, c LogConfig) *slog.Logger {
	terminal := isTerminal(os.Stderr)
	if c.Format == "text" || c.Format == "auto" && terminal {
		return slog.New(tint.NewHandler(w, &tint.Options{Level: c.Level, NoColor: !terminal, ReplaceAttr: printable}))
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: c.Level}))
}

// printable escapes control characters in a text, such as a label. A terminal would interpret them.
func printable(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString, slog.KindAny:
		if text := a.Value.String(); text != labelvalue.Printable(text) {
			a.Value = slog.StringValue(labelvalue.Printable(text))
		}
	}
	return a
}

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool { return isTerminal(f) }

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
