package unit

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// TestJobNames checks which files can name a job. A malformed file must not be an error, because users could cause
// alerts with it.
func TestJobNames(t *testing.T) {
	own := strconv.Itoa(os.Geteuid())
	other := strconv.Itoa(os.Geteuid() + 1)
	for _, tt := range []struct{ name, uid, text, want string }{
		{"name and element", own, "name=train\narray=2_4\n", "train 2_4"},
		{"name only", own, "name=a b=c\narray=\n", "a b=c "},
		{"the job of another user", other, "name=train\narray=2_4\n", " "},
		{"no user", "", "name=train\n", " "},
		{"unknown names", own, "account=physics\nuid=0\n", " "},
		{"not printable", own, "name=\x1b[2J\narray=2_4\n", " 2_4"},
		{"no element", own, "name=train\narray=2_[1-4]\n", "train "},
		{"too long", own, "name=" + strings.Repeat("x", 5000), " "},
		{"empty", own, "", " "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "jobs/4711"), "uid="+tt.uid+"\n")
			write(t, filepath.Join(dir, "names/4711"), tt.text)
			files, err := readPrologFiles(slurmDirs(dir), Index)
			if err != nil {
				t.Errorf("error %v", err)
			}
			info := files.infos["4711"]
			if got := info.JobName + " " + info.ArrayElement; got != tt.want || info.Account != "" || info.UID != tt.uid {
				t.Errorf("%+v, want the names %q", info, tt.want)
			}
		})
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "jobs/4711"), "uid="+own+"\n")
	write(t, filepath.Join(dir, "elsewhere"), "name=secret\n")
	write(t, filepath.Join(dir, "names/4710"), "name=x\n")
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "names/4711")); err != nil {
		t.Fatal(err)
	}
	if files, err := readPrologFiles(slurmDirs(dir), Index); err != nil || files.infos["4711"].JobName != "" {
		t.Errorf("a link names a job: %+v, %v", files.infos["4711"], err)
	}
	m := Mapper{cfg: Config{Users: UsersNone}}
	if got := m.withUsers(gpu.UnitInfo{JobName: "ada-thesis", Account: "physics"}); got != (gpu.UnitInfo{Account: "physics"}) {
		t.Errorf("%+v without data about users", got)
	}
}
