package cli

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lmittmann/tint"
)

// TestStatusLine checks that other output is above the status line, and that the line changes at most ten times a
// second.
func TestStatusLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		l := &StatusLine{w: &out}
		write := func(text string) {
			if n, err := l.Write([]byte(text)); n != len(text) || err != nil {
				t.Errorf("%q: %d bytes, error %v", text, n, err)
			}
		}
		write("a\n")
		l.Set("1 of 9")
		l.Set("2 of 9")
		write("b\n")
		time.Sleep(time.Second)
		l.Set("8 of 9")
		l.Set("")
		write("c\n")
		const want = "a\n" + clearLine + "1 of 9" + clearLine + "b\n1 of 9" + clearLine + "8 of 9" + clearLine + "c\n"
		if out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	})
}

func TestNoTerminal(t *testing.T) {
	for _, path := range []string{os.DevNull, t.TempDir()} {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if NewStatusLine(f) != nil {
			t.Errorf("NewStatusLine treats %s as a terminal", path)
		}
		_ = f.Close()
	}
}

func TestStatusLineLabels(t *testing.T) {
	var out strings.Builder
	l := &StatusLine{w: &out}
	l.Set("east\x1b[2J\n\u202e")
	if text := strings.TrimPrefix(out.String(), clearLine); text == "" || strings.ContainsAny(text, "\x1b\n\u202e") {
		t.Errorf("the line is %q", text)
	}
}

func TestLogLabels(t *testing.T) {
	var out strings.Builder
	log := slog.New(tint.NewHandler(&out, &tint.Options{NoColor: false, ReplaceAttr: printable}))
	log.Error("stopped", "cluster", "east\x1b[2J", "err", errors.New("west\x1b[3J\nnorth"))
	if text := out.String(); strings.Contains(text, "\x1b[2J") || strings.Contains(text, "\x1b[3J") || strings.Count(text, "\n") != 1 || !strings.Contains(text, "east") {
		t.Errorf("the line is %q", text)
	}
}
