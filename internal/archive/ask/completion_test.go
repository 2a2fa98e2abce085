package ask_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// completed maps words to complete to the expected completion.
var completed = map[string]string{"gpuledger-archive sta": "statement", "gpuledger-archive statement --mon": "--month"}

// shell runs a script in a shell. If zsh or fish is missing, the test is skipped. A shell that waits for a completion
// without a result is killed.
func shell(t *testing.T, name, script string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && name == "bash" {
		t.Fatal(err)
	} else if err != nil {
		t.Skipf("%s is not installed", name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, path, append(args, "-c", script)...)
	c.Env = append(os.Environ(), "HOME="+t.TempDir(), "TERM=vt100")
	c.Dir = t.TempDir()
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

// completion writes a shell's completion script to a file, and returns the path of the file.
func completion(t *testing.T, name, file string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), file)
	check(t, os.WriteFile(path, []byte(run(t, "completion", name).out), 0o600))
	return path
}

// TestBash checks the completion in bash.
func TestBash(t *testing.T) {
	file := completion(t, "bash", "completion")
	for words, want := range completed {
		n := len(strings.Fields(words)) - 1
		out := shell(t, "bash", "source "+file+"; COMP_WORDS=("+words+"); COMP_CWORD="+strconv.Itoa(n)+`; _gpuledger_archive; printf '%s\n' "${COMPREPLY[@]}"`)
		if strings.TrimRight(out, "=\n") != want {
			t.Errorf("%s: got %q, want %q", words, out, want)
		}
	}
}

// TestFish checks the completion in fish.
func TestFish(t *testing.T) {
	file := completion(t, "fish", "completion")
	for words, want := range completed {
		if out := shell(t, "fish", "source "+file+"; complete -C '"+words+"'", "--no-config"); strings.TrimSpace(out) != want {
			t.Errorf("%s: got %q, want %q", words, out, want)
		}
	}
}

// TestZsh checks that an interactive zsh completes if the script is in a folder of functions, and if the shell reads
// the script, with or without zsh's completion system.
func TestZsh(t *testing.T) {
	file := completion(t, "zsh", "_gpuledger-archive")
	const initialize = "autoload -U compinit; compinit -u -D"
	for name, load := range map[string]string{
		"folder":     "fpath=(" + filepath.Dir(file) + ` \$fpath); ` + initialize,
		"read":       initialize + "; source " + file,
		"not loaded": "source " + file,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var typed strings.Builder
			for words, want := range completed {
				typed.WriteString(`zpty -w -n z $'\C-u'"` + words + `"$'\t'` + "\nzpty -r z seen '*" + want + "*'\n")
			}
			shell(t, "zsh", `zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PS1='<ready>'; `+load+`; echo lo''aded"
zpty -r z seen '*loaded*<ready>*'
`+typed.String()+"zpty -d z", "-f")
		})
	}
}
