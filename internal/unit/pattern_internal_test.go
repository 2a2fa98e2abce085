package unit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBuiltIn checks that the path of each built-in manager would also be valid in a file.
func TestBuiltIn(t *testing.T) {
	if len(builtIn) < 13 {
		t.Fatalf("only %d managers", len(builtIn))
	}
	for _, m := range builtIn {
		for _, p := range m.Paths {
			if err := p.check(); err != nil {
				t.Errorf("%s: %v", m.Name, err)
			}
		}
	}
}

// TestRefusedPatterns checks that malformed paths are rejected, and also paths with which a user could charge energy to
// another user.
func TestRefusedPatterns(t *testing.T) {
	const users = "users choose the names there"
	tests := []struct{ path, reason string }{
		{`/[^/]+/job_([0-9]+)`, users},
		{`/.*/.*/([0-9]+)`, users},
		{`/.*\.service/job_([0-9]+)`, users},
		{`/[a-z]+\.service/job_([0-9]+)`, users},
		{`/system\.slice/.+\.service/job_([0-9]+)`, users},
		{`/(?:.+\.slice)/(?:.+)/job_([0-9]+)`, users},
		{`/.+\.scope/(.+)`, users},
		{`/[0-9]+/job_(.+)`, users},
		{`/docker-[0-9a-f]+\.scope/job_(.+)`, users},
		{`/docker/[0-9a-f]{64}/job_(.+)`, users},
		{`/lxc/.+/job_(.+)`, users},
		{`/lxc\.payload\.[^/]+/job_(.+)`, users},
		{`/machine\.slice/[^/]+/job_(.+)`, users},
		{`/kubepods/.*/(.+)`, users},
		{`/user\.slice/user-500\.slice/user@500\.service/shell-0-(.+)\.service`, "add a line uid"},
		{`/user\.slice/user-[0-9]+\.slice/user@([0-9]+)\.service`, "add a line uid"},
		{`/user@[0-9]+\.service/shell-0-(.+)\.service`, users},
		{`/user\.slice/[^/]+/[^/]+/([^/]+)`, "add a line uid"},
		{`/pbs_jobs\.service/jobid`, "has 0 groups"},
		{`/(pbs)/(.+)`, "has 2 groups"},
		{`/pbs/(?P<uid>[0-9]+)`, "has 0 groups"},
		{`/oar/job_([0-9]+)/uid_(?P<uid>[0-9]+)`, "because the unit itself chooses the names"},
		{`/pbs/(.+/.+)`, "no group may contain /"},
		{`/pbs/(`, "is not a regexp"},
		{`/pbs//(.+)`, "has an empty segment"},
		{`/)(`, "is not a regexp"},
		{`/job)|(.+`, "is not a regexp"},
		{`/pbs/(.+)/`, "has an empty segment"},
		{`pbs/(.+)`, "must begin with /"},
		{`.*/pbs/(.+)`, "must begin with /"},
		{``, "must begin with /"},
	}
	for _, tt := range tests {
		p, err := parsePattern(tt.path)
		if err == nil {
			err = p.check()
		}
		if err == nil || !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("%s: %v, want an error with %q", tt.path, err, tt.reason)
		}
	}
	for _, path := range []string{
		`/pbs_jobs\.service/jobid/([^/]+)`, `^/gpuledger-hardware/([^/]+)`, `/oar/.*_([0-9]+)`, `/shell-[0-9]+-([^/.]+)\.service`, `/batch\.slice/batch-(.+)\.slice`,
		`/lsf/[^/]+/job\.([0-9]+)\..*`, `/train-(.+)\.service`, `/batchd\.service/(?P<uid>[0-9]+)-(.+)`,
	} {
		if p, err := parsePattern(path); err != nil || p.check() != nil {
			t.Errorf("%s: %v, %v, want no error", path, err, p.check())
		}
	}
}

// FuzzPattern checks that an accepted path never finds a unit below the cgroups of a user.
func FuzzPattern(f *testing.F) {
	for _, s := range []string{`/[^/]+/job_(.+)`, `/.*\.service/(.+)`, `/pbs/(.+)`, `/user.*/(.+)`, `/[a-y]+/(.+)`, `/)(`, `/job)|(.+`} {
		f.Add(s, "job_1/a")
	}
	f.Fuzz(func(t *testing.T, path, below string) {
		p, err := parsePattern(path)
		if err != nil || p.check() != nil || strings.Contains(below, "\n") || strings.HasSuffix(below, " (deleted)") {
			return
		}
		parser := parser{managers: append([]Manager{{Name: "x", Paths: []Pattern{p}}}, last...)}
		for _, owned := range []string{"/user.slice/user-77.slice/user@77.service", "/user.slice/user-77.slice/session-4.scope"} {
			if m, _ := parser.parse("0::" + owned + "/" + below); m.manager != User || m.id != "77" {
				t.Errorf("%q: %s/%s belongs to %s/%s", path, owned, below, m.manager, m.id)
			}
		}
	})
}

