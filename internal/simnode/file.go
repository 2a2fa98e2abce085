package simnode

import (
	"os"
	"path/filepath"
)

// replaceFile is atomic: a reader gets either the old or the new content.
func replaceFile(path string, data []byte) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, data, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// writeFiles appends a newline to the content of each file.
func writeFiles(dir string, files map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// link creates a relative symbolic link, as the kernel does in /sys. from and to are paths below dir.
func link(dir, from, to string) error {
	relative, err := filepath.Rel(filepath.Dir(from), filepath.Dir(to))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(from)), 0o755); err != nil {
		return err
	}
	return os.Symlink(filepath.Join(relative, filepath.Base(to)), filepath.Join(dir, from))
}
