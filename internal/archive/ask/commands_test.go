package ask_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive"
	"github.com/gpuledger/gpuledger/internal/archive/ask"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// TestTimes checks every pair of flags that select a time. The pair must be accepted, or the error must contain both
// flags.
func TestTimes(t *testing.T) {
	folder := books(t)
	values := map[string]string{"month": "2026-10", "from": "2026-10-01", "to": "2026-10-03", "since": "40d", "at": "2026-10-02T12:00"}
	together := map[string][]string{ // flags that together select one time, by question
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

// TestFiling checks that the completion suggests every command that [archive.Parse] accepts, and that none of them is a
// question.
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

// TestPrefix checks the suggestions for the start of a name: the only name that matches, or some of many names that
// match.
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
		if r := run(t, "where", name, "--books="+folder); r.status != 1 || !strings.Contains(r.err, want) {
			t.Errorf("%s: exit status %d, no %q in\n%s", name, r.status, want, r.err)
		}
	}
}

// TestTwoGPUs checks that the rows for the two GPUs of a board differ in a printed column.
func TestTwoGPUs(t *testing.T) {
	h := &table.Hour{}
	for _, uuid := range []string{"GPU-a", "GPU-b"} {
		h.GPUs = append(h.GPUs, table.GPU{Node: "n1", UUID: uuid, Serial: "S1", First: october, Last: october, Scrapes: 1})
		h.Charges = append(h.Charges, table.Charge{Node: "n1", UUID: uuid, Serial: "S1", Namespace: "ml", Pod: "p", PodUID: "u", Energy: kWh})
	}
	folder := archived(t, h)
	for _, question := range []string{"where", "history", "ran", "report"} {
		r := run(t, question, "S1", "--books="+folder)
		if r.status != 0 || !strings.Contains(r.out, "UUID") || !strings.Contains(r.out, "GPU-a") || !strings.Contains(r.out, "GPU-b") {
			t.Errorf("%s: exit status %d\n%s%s", question, r.status, r.out, r.err)
		}
	}
	if r := run(t, "where", "1653924023101", "--books="+books(t), "--to=2026-10-03"); strings.Contains(r.out, "UUID") {
		t.Errorf("one GPU:\n%s", r.out)
	}
}

// TestConnection checks that errors about a store contain its URL and the flag that solves the problem.
func TestConnection(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	check(t, closed.Close())
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "\n<!DOCTYPE html><html><title>Sign in</title></html>")
	}))
	defer login.Close()
	serve := func(answer http.HandlerFunc) string {
		s := httptest.NewServer(answer)
		t.Cleanup(s.Close)
		return s.URL
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", code) }
	}
	const hint = "--store.http.config.file"
	for name, tt := range map[string]struct {
		url   string
		wants []string
	}{
		"no store":   {"http://" + closed.Addr().String(), []string{"connection refused", "--store.url", "--books"}},
		"login page": {login.URL, []string{"a web page", "login", hint}},
		"redirect to a login": {serve(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, login.URL+"/login?from=x", http.StatusFound)
		}), []string{"a web page", login.URL + "/login", "login", hint}},
		"page without a type": {serve(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = io.WriteString(w, "  <html><body>sign in</body></html>")
		}), []string{"a web page", hint}},
		"not a store": {serve(status(404)), []string{"404", "--store.url"}},
		"401":         {serve(status(401)), []string{"401", "credentials", hint}},
		"403":         {serve(status(403)), []string{"403", "credentials", hint}},
	} {
		r := run(t, "where", "S1", "--store.url="+tt.url)
		for _, want := range append(tt.wants, tt.url) {
			if r.status != 1 || !strings.Contains(r.err, want) || strings.Contains(r.err, "invalid character") || strings.Count(r.err, "\n") != 1 {
				t.Errorf("%s: exit status %d, no %q in %s", name, r.status, want, r.err)
			}
		}
	}
}

// TestPlugin checks that kubectl's completion offers questions, flags and formats. The test runs
// kubectl_complete-gpuledger with the words after the name of the plugin, the last of which is incomplete. The output
// must contain one line per completion, followed by a directive of cobra's protocol.
func TestPlugin(t *testing.T) {
	dir := t.TempDir()
	out, err := exec.Command("go", "build", "-trimpath", "-ldflags", "-w", "-o", dir, "../../../cmd/gpuledger-archive").CombinedOutput()
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
		out, err := exec.Command(plugin, strings.Fields(words)...).Output()
		if err != nil || string(out) != want {
			t.Errorf("%s: %v, got %q, want %q", words, err, out, want)
		}
	}
	out, _ = exec.Command(plugin, "").Output()
	for _, want := range []string{"where\n", "completion\n", ":4\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no words: no %q in %q", want, out)
		}
	}
	for name, program := range map[string]string{"gpuledger-archive": "gpuledger-archive", "kubectl-gpuledger": "kubectl gpuledger"} {
		path := filepath.Join(dir, name)
		if name != "gpuledger-archive" {
			check(t, os.Symlink("gpuledger-archive", path))
		}
		for words, want := range map[string]string{"stat": "did you mean statement?", "qqqq": "or a question\n"} {
			if out, _ := exec.Command(path, words).CombinedOutput(); !strings.Contains(string(out), want) {
				t.Errorf("%s %s: no %q in\n%s", name, words, want, out)
			}
		}
		if out, err := exec.Command(path, "help").Output(); err != nil || !strings.Contains(string(out), program+" where") {
			t.Errorf("%s help: %v\n%s", name, err, out)
		}
		c := exec.Command(path, "wheer", "S1")
		out, err := c.CombinedOutput()
		for _, want := range []string{`unknown command "wheer"`, "did you mean where?", program + " where", "statement", "verify", "once"} {
			if err == nil || c.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), want) {
				t.Errorf("%s wheer: exit status %d, no %q in\n%s", name, c.ProcessState.ExitCode(), want, out)
			}
		}
	}
}
