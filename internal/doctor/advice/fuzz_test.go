package advice_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/gpuledger/gpuledger/internal/doctor/advice"
)

// commandLine matches a line of a command or its continuation. It consists of words and of the program's quoted
// constants, and may end with a backslash. The words contain no character that a shell interprets.
var commandLine = regexp.MustCompile(`^ +(\$ )?([A-Za-z0-9._/=:-]+|"github\.com/gpuledger/gpuledger//manifests/overlays/[a-z-]+\?ref=v0\.1\.0"|'\{"data":\{"nodes":"\*"\}\}'|sidecar\.nodes='\*'| )+( \\)?$`)

// FuzzRead checks the report about any objects. The report must contain only printable characters. The commands in the
// report must contain no character that a shell interprets.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/clusters/*.yaml")
	check(f, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(f, err)
		s := string(text)
		f.Add(text)
		f.Add([]byte(strings.ReplaceAll(s, "name: gpu-", `name: "\x1b[2J$(id);--all`+"\\u202e`\" #")))
		f.Add([]byte(strings.ReplaceAll(s, "metadata:", "metadata2:")))
		f.Add([]byte(strings.ReplaceAll(s, "labels: {", "labels: {7: 7, ")))
		f.Add([]byte(strings.ReplaceAll(s, "containers:", "containers: null\n      other:")))
		f.Add([]byte(strings.ReplaceAll(s, "nvidia.com/gpu: '8'", "nvidia.com/gpu: [8]")))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s := &server{page: 3}
		if yaml.Unmarshal(text, s) != nil {
			return
		}
		// The test server needs kinds and metadata.
		var objects []map[string]any
		for _, o := range s.Objects {
			kind, isString := o["kind"].(string)
			if _, is := o["metadata"].(map[string]any); is && isString && kinds[kind] != "" {
				objects = append(objects, o)
			}
		}
		s.Objects = objects
		harmless(t, s)
	})
}

func harmless(t *testing.T, s *server) string {
	t.Helper()
	cluster, err := advice.Read(s.get)
	if err != nil {
		return ""
	}
	var out strings.Builder
	if _, err := cluster.Write(&out, options); err != nil {
		t.Fatal(err)
	}
	continued := false
	for line := range strings.SplitSeq(out.String(), "\n") {
		if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("a control character in %q", line)
		}
		if (continued || strings.HasPrefix(line, "  $ ")) && !commandLine.MatchString(line) {
			t.Errorf("a command contains a character that a shell interprets: %q", line)
		}
		continued = strings.HasSuffix(line, ` \`) && (continued || strings.HasPrefix(line, "  $ "))
	}
	return out.String()
}

var hostile = []any{
	nil, 7, -1.5, true, "", "\x1b[2J\x1b[31m", "$(id)", "--all", "`id`; rm -rf /", "a\nb", "\u202egpu", "gpu-1", "true", strings.Repeat("x", 100000),
	[]any{},
	[]any{nil},
	[]any{7},
	map[string]any{},
	map[string]any{"7": 7},
}

func TestHostile(t *testing.T) {
	const seed = 20261129
	r := rand.New(rand.NewPCG(seed, 0))
	files, err := filepath.Glob("testdata/clusters/*.yaml")
	check(t, err)
	commands := 0
	for range 25 {
		for _, file := range files {
			s := load(t, strings.TrimSuffix(filepath.Base(file), ".yaml"))
			s.page = 500
			for range 1 + r.IntN(4) {
				o := s.Objects[r.IntN(len(s.Objects))]
				kind, metadata := o["kind"], o["metadata"]
				replace(r, o)
				if _, is := o["metadata"].(map[string]any); !is {
					o["metadata"] = metadata // the fake API server reads the metadata
				}
				o["kind"] = kind
			}
			commands += strings.Count(harmless(t, s), "  $ ")
			if t.Failed() {
				t.Fatalf("seed %d, %s", seed, file)
			}
		}
	}
	if commands < 500 {
		t.Errorf("%d commands, want at least 500", commands)
	}
}

func replace(r *rand.Rand, at any) {
	switch at := at.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(at))
		if len(keys) == 0 {
			return
		}
		key := keys[r.IntN(len(keys))]
		if leaf(at[key]) || r.IntN(8) == 0 {
			at[key] = hostile[r.IntN(len(hostile))]
			return
		}
		replace(r, at[key])
	case []any:
		if len(at) == 0 {
			return
		}
		i := r.IntN(len(at))
		if leaf(at[i]) || r.IntN(8) == 0 {
			at[i] = hostile[r.IntN(len(hostile))]
			return
		}
		replace(r, at[i])
	}
}

func leaf(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// FuzzDocument checks that any response to any request leads to an error, or to a report with a nonzero exit status.
func FuzzDocument(f *testing.F) {
	f.Add("/api/v1/nodes", []byte(`{"items": [null, 1, {}, {"metadata": null}, {"metadata": {"name": 7}}], "metadata": {"continue": "again"}}`))
	f.Add("/apis", []byte(`{"groups": [{"name": "admissionregistration.k8s.io"}, null]}`))
	f.Add("/version", []byte(`{"gitVersion": "v1.99999999999999999999"}`))
	f.Add("/apis/apps/v1/daemonsets", []byte(`{"items": {}}`))
	s := load(f, "sidecar-states")
	s.page = 500
	f.Fuzz(func(t *testing.T, path string, answer []byte) {
		cluster, err := advice.Read(func(p string) ([]byte, error) {
			if plain, _, _ := strings.Cut(p, "?"); plain == path {
				return answer, nil
			}
			return s.get(p)
		})
		if err != nil {
			return
		}
		var out strings.Builder
		status, err := cluster.Write(&out, options)
		check(t, err)
		if status == advice.Well {
			t.Error("the status is 0, although the cluster has Nodes without an exporter")
		}
		if path == "/apis/apps/v1/daemonsets" && !json.Valid(answer) && status != advice.Unreadable {
			t.Errorf("status %d for an invalid document", status)
		}
	})
}
