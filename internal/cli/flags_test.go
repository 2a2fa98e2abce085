package cli_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/cli"
)

func TestList(t *testing.T) {
	l := cli.List{"a default"}
	if err := l.UnmarshalText([]byte(" a, b c ,,d,")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(cli.List{"a", "b c", "d"}, l); diff != "" {
		t.Errorf("words (-want +got):\n%s", diff)
	}
	if text, err := l.MarshalText(); err != nil || string(text) != "a,b c,d" {
		t.Errorf("text is %q, error %v", text, err)
	}
	if err := l.UnmarshalText(nil); err != nil || len(l) != 0 {
		t.Errorf("an empty text gives the list %q, error %v", l, err)
	}
}

func TestPattern(t *testing.T) {
	tests := []struct {
		text string
		want string // part of the error; empty if no error is expected
	}{
		{`^nvidia\.com/gpu$`, ""},
		{"^$", ""},
		{"(", "missing closing"},
		{"", "must not be empty"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			var p cli.Pattern
			err := p.UnmarshalText([]byte(tt.text))
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error is %v, want one with %q", err, tt.want)
				}
				return
			}
			if text, again := p.MarshalText(); err != nil || again != nil || string(text) != tt.text {
				t.Errorf("text is %q, error of UnmarshalText %v, of MarshalText %v", text, err, again)
			}
		})
	}
}
