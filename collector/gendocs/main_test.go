package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDocsAreCurrent(t *testing.T) {
	want, err := render()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/metrics.md is out of date, run go generate ./collector (-want +got):\n%s", diff)
	}
}