// TestTrustedUser checks that a manager with a trusted user finds units below this user's systemd instance, but not
// below the instances of other users.
func TestTrustedUser(t *testing.T) {
	flux, err := parseManager("flux.conf", "flux.conf", "uid = 500\npath = /(?:imp-)?shell-[0-9]+-(.+)\\.service")
	if err != nil {
		t.Fatal(err)
	}
	p := parser{managers: append([]Manager{flux}, BuiltInManagers()...)}
	job, user := match{manager: "flux", id: "f2rKx9"}, match{manager: User, id: "500"}
	const own = "/user.slice/user-500.slice/user@500.service"
	tests := []struct {
		name, path string
		want       match
	}{
		{"a job", own + "/imp-shell-0-f2rKx9.service", job},
		{"a job in a slice", own + "/app.slice/shell-3-f2rKx9.service/sub", job},
		{"a job in the system", "/system.slice/shell-0-f2rKx9.service", job},
		{"a job below a service", own + "/x.service/shell-0-f2rKx9.service", user},
		{"another service", own + "/dbus.service", user},
		{"an instance of another user", "/user.slice/user-500.slice/user@501.service/shell-0-f2rKx9.service", user},
		{"a session", "/user.slice/user-500.slice/session-1.scope/shell-0-f2rKx9.service", user},
		{"a container", own + "/user.slice/docker-" + containerID + ".scope", user},
		{"another user", "/user.slice/user-501.slice/user@501.service/shell-0-f2rKx9.service", match{manager: User, id: "501"}},
		{"another user's imitation", "/user.slice/user-501.slice/user@501.service" + own + "/shell-0-f2rKx9.service", match{manager: User, id: "501"}},
		{"another user's imitation of the systemd instance", "/user.slice/user-501.slice/user@500.service/shell-0-f2rKx9.service", match{manager: User, id: "501"}},
		{"a machine's user", "/lxc.payload.a" + own + "/shell-0-f2rKx9.service", match{manager: "lxc", id: "a"}},
		{"a service's imitation", "/system.slice/x.service" + own + "/shell-0-f2rKx9.service", match{manager: Systemd, id: "x"}},
	}
	for _, tt := range tests {
		if got, _ := p.parse("0::" + tt.path + "\n"); got != tt.want {
			t.Errorf("%s: %s belongs to %s/%s, want %s/%s", tt.name, tt.path, got.manager, got.id, tt.want.manager, tt.want.id)
		}
	}
}

func TestLoadManagers(t *testing.T) {
	shared, own := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(shared, "pbs.conf"), "path = /shared/(.+)\n", 0o644)
	writeFile(t, filepath.Join(shared, "batchd.conf"), "# batchd\n\nunit = job = id\n path=/batchd/.*_([0-9]+)\nuid = 7\n", 0o644)
	writeFile(t, filepath.Join(own, "pbs.conf"), "path = /own/(.+)\npath = /other/(.+)\nheld = /run/pbs\n", 0o644)
	writeFile(t, filepath.Join(own, "README"), "no manager", 0o644)
	writeFile(t, filepath.Join(own, "pbs.conf.dpkg-old"), "no manager", 0o644)
	all, err := LoadManagers([]string{filepath.Join(own, "missing"), shared, own})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all {
		for _, p := range m.Paths {
			if m.File != BuiltIn {
				got = append(got, strings.Join([]string{m.Name, m.Unit, p.text, strings.Join(m.UIDs, " "), strings.Join(m.Held, " "), filepath.Base(filepath.Dir(m.File))}, "|"))
			}
		}
	}
	ownDir, sharedDir := filepath.Base(own), filepath.Base(shared)
	want := []string{`batchd|job = id|/batchd/.*_([0-9]+)|7||` + sharedDir, `pbs|unit|/own/(.+)||/run/pbs|` + ownDir, `pbs|unit|/other/(.+)||/run/pbs|` + ownDir}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("managers of files (-want +got):\n%s", diff)
	}
	place := slices.IndexFunc(builtIn, named("pbs")) + 1 // the new manager comes first
	if i := slices.IndexFunc(all, named("pbs")); all[0].Name != "batchd" || i != place {
		t.Errorf("the first manager is %s, pbs is at %d, want batchd and %d", all[0].Name, i, place)
	}
	if n, names := len(all), Names(all); n != len(builtIn)+1+len(last) || len(names) != n {
		t.Errorf("%d managers %v, want each manager once", n, names)
	}
}

