package simnode

import (
	"os"
	"path/filepath"
)

// replaceFile puts a file in place in one go: a reader sees the old content or
// the new, never a part.
func replaceFile(path string, data []byte) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, data, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// writeFiles writes files with the given contents, a newline added, into a
// directory that is made for them.
func writeFiles(dir string, files map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}
