package workloads

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestReplaces checks that the known owners of a pod are replaced only by a result with more
// information.
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
		{"the first", nil, walk("", "a"), true},
		{"the first, stopped", nil, walk(forbidden, "a"), true},
		{"no answer at all", nil, walk(failed, "a"), false},
		{"no response now", walk(forbidden, "a"), walk(failed, "a", "b"), false},
		{"the same", walk("", "a", "b"), walk("", "a", "b"), false},
		{"the same, stopped", walk(forbidden, "a"), walk(forbidden, "a"), false},
		{"the root after a stop", walk(forbidden, "a"), walk("", "a", "b"), true},
		{"the root, where the chain seemed longer", walk(forbidden, "a", "b"), walk("", "a"), true},
		{"another root", walk("", "a", "b"), walk("", "a", "c"), true},
		{"a stop after the root", walk("", "a", "b"), walk(notFound, "a"), false},
		{"a stop beyond the root", walk("", "a", "b"), walk(notFound, "a", "c", "d"), false},
		{"a later stop", walk(forbidden, "a"), walk(forbidden, "a", "b"), true},
		{"an earlier stop", walk(forbidden, "a", "b"), walk(notFound, "a"), false},
		{"an earlier stop on another way", walk(forbidden, "a", "b", "c"), walk(notFound, "a", "d"), true},
		{"another reason", walk(forbidden, "a"), walk(notFound, "a"), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.found.replaces(tt.known); got != tt.want {
				t.Errorf("has more = %v, want %v", got, tt.want)
			}
		})
	}
}

// TestGroupVersion checks that no request can lead to another path of the API.
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
			t.Errorf("%s %s %.20q can be requested = %v, want %v", tt.apiVersion, tt.kind, tt.name, got, tt.want)
		}
	}
}
