package proc_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/proc"
)

var id = strings.Repeat("0123456789abcdef", 4)

func TestPaths(t *testing.T) {
	tests := map[string]struct {
		text string
		want [][]string // expected segments of each line; nil for a malformed line
	}{
		"v2":         {"0::/system.slice/sshd.service\n", [][]string{{"system.slice", "sshd.service"}}},
		"v1":         {"4:memory:/a\n1:name=systemd:/a/b\n", [][]string{{"a"}, {"a", "b"}}},
		"root":       {"0::/\n", [][]string{{""}}},
		"deleted":    {"0::/a (deleted)\n", [][]string{{"a"}}},
		"colons":     {"0::/a:b:c", [][]string{{"a:b:c"}}},
		"no path":    {"0::", [][]string{nil}},
		"no number":  {"x::/a\n0::/b", [][]string{nil, {"b"}}},
		"no colons":  {"/a", [][]string{nil}},
		"blank line": {"\n", [][]string{nil}},
		"empty":      {"", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got [][]string
			for segments, err := range proc.Paths(tt.text) {
				if (err == nil) != (segments != nil) {
					t.Errorf("segments %q, error %v; want exactly one of them", segments, err)
				}
				got = append(got, segments)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("segments (-want +got):\n%s", diff)
			}
		})
	}
}

func TestContainerID(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"Docker":          {"0::/docker/" + id, id},
		"systemd":         {"0::/system.slice/docker-" + id + ".scope", id},
		"rootless Podman": {"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + id + ".scope/container", id},
		"the first":       {"4:memory:/a\n0::/docker/" + id + "/docker/" + strings.Repeat("f", 64), id},
		"a service":       {"0::/system.slice/sshd.service", ""},
		"63 digits":       {"0::/docker/" + id[1:], ""},
		"65 digits":       {"0::/docker/0" + id, ""},
		"no hexadecimals": {"0::/docker/g" + id[1:], ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := proc.ContainerID(tt.text); got != tt.want {
				t.Errorf("container id %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzPaths(f *testing.F) {
	f.Add("0::/kubepods/" + id + "\n4:memory:/\n")
	f.Fuzz(func(t *testing.T, text string) {
		lines := 0
		for segments, err := range proc.Paths(text) {
			lines++
			if err == nil && !strings.Contains(text, "/"+strings.Join(segments, "/")) {
				t.Errorf("segments %q are not in the text", segments)
			}
		}
		if id := proc.ContainerID(text); id != "" && !proc.IsContainerID(id) || lines > strings.Count(text, "\n")+1 {
			t.Errorf("container id %q, %d lines; want a valid id or no id, and one path per line of the text", id, lines)
		}
	})
}