func TestBrokenManagers(t *testing.T) {
	tests := []struct{ file, text, want string }{
		{"pbs.conf", "# x\npath /pbs/(.+)\n", `/pbs.conf:2: "path /pbs/(.+)": must be name = value, or begin with #`},
		{"pbs.conf", "\n\npath = /[^/]+/(.+)", "/pbs.conf:3: path = "},
		{"pbs.conf", "path = /pbs/(.+)\npaths = /pbs/(.+)", `/pbs.conf:2: "paths" is unknown: must be unit, path, uid or held`},
		{"pbs.conf", "path = /pbs/(.+)\nuid = pbs", `/pbs.conf:2: uid = "pbs": must be the number of a user other than root`},
		{"pbs.conf", "uid = 0", "/pbs.conf:1: uid = "},
		{"pbs.conf", "held = run/pbs", "/pbs.conf:1: held = "},
		{"pbs.conf", "unit =", "/pbs.conf:1: "},
		{"pbs.conf", "unit = job\nunit = user", "/pbs.conf:2: unit is set twice"},
		{"pbs.conf", "unit = job", "/pbs.conf: has no path: add a line path"},
		{"PBS.conf", "path = /pbs/(.+)", "rename the file"},
		{"user.conf", "path = /pbs/(.+)", "rename the file"},
		{".conf", "path = /pbs/(.+)", "rename the file"},
		{"pbs.conf", strings.Repeat("#\n", maxManagerFile), "more than 65536 bytes"},
	}
	for _, tt := range tests {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, tt.file), tt.text, 0o644)
		if _, err := LoadManagers([]string{dir}); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s with %.40q: %v, want an error with %q and the directory", tt.file, tt.text, err, tt.want)
		}
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "pbs.conf"), "path = /pbs/(.+)", 0o666)
	if _, err := LoadManagers([]string{dir}); err == nil || !strings.Contains(err.Error(), "must be writable by its owner only") {
		t.Errorf("a file that all users can write: %v, want an error", err)
	}
}

func named(name string) func(Manager) bool {
	return func(m Manager) bool { return m.Name == name }
}

func writeFile(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// TestNearest checks patterns that match a path at several places. The exporter would reject these patterns in a file.
func TestNearest(t *testing.T) {
	pattern := func(name, path string) Manager {
		p, err := parsePattern(path)
		if err != nil {
			t.Fatal(err)
		}
		return Manager{Name: name, Paths: []Pattern{p}}
	}
	p := parser{managers: append([]Manager{
		pattern("deep", `/docker/.*/job_(.+)`), pattern("users", `/batch\.slice/user@.*\.service/(.+)`), pattern("root", `^/top/(.+)`), pattern("first", `/q/(.+)`), pattern("second", `/q/(.+)`),
	}, BuiltInManagers()...)}
	tests := []struct {
		name, path string
		want       match
	}{
		{"a unit nearer to the root", "/docker/" + containerID + "/job_1", match{manager: Docker, id: containerID}},
		{"below a user", "/batch.slice/user@7.service/j1", match{}},
		{"at the root", "/top/a", match{manager: "root", id: "a"}},
		{"at the root of a cgroup namespace", "/../top/a", match{manager: "root", id: "a"}},
		{"not at the root", "/batch.slice/top/a", match{}},
		{"the first manager", "/q/a", match{manager: "first", id: "a"}},
		{"an escaped name", `/q/a\x2db`, match{manager: "first", id: "a-b"}},
		{"an escaped slash", `/q/a\x2fb`, match{manager: "first", id: `a\x2fb`}},
		{"an escaped line feed", `/q/a\x0ab`, match{}},
	}
	for _, tt := range tests {
		if got, _ := p.parse("0::" + tt.path + "\n"); got != tt.want {
			t.Errorf("%s: %s belongs to %s/%q, want %s/%q", tt.name, tt.path, got.manager, got.id, tt.want.manager, tt.want.id)
		}
	}
}
