package ask_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive"
	"github.com/gpuledger/gpuledger/internal/archive/ask"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// TestTimes checks every pair of flags that select a time. Either the command accepts both flags, or the error names
// both.
func TestTimes(t *testing.T) {
	folder := books(t)
	values := map[string]string{"month": "2026-10", "from": "2026-10-01", "to": "2026-10-03", "since": "40d", "at": "2026-10-02T12:00"}
	together := map[string][]string{ // pairs of flags that may be used together, by command
		"where": {"from to", "since to", "at from", "at since"}, "history": {"from to", "since to"}, "ran": {"from to", "since to"},
		"statement": {"from to", "since to"}, "idle": {"from to", "since to"}, "verify": {"from to", "since to"},
		"moves": {"from to", "since to"}, "missing": {"from to", "since to"}, "report": {"from to", "since to"},
	}
	for question, pairs := range together {
		for a, first := range values {
			for b, second := range values {
				pair := a + " " + b
				args := []string{question, "--books=" + folder, "--" + a + "=" + first, "--" + b + "=" + second}
				if slices.Contains([]string{"where", "history", "ran", "report"}, question) {
					args = append(args, "1653924023101")
				}
				r := run(t, args...)
				unknown := strings.Contains(r.err, "flag provided but not defined")
				both := strings.Contains(r.err, "--"+a) && strings.Contains(r.err, "--"+b)
				switch valid := slices.Contains(pairs, pair); {
				case a >= b || unknown:
				case valid && r.status == 2, !valid && (r.status != 2 || !both):
					t.Errorf("%s --%s --%s: exit status %d, valid: %v\n%s", question, a, b, r.status, valid, r.err)
				}
			}
		}
	}
}

// TestFiling checks that the completion suggests every command that [archive.Parse] accepts, and that none of these
// commands is a question.
func TestFiling(t *testing.T) {
	_, err := archive.Parse([]string{"unknown"})
	if err == nil {
		t.Fatal("an unknown command is accepted")
	}
	_, text, _ := strings.Cut(err.Error(), "must be ")
	commands := strings.FieldsFunc(strings.ReplaceAll(text, " or ", ", "), func(c rune) bool { return c == ',' || c == ' ' })
	if len(commands) < 6 {
		t.Errorf("%v names the commands %q", err, commands)
	}
	all := run(t, "completion", "fish").out
	for _, command := range commands {
		if ask.Answers(command) || !strings.Contains(all, command) {
			t.Errorf("%s is a question, or the completion lacks it", command)
		}
	}
}

// TestPrefix checks the names that are suggested for a prefix.
func TestPrefix(t *testing.T) {
	h := &table.Hour{}
	for i := range 12 {
		h.GPUs = append(h.GPUs, table.GPU{
			Node: "node-a", UUID: fmt.Sprintf("GPU-%x0c1d2e3f-77", i), Serial: fmt.Sprintf("16539240231%02d", i), First: october, Last: october, Scrapes: 1,
		})
	}
	folder := archived(t, h)
	for name, want := range map[string]string{
		"GPU-b0c1":     "did you mean GPU-b0c1d2e3f-77?",
		"gpu-B0C1":     "did you mean GPU-b0c1d2e3f-77?",
		"165392402311": "did you mean 1653924023110, 1653924023111?",
		"1653924":      "did you mean 1653924023100, 1653924023101, 1653924023102, 1653924023103, 1653924023104, or one of 7 more names that begin with \"1653924\"?",
		"nod":          "did you mean node-a?",
	} {
		run(t, "where", name, "--books="+folder).has(1, want)
	}
}

func TestTwoGPUs(t *testing.T) {
	h := &table.Hour{}
	for _, uuid := range []string{"GPU-a", "GPU-b"} {
		h.GPUs = append(h.GPUs, table.GPU{Node: "n1", UUID: uuid, Serial: "S1", First: october, Last: october, Scrapes: 1})
		h.Charges = append(h.Charges, table.Charge{Node: "n1", UUID: uuid, Serial: "S1", Namespace: "ml", Pod: "p", PodUID: "u", Energy: kWh})
	}
	folder := archived(t, h)
	for _, question := range []string{"where", "history", "ran", "report"} {
		run(t, question, "S1", "--books="+folder).has(0, "UUID", "GPU-a", "GPU-b")
	}
	run(t, "where", "1653924023101", "--books="+books(t), "--to=2026-10-03").lacks("UUID")
}

