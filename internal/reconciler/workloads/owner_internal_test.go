package workloads

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestReplaces checks that only a more complete chain replaces a known owner chain.
func TestReplaces(t *testing.T) {
	walk := func(stopped reason, names ...string) *ownerChain {
		l := &ownerChain{stopped: stopped}
		for _, name := range names {
			l.levels = append(l.levels, reference{kind: "Job", name: name, uid: types.UID("uid-" + name)})
		}
		return l
	}
	tests := []struct {
		name         string
		known, found *ownerChain
		want         bool
	}{
		{"the first chain", nil, walk("", "a"), true},
		{"the first chain, stopped", nil, walk(forbidden, "a"), true},
		{"no response and no known chain", nil, walk(failed, "a"), false},
		{"no response this time", walk(forbidden, "a"), walk(failed, "a", "b"), false},
		{"the same", walk("", "a", "b"), walk("", "a", "b"), false},
		{"the same, stopped", walk(forbidden, "a"), walk(forbidden, "a"), false},
		{"the root after a stop", walk(forbidden, "a"), walk("", "a", "b"), true},
		{"the root of a chain that seemed longer", walk(forbidden, "a", "b"), walk("", "a"), true},
		{"another root", walk("", "a", "b"), walk("", "a", "c"), true},
		{"a stop after the root", walk("", "a", "b"), walk(notFound, "a"), false},
		{"a stop beyond the root", walk("", "a", "b"), walk(notFound, "a", "c", "d"), false},
		{"a later stop", walk(forbidden, "a"), walk(forbidden, "a", "b"), true},
		{"an earlier stop", walk(forbidden, "a", "b"), walk(notFound, "a"), false},
		{"an earlier stop on another path", walk(forbidden, "a", "b", "c"), walk(notFound, "a", "d"), true},
		{"another reason", walk(forbidden, "a"), walk(notFound, "a"), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.found.replaces(tt.known); got != tt.want {
				t.Errorf("replaces = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestGroupVersion(t *testing.T) {
	tests := []struct {
		apiVersion, kind, name string
		want                   bool
	}{
		{"v1", "Node", "gpu-node-1", true},
		{"batch/v1", "Job", "train", true},
		{"batch/v1", "Job", strings.Repeat("n", 253), true},
		{"batch/v1", "Job", strings.Repeat("n", 254), false},
		{"batch/v1", "Job", "../secrets/x", false},
		{"batch/v1", "Job", "..", false},
		{"batch/v1", "Job", "", false},
		{"batch/v1", "../Job", "train", false},
		{"batch/v1", "", "train", false},
		{"batch/..", "Job", "train", false},
		{"../v1", "Job", "train", false},
		{"a/b/v1", "Job", "train", false},
		{"", "Job", "train", false},
	}
	for _, tt := range tests {
		r := reference{apiVersion: tt.apiVersion, kind: tt.kind, namespace: "ml", name: tt.name, uid: "u1"}
		if _, got := r.groupVersion(); got != tt.want {
			t.Errorf("requesting %s %s %.20q is allowed = %v, want %v", tt.apiVersion, tt.kind, tt.name, got, tt.want)
		}
	}
}
