package chain

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// object simulates a ConfigMap on an API server. If an update has an old resourceVersion, the response has status 409.
// Before each of the next updates (others), another archive adds a checkpoint.
type object struct {
	t       *testing.T
	version int
	data    string // value of the key checkpoints.jsonl
	others  int    // number of further updates that conflict with another archive
	puts    int
}

func (o *object) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	type content struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Data map[string]string `json:"data"`
	}
	var c content
	if r.Method == http.MethodPut {
		o.puts++
		if o.others > 0 {
			o.others--
			o.add("other-" + strconv.Itoa(o.version))
		}
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
			o.t.Error(err)
		}
		if c.Metadata.ResourceVersion != strconv.Itoa(o.version) {
			w.WriteHeader(http.StatusConflict)
			return
		}
		o.version, o.data = o.version+1, c.Data["checkpoints.jsonl"]
	}
	c.Metadata.ResourceVersion, c.Data = strconv.Itoa(o.version), map[string]string{"checkpoints.jsonl": o.data}
	if err := json.NewEncoder(w).Encode(c); err != nil {
		o.t.Error(err)
	}
}

func (o *object) add(sink string) {
	c := sample
	c.Sink = sink
	line, err := c.line()
	check(o.t, err)
	o.version, o.data = o.version+1, o.data+string(line)
}

// Other archives update the ConfigMap repeatedly during the publication of a checkpoint. Their checkpoints must be
// kept, and the attempts must end.
func TestConflicts(t *testing.T) {
	tests := map[string]struct {
		others int
		err    string
	}{
		"alone":   {},
		"some":    {others: 30},
		"endless": {others: 1 << 30, err: "another writer updated the ConfigMap"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				o := &object{t: t, others: tt.others}
				m, stop := o.start(t, dir)
				began := time.Now()
				err := m.publish(t.Context(), sample)
				if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				if took := time.Since(began); took > 2*time.Minute || o.puts > 1000 {
					t.Errorf("%d updates in %v", o.puts, took)
				}
				want := o.version // each update of any archive adds one checkpoint
				all, err := m.published(t.Context())
				check(t, err)
				if diff := cmp.Diff(want, len(all)); diff != "" {
					t.Errorf("checkpoints (-want +got):\n%s", diff)
				}
				stop()
			})
		})
	}
}

// The configMap reads the files of its service account from dir.
func (o *object) start(t *testing.T, dir string) (m *configMap, stop func()) {
	t.Helper()
	listener, stop := listen(t, dir, "api.example.com", o)
	check(t, os.Rename(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "ca.crt")))
	check(t, os.WriteFile(filepath.Join(dir, "token"), []byte("token\n"), 0o600))
	return &configMap{namespace: "gpuledger", name: "checkpoints", account: dir, server: &url.URL{Scheme: "https", Host: "api.example.com"}, dial: listener.Dial}, stop
}