func TestConnection(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	check(t, closed.Close())
	serve := func(answer http.HandlerFunc) string {
		s := httptest.NewServer(answer)
		t.Cleanup(s.Close)
		return s.URL
	}
	login := serve(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "\n<!DOCTYPE html><html><title>Sign in</title></html>")
	})
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", code) }
	}
	const hint = "--store.http.config.file"
	for name, tt := range map[string]struct {
		url   string
		wants []string
	}{
		"no store":   {"http://" + closed.Addr().String(), []string{"connection refused", "--store.url", "--books"}},
		"login page": {login, []string{"a web page", "login", hint}},
		"redirect to a login": {serve(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, login+"/login?from=x", http.StatusFound)
		}), []string{"a web page", login + "/login", "login", hint}},
		"page without a type": {serve(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = io.WriteString(w, "  <html><body>sign in</body></html>")
		}), []string{"a web page", hint}},
		"not a store": {serve(status(404)), []string{"404", "--store.url"}},
		"401":         {serve(status(401)), []string{"401", "credentials", hint}},
		"403":         {serve(status(403)), []string{"403", "credentials", hint}},
	} {
		r := run(t, "where", "S1", "--store.url="+tt.url)
		r.has(1, append(tt.wants, tt.url)...)
		if strings.Contains(r.err, "invalid character") || strings.Count(r.err, "\n") != 1 {
			t.Errorf("%s: %s", name, r.err)
		}
	}
}

// TestPlugin checks that kubectl's completion offers questions, flags and formats. It runs kubectl_complete-gpuledger
// with the words that follow the plugin's name. The output must contain one completion per line, and then a directive
// of cobra's protocol.
func TestPlugin(t *testing.T) {
	dir := t.TempDir()
	out, err := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir, "../../../cmd/gpuledger-archive").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	plugin := filepath.Join(dir, "kubectl_complete-gpuledger")
	check(t, os.Symlink("gpuledger-archive", plugin))
	for words, want := range map[string]string{
		"wh":                "where\n:4\n",
		"where --store.ur":  "--store.url=\n:2\n",
		"statement --mon":   "--month=\n:2\n",
		"statement --month": "--month=\n:2\n",
		"where -o":          "-o=\n:2\n",
		"completion z":      "zsh\n:4\n",
		"where 1653":        ":0\n",
		"unknown --x":       ":0\n",
		"once --x":          ":0\n",
	} {
		execute(t, plugin, strings.Fields(words)...).prints(0, want)
	}
	execute(t, plugin, "").has(0, "where\n", "completion\n", ":4\n")
	for name, program := range map[string]string{"gpuledger-archive": "gpuledger-archive", "kubectl-gpuledger": "kubectl gpuledger"} {
		path := filepath.Join(dir, name)
		if name != "gpuledger-archive" {
			check(t, os.Symlink("gpuledger-archive", path))
		}
		execute(t, path, "stat").has(2, "did you mean statement?")
		execute(t, path, "qqqq").has(2, "or a question (help lists the questions)\n")
		execute(t, path, "help").has(0, program+" where")
		execute(t, path, "wheer", "S1").has(2, `unknown command "wheer"`, "did you mean where?", program+" where", "statement", "verify", "once")
	}
}

func execute(t *testing.T, path string, args ...string) result {
	t.Helper()
	c := exec.Command(path, args...)
	var out, errors bytes.Buffer
	c.Stdout, c.Stderr = &out, &errors
	_ = c.Run() // the result contains the exit status
	return result{t, append([]string{filepath.Base(path)}, args...), c.ProcessState.ExitCode(), out.String(), errors.String()}
}

var completed = map[string]string{"gpuledger-archive sta": "statement", "gpuledger-archive statement --mon": "--month"}

// shell skips the test if zsh or fish is missing. The timeout ends a shell that waits for input because there is no
// completion.
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

func completion(t *testing.T, name, file string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), file)
	check(t, os.WriteFile(path, []byte(run(t, "completion", name).out), 0o600))
	return path
}

func TestBashAndFish(t *testing.T) {
	for words, want := range completed {
		for name, script := range map[string]string{
			"bash": "COMP_WORDS=(" + words + "); COMP_CWORD=" + strconv.Itoa(len(strings.Fields(words))-1) + `; _gpuledger_archive; printf '%s\n' "${COMPREPLY[@]}"`,
			"fish": "complete -C '" + words + "'",
		} {
			t.Run(name, func(t *testing.T) {
				out := shell(t, name, "source "+completion(t, name, "completion")+"; "+script, map[string]string{"bash": "--norc", "fish": "--no-config"}[name])
				if strings.TrimRight(out, "=\n") != want {
					t.Errorf("%s: got %q, want %q", words, out, want)
				}
			})
		}
	}
}

// TestZsh checks the completion in an interactive zsh. The script is in a folder of functions, or the shell reads it as
// a file. zsh's completion system is on or off.
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
