package unit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/unit"
)

// TestNerdctl checks the names and GPUs of containers in containerd's files. It uses nerdctl's containers in any
// namespace, a container of ctr, and a container that exists only in another namespace.
func TestNerdctl(t *testing.T) {
	const tasks = "containerd/io.containerd.runtime.v2.task/"
	spec := func(name string) string {
		return `{"ociVersion":"1.2.0","annotations":{"nerdctl/extraHosts":"[]",` + name + `"nerdctl/namespace":"default"},"process":{"env":["SECRET=x"]},` +
			`"linux":{"devices":[{"path":"/dev/nvidia1","type":"c","major":195,"minor":1}]}}`
	}
	tests := []struct{ name, file, content, want, problem string }{
		{"a name", "default", spec(`"nerdctl/name":"embed",`), "nerdctl/embed", ""},
		{"another namespace", "lab", spec(`"nerdctl/name":"embed",`), "nerdctl/embed", ""},
		{"ctr", "default", spec(""), "nerdctl/3f4a9c0d1e2b", ""},
		{"a name that cannot be a label", "default", spec(`"nerdctl/name":"a\u0007",`), "nerdctl/3f4a9c0d1e2b", ""},
		{"no file", "", "", "nerdctl/3f4a9c0d1e2b", "find container"},
		{"no JSON", "default", "{", "nerdctl/3f4a9c0d1e2b", "invalid JSON"},
		{"a file that is too large", "default", `{"a":"` + strings.Repeat("x", 1<<20) + `"}`, "nerdctl/3f4a9c0d1e2b", "more than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t, func(c *unit.Config) { c.ContainerdRun = c.ProcFS[:len(c.ProcFS)-len("proc")] + "containerd" })
			m.write(tasks+"k8s.io/"+strings.Replace(containerID, "3", "4", 1)+"/config.json", spec(`"nerdctl/name":"other",`))
			if tt.file != "" {
				m.write(tasks+tt.file+"/"+containerID+"/config.json", tt.content)
			}
			m.start(10, "python3", "/system.slice/nerdctl-"+containerID+".scope", "")
			_, _ = m.chain.Process(10)
			err := m.Refresh(t.Context())
			if (tt.problem == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("error %v, want %q", err, tt.problem)
			}
			m.now += 6 * time.Second
			m.want(10, tt.want)
			if err == nil && tt.want == "nerdctl/embed" {
				m.wantHeld("nerdctl/embed exclusive")
				m.remove("proc/10")
				m.refresh()
				m.wantHeld()
			}
		})
	}
}
