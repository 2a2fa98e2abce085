package unit

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestRootlessFiles checks that a user's container gets a name only if the content of the file <dir>/<uid> is valid.
func TestRootlessFiles(t *testing.T) {
	const id, foreign = "aaaaaaaaaaaa0000000000000000000000000000000000000000000000000001", "bbbbbbbbbbbb0000000000000000000000000000000000000000000000000002"
	own, other := strconv.Itoa(os.Geteuid()), strconv.Itoa(os.Geteuid()+1)
	tests := []struct{ name, account, text, want string }{
		{"name and image", own, id + " train docker.io/library/pytorch:2\n", "train@" + own + " docker.io/library/pytorch:2"},
		{"no image", own, id + " train\n", "train@" + own + " "},
		{"several names", own, id + " train,web/db image\n", "train@" + own + " image"},
		{"the first line is used", own, id + " train a\n" + id + " other b\n", "train@" + own + " a"},
		{"after invalid lines", own, "\n\n " + id + " x\n" + id + "\n" + id + " train a\n", "train@" + own + " a"},
		{"the file of another user", other, id + " train image\n", " "},
		{"another container", own, foreign + " train image\n", " "},
		{"the start of the id", own, id[:12] + " train image\n", " "},
		{"another user's suffix", own, id + " train@" + other + " image\n", " "},
		{"the name of a path", own, id + " ../train image\n", " "},
		{"not printable", own, id + " \x1b[2J image\n", " "},
		{"an image name that is not printable", own, id + " train \x1b[2J\n", "train@" + own + " "},
		{"a long name", own, id + " " + strings.Repeat("x", 129) + " image\n", " "},
		{"an incomplete line", own, id + " trai", " "},
		{"too large", own, id + " train image\n" + strings.Repeat("x", 64<<10), " "},
		{"empty", own, "", " "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, tt.account), tt.text)
			wantRootless(t, dir, match{manager: Podman, id: id, account: tt.account}, tt.want)
		})
	}
	c := match{manager: Podman, id: id, account: own}
	dir := t.TempDir()
	wantRootless(t, dir, c, " ") // no file
	write(t, filepath.Join(dir, "elsewhere"), id+" secret image\n")
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, own)); err != nil {
		t.Fatal(err)
	}
	wantRootless(t, dir, c, " ")
	dir = t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, own), 0o644); err != nil {
		t.Fatal(err)
	}
	wantRootless(t, dir, c, " ")
}

func wantRootless(t *testing.T, dir string, c match, want string) {
	t.Helper()
	m := &Mapper{cfg: Config{RootlessDir: dir}}
	all := m.readRootless(map[string][]match{c.account: {c}})
	got := all[c.account+"/"+c.id]
	if got.name+" "+got.image != want || len(all) > 1 {
		t.Errorf("containers %+v, want %q", all, want)
	}
	for _, m := range []*Mapper{{}, {cfg: Config{RootlessDir: dir, Users: UsersNone}}} {
		if all := m.readRootless(map[string][]match{c.account: {c}}); len(all) > 0 {
			t.Errorf("there are containers without a directory or without users: %+v", all)
		}
	}
}
