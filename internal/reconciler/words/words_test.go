package words_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/reconciler/words"
)

func TestList(t *testing.T) {
	l := words.List{"a default"}
	if err := l.UnmarshalText([]byte(" a, b c ,,d,")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(words.List{"a", "b c", "d"}, l); diff != "" {
		t.Errorf("words (-want +got):\n%s", diff)
	}
	if text, err := l.MarshalText(); err != nil || string(text) != "a,b c,d" {
		t.Errorf("text is %q, %v", text, err)
	}
	if err := l.UnmarshalText(nil); err != nil || len(l) != 0 {
		t.Errorf("nothing gives %q, %v", l, err)
	}
}
